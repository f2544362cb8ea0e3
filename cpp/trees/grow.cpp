#include "trees/grow.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "run/interrupt.hpp"

namespace cutlearn {

namespace {

constexpr double SLOPE = 16384.0;      // g in (-1, 1) as 16 bits
constexpr double CURVATURE = 65536.0;  // h in [0, 1/4] likewise
constexpr int BLOCK = 8;               // sums are made eight numbers at a time

struct Split {
  double gain = 0.0;
  std::int32_t feature = -1, bin = 0;
};

// The rows of a node are order[begin .. end); `sums` are its histograms, one after the other.
struct Open {
  std::int32_t node;
  std::int64_t begin, end;
  std::vector<std::int32_t> sums, counts;
  Split best;
};

class Grower {
 public:
  explicit Grower(const Growth& task)
      : task_(task),
        width_((2 * task.questions + BLOCK - 1) / BLOCK * BLOCK),
        slopes_(static_cast<std::size_t>(task.rows * width_), 0),
        logits_(static_cast<std::size_t>(task.rows * task.questions)),
        order_(static_cast<std::size_t>(task.rows)),
        other_(static_cast<std::size_t>(task.rows)) {
    for (std::int64_t i = 0; i < task.rows; ++i)
      std::copy(task.first.begin(), task.first.end(), logits_.begin() + i * task.questions);
  }

  Grown run() {
    for (std::int64_t round = 0; round < task_.rounds; ++round) {
      allow_interrupt();
      take_slopes();
      one_tree(task_.drawn.subspan(static_cast<std::size_t>(round * task_.tried),
                                   static_cast<std::size_t>(task_.tried)));
    }
    return std::move(grown_);
  }

 private:
  void take_slopes() {
    const std::int64_t T = task_.questions;
    for (std::int64_t i = 0; i < task_.rows; ++i)
      for (std::int64_t t = 0; t < T; ++t) {
        const double p = 1.0 / (1.0 + std::exp(-logits_[i * T + t]));
        // Once through 32 bits: the last bits of exp, which differ by machine, rarely survive.
        const auto g = static_cast<float>(p - task_.answers[i * T + t]);
        const auto h = static_cast<float>(p * (1.0 - p));
        slopes_[i * width_ + t] = static_cast<std::int16_t>(std::lround(g * SLOPE));
        slopes_[i * width_ + T + t] = static_cast<std::int16_t>(std::lround(h * CURVATURE));
      }
  }

  std::int32_t new_node() {
    const auto node = static_cast<std::int32_t>(grown_.feature.size());
    grown_.feature.push_back(-1);
    for (auto* part : {&grown_.bin, &grown_.left, &grown_.right}) part->push_back(0);
    grown_.value.resize(grown_.value.size() + static_cast<std::size_t>(task_.questions), 0.0);
    return node;
  }

  void one_tree(std::span<const std::int32_t> columns) {
    std::iota(order_.begin(), order_.end(), 0);
    std::vector<Open> open(1);
    open[0] = {new_node(), 0, task_.rows, {}, {}, {}};
    grown_.roots.push_back(open[0].node);
    add_up(open[0], columns);
    find_best(open[0], columns);
    while (static_cast<std::int64_t>(open.size()) < task_.leaves) {
      const auto best =
          std::max_element(open.begin(), open.end(),
                           [](const Open& a, const Open& b) { return a.best.gain < b.best.gain; });
      if (best->best.feature < 0) break;
      Open right = split(*best, columns);
      open.push_back(std::move(right));
    }
    for (const Open& leaf : open) close(leaf, columns);
  }

  // The left side takes the node's place in the list; the right one is given back.
  Open split(Open& parent, std::span<const std::int32_t> columns) {
    const Split at = parent.best;
    const std::uint8_t* bins = task_.bins.data() + at.feature * task_.rows;
    std::int64_t low = parent.begin, high = 0;
    for (std::int64_t k = parent.begin; k < parent.end; ++k) {
      const std::int32_t row = order_[k];
      if (bins[row] <= at.bin)
        order_[low++] = row;
      else
        other_[high++] = row;
    }
    std::copy(other_.begin(), other_.begin() + high, order_.begin() + low);
    const std::int32_t node = parent.node, left = new_node(), right = new_node();
    grown_.feature[node] = at.feature;
    grown_.bin[node] = at.bin;
    grown_.left[node] = left;
    grown_.right[node] = right;
    Open one{left, parent.begin, low, {}, {}, {}}, two{right, low, parent.end, {}, {}, {}};
    // The smaller side is added up, the other is what is left.
    Open& small = one.end - one.begin <= two.end - two.begin ? one : two;
    Open& large = &small == &one ? two : one;
    add_up(small, columns);
    large.sums = std::move(parent.sums);
    large.counts = std::move(parent.counts);
    for (std::size_t k = 0; k < small.sums.size(); ++k) large.sums[k] -= small.sums[k];
    for (std::size_t k = 0; k < small.counts.size(); ++k) large.counts[k] -= small.counts[k];
    find_best(one, columns);
    find_best(two, columns);
    parent = std::move(one);
    return two;
  }

  void add_up(Open& node, std::span<const std::int32_t> columns) {
    node.sums.assign(columns.size() * BINS * static_cast<std::size_t>(width_), 0);
    node.counts.assign(columns.size() * BINS, 0);
    for (std::size_t f = 0; f < columns.size(); ++f) {
      const std::uint8_t* bins = task_.bins.data() + columns[f] * task_.rows;
      std::int32_t* sums = node.sums.data() + f * BINS * static_cast<std::size_t>(width_);
      std::int32_t* counts = node.counts.data() + f * BINS;
      for (std::int64_t k = node.begin; k < node.end; ++k) {
        const std::int32_t row = order_[k];
        const std::int16_t* from = slopes_.data() + row * width_;
        std::int32_t* to = sums + bins[row] * width_;
        ++counts[bins[row]];
        for (std::int64_t b = 0; b < width_; b += BLOCK)
          for (int i = 0; i < BLOCK; ++i) to[b + i] += from[b + i];
      }
    }
  }

  double worth(const std::int32_t* sums) const {
    double total = 0.0;
    for (std::int64_t t = 0; t < task_.questions; ++t) {
      const double g = sums[t] / SLOPE;
      total += g * g / (sums[task_.questions + t] / CURVATURE + task_.l2);
    }
    return total;
  }

  void find_best(Open& node, std::span<const std::int32_t> columns) {
    const std::int64_t count = node.end - node.begin;
    if (count < 2 * task_.least) return;
    std::vector<std::int32_t> all(static_cast<std::size_t>(width_), 0), left(all), right(all);
    for (int b = 0; b < BINS; ++b)
      for (std::int64_t t = 0; t < width_; ++t) all[t] += node.sums[b * width_ + t];
    // What rounding alone can gain is no gain.
    const double now = worth(all.data()) * (1.0 + 1e-9) + 1e-9;
    for (std::size_t f = 0; f < columns.size(); ++f) {
      const std::int32_t* sums = node.sums.data() + f * BINS * static_cast<std::size_t>(width_);
      const std::int32_t* counts = node.counts.data() + f * BINS;
      std::fill(left.begin(), left.end(), 0);
      std::int64_t before = 0;
      for (std::int32_t b = 0; b + 1 < BINS; ++b) {
        if (counts[b] == 0) continue;
        before += counts[b];
        for (std::int64_t t = 0; t < width_; ++t) left[t] += sums[b * width_ + t];
        if (before < task_.least) continue;
        if (count - before < task_.least) break;
        for (std::int64_t t = 0; t < width_; ++t) right[t] = all[t] - left[t];
        const double gain = worth(left.data()) + worth(right.data()) - now;
        if (gain > node.best.gain) node.best = {gain, columns[f], b};
      }
    }
  }

  void close(const Open& leaf, std::span<const std::int32_t> columns) {
    const std::int64_t T = task_.questions;
    double* value = grown_.value.data() + leaf.node * T;
    for (std::int64_t t = 0; t < T; ++t) {
      std::int64_t g = 0, h = 0;
      for (int b = 0; b < BINS && !columns.empty(); ++b) {
        g += leaf.sums[b * width_ + t];
        h += leaf.sums[b * width_ + T + t];
      }
      value[t] = -task_.rate * (static_cast<double>(g) / SLOPE) /
                 (static_cast<double>(h) / CURVATURE + task_.l2);
    }
    for (std::int64_t k = leaf.begin; k < leaf.end; ++k)
      for (std::int64_t t = 0; t < T; ++t) logits_[order_[k] * T + t] += value[t];
  }

  const Growth& task_;
  const std::int64_t width_;  // numbers a row: g of all questions, then h, then zeros
  std::vector<std::int16_t> slopes_;
  std::vector<double> logits_;
  std::vector<std::int32_t> order_, other_;
  Grown grown_;
};

void check(const Growth& task) {
  if (task.rows < 1 || task.rows > MOST_ROWS || task.questions < 1 ||
      task.questions > MOST_QUESTIONS || task.leaves < 1 || task.least < 1 ||
      task.least > MOST_ROWS || task.tried < 1 || !(task.l2 > 0.0))
    throw std::invalid_argument("grow: G1 broken: too few or too many rows or questions");
  const auto at_bin = std::max_element(task.bins.begin(), task.bins.end());
  if (at_bin == task.bins.end() || *at_bin >= BINS)
    throw std::invalid_argument("grow: G2 broken: a bin beyond the last");
  for (const std::int32_t column : task.drawn)
    if (column < 0 || column >= task.columns)
      throw std::invalid_argument("grow: G2 broken: a column that is not there");
  for (const std::uint8_t answer : task.answers)
    if (answer > 1) throw std::invalid_argument("grow: G3 broken: an answer that is not 0 or 1");
}

}  // namespace

Grown grow(const Growth& task) {
  check(task);
  return Grower(task).run();
}

}  // namespace cutlearn
