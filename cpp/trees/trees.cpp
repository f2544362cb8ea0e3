#include "trees/trees.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "trees/masks.hpp"

namespace cutlearn {

namespace {

// One node in one cache access. A leaf points at itself on both sides, so lanes that arrive
// early may walk on without a branch.
struct Node {
  std::int64_t start;
  float threshold;
  std::int32_t left, right;
};

constexpr int LANES = 8;

struct Packed {
  std::vector<Node> nodes;
  std::vector<std::int32_t> depth;  // of every root: steps after which each lane is at a leaf
};

Packed pack(const Trees& trees, std::span<const std::int64_t> start) {
  const auto count = static_cast<std::int32_t>(trees.feature.size());
  Packed packed;
  packed.nodes.resize(static_cast<std::size_t>(count));
  std::vector<std::int32_t> height(static_cast<std::size_t>(count), 0);
  for (std::int32_t t = count - 1; t >= 0; --t) {  // children before parents, by T2
    if (trees.feature[t] < 0) {
      packed.nodes[t] = {start.empty() ? 0 : start[0], 0.0F, t, t};
    } else {
      packed.nodes[t] = {start[trees.feature[t]], trees.threshold[t], trees.left[t],
                         trees.right[t]};
      height[t] = 1 + std::max(height[trees.left[t]], height[trees.right[t]]);
    }
  }
  for (const auto root : trees.roots) packed.depth.push_back(height[root]);
  return packed;
}

// Writes the logits of `lanes` neighbouring pixels that start at `pixel`; those of a question lie
// `plane` numbers behind those of the one before. `sums` has room for all of them.
template <int lanes>
void add_all(const Trees& trees, const Packed& packed, const float* pixel, std::int64_t step,
             double* out, std::int64_t plane, std::vector<double>& sums) {
  const auto count = static_cast<std::int64_t>(trees.baseline.size());
  for (int i = 0; i < lanes; ++i)
    std::copy(trees.baseline.begin(), trees.baseline.end(), sums.begin() + i * count);
  for (std::size_t k = 0; k < trees.roots.size(); ++k) {
    std::array<std::int32_t, lanes> at;
    at.fill(trees.roots[k]);
    for (std::int32_t d = packed.depth[k]; d > 0; --d) {
      for (int i = 0; i < lanes; ++i) {
        const Node& node = packed.nodes[at[i]];
        at[i] = pixel[node.start + i * step] <= node.threshold ? node.left : node.right;
      }
    }
    for (int i = 0; i < lanes; ++i) {
      const double* value = trees.value.data() + at[i] * count;
      double* sum = sums.data() + i * count;
      for (std::int64_t q = 0; q < count; ++q) sum[q] += value[q];
    }
  }
  for (std::int64_t q = 0; q < count; ++q)
    for (int i = 0; i < lanes; ++i) out[q * plane + i] = sums[i * count + q];
}

}  // namespace

void check(const Trees& trees, const Columns& columns) {
  const std::size_t count = trees.feature.size();
  if (trees.left.size() != count || trees.right.size() != count || trees.baseline.empty() ||
      trees.value.size() != count * trees.baseline.size() || trees.threshold.size() != count)
    throw std::invalid_argument("trees: T1 broken: node arrays of different lengths");
  const auto nodes = static_cast<std::int64_t>(count);
  for (const std::int64_t root : trees.roots)
    if (root < 0 || root >= nodes)
      throw std::invalid_argument("trees: T1 broken: a root outside the nodes");
  const auto width = static_cast<std::int64_t>(columns.start.size());
  for (std::int64_t t = 0; t < nodes; ++t) {
    if (trees.feature[t] < 0) continue;
    if (trees.left[t] <= t || trees.left[t] >= nodes || trees.right[t] <= t ||
        trees.right[t] >= nodes)
      throw std::invalid_argument("trees: T2 broken: a child does not follow its parent");
    if (trees.feature[t] >= width)
      throw std::invalid_argument("trees: T3 broken: a feature beyond the columns");
  }
  if (columns.rows <= 0 || columns.cols <= 0) return;
  const auto size = static_cast<std::int64_t>(columns.buffer.size());
  // In floating point first: the product of these numbers may leave 64 bits.
  const double far = static_cast<double>(columns.step) *
                     (static_cast<double>(columns.rows - 1) * static_cast<double>(columns.stride) +
                      static_cast<double>(columns.cols - 1));
  if (columns.step <= 0 || columns.stride < 0 || size == 0 || far > 0x1p60)
    throw std::invalid_argument("trees: T4 broken: no room for the pixels");
  const std::int64_t reach =
      (columns.rows - 1) * columns.step * columns.stride + (columns.cols - 1) * columns.step;
  for (const std::int64_t start : columns.start)
    if (start < 0 || start >= size - reach)
      throw std::invalid_argument("trees: T4 broken: a column outside the buffer");
}

void evaluate(const Trees& trees, const Columns& columns, std::span<double> out) {
  const Packed packed = pack(trees, columns.start);
  const Masks masks(trees, columns.start);
  const bool together = columns.step == 1 && masks.fits();
  const std::int64_t plane = columns.rows * columns.cols;
  std::vector<double> sums(std::max(LANES, Masks::LANES) * trees.baseline.size());
  for (std::int64_t r = 0; r < columns.rows; ++r) {
    const float* row = columns.buffer.data() + r * columns.step * columns.stride;
    double* line = out.data() + r * columns.cols;
    std::int64_t c = 0;
    if (together)
      for (; c + Masks::LANES <= columns.cols; c += Masks::LANES)
        masks.add_all(row + c, line + c, plane, sums);
    for (; c + LANES <= columns.cols; c += LANES)
      add_all<LANES>(trees, packed, row + c * columns.step, columns.step, line + c, plane, sums);
    for (; c < columns.cols; ++c)
      add_all<1>(trees, packed, row + c * columns.step, columns.step, line + c, plane, sums);
  }
}

}  // namespace cutlearn
