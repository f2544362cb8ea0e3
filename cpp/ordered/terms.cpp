#include "ordered/terms.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace cutlearn {

namespace {

constexpr double kRounding = 1e-9;  // of the table's size: below it c < 0 counts as zero
constexpr double kDwarf = 256;      // unaries this much larger than the tables are limited

// The most that another label at the tail (or head) can save in a table.
double most_saved(const double* V, Id L, bool at_tail) {
  double most = 0;
  for (Id a = 0; a < L; ++a) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (Id b = 0; b < L; ++b) {
      const double x = at_tail ? V[b * L + a] : V[a * L + b];
      low = std::min(low, x);
      high = std::max(high, x);
    }
    most = std::max(most, high - low);
  }
  return most;
}

// Rewrites a table V as OrderedTerms::part says, except that the arcs' share is still in the
// unaries; gives what clamping c to >= 0 took in all.
inline Cap take_apart(Cap* V, Id L) {
  Cap clamped = 0;
  for (Id k = L - 1; k > 0; --k)
    for (Id l = L - 1; l > 0; --l) {
      const Cap c =
          V[(k - 1) * L + l] + V[k * L + l - 1] - V[(k - 1) * L + l - 1] - V[k * L + l];
      clamped -= std::min<Cap>(c, 0);
      V[k * L + l] = std::max<Cap>(c, 0);
    }
  for (Id k = L - 1; k > 0; --k) V[k * L] -= V[(k - 1) * L];
  for (Id l = L - 1; l > 0; --l) V[l] -= V[l - 1];
  return clamped;
}

// The part of a table V; gives the quanta that an edge with it is inexact by. A number of labels
// that is known beforehand, not 0, unrolls the loops.
template <Id known>
std::int64_t quantised(const double* V, Cap* part, Id labels, const Quantiser& q) {
  const Id L = known ? known : labels;
  bool rounded = false;
  for (Id i = 0; i < L * L; ++i) {
    part[i] = q.rounded(V[i]);
    rounded |= !q.is_exact(V[i], part[i]);
  }
  const Cap clamped = take_apart(part, L);
  for (Id k = 1; k < L; ++k)
    for (Id l = 1; l < L; ++l) {
      const ArcPair arcs = arcs_of(part[k * L + l], k, l);
      part[k * L] -= arcs.there;
      part[l] -= arcs.back;
    }
  return rounded + clamped;
}

double size_of(const double* V, Id L) {
  double size = 0;
  for (Id i = 0; i < L * L; ++i) size += std::abs(V[i]);
  return size;
}

std::vector<std::size_t> edge_counts(const OrderedInput& input) {
  if (!input.connectivity) return {input.edges.size() / 2};
  const GridShape grid = grid_shape(input.shape, false);
  std::vector<std::size_t> counts;
  for (const Offset& o : forward_offsets(input.connectivity)) {
    counts.push_back(0);
    for_runs(grid, o, [&](Id, std::size_t, Id n) { counts.back() += n; });
  }
  return counts;
}

double steps(const double* u, Id L) {
  double sum = std::abs(u[0]);
  for (Id l = 1; l < L; ++l) sum += std::abs(u[l] - u[l - 1]);
  return sum;
}

}  // namespace

OrderedTerms::OrderedTerms(const OrderedInput& input)
    : L(input.labels),
      pixels(static_cast<Id>(input.unary.size() / input.labels)),
      edges(edge_counts(input)) {
  survey(input);
  if (fault.what != OrderedFault::kNone) return;
  const bool dwarfs = edge_sum_ > 0 && node_sum_ > kDwarf * edge_sum_;
  if (dwarfs || !input.fixed.empty()) limit_unaries(input);
  // All terms, and the arcs that keep the order: each carries all terms of its pixel.
  scale = scale_for(node_sum_ + edge_sum_ + (L - 2) * (node_sum_ + 2 * edge_sum_));
  const double widest = node_most_ + 2 * static_cast<double>(edges.size()) * edge_most_;
  const double coarse = std::min(scale, std::ldexp(scale_for(widest), -31));
  narrow = input.connectivity && fits_narrow(input, coarse);
  if (narrow) scale = coarse;
  quantise(input);
}

bool OrderedTerms::fits_narrow(const OrderedInput& input, double coarse) const {
  const auto whole = [&](std::span<const double> x) { return all_multiples(x, coarse); };
  if (!whole(limited.empty() ? input.unary : limited)) return false;
  for (std::size_t d = 0; d < edges.size(); ++d)
    if (edges[d] &&
        !whole({input.tables[d].data, (input.tables[d].each ? edges[d] : 1) * square()}))
      return false;
  return true;
}

Id OrderedTerms::reach() const {
  Id most = 0;
  for (std::size_t i = 0; i < parts_.size(); i += square())
    for (Id k = 1; k < L; ++k)
      for (Id l = 1; l < L; ++l)
        if (parts_[i + k * L + l]) most = std::max(most, std::abs(k - l));
  return most;
}

void OrderedTerms::survey(const OrderedInput& input) {
  for (std::size_t i = 0; i < input.unary.size(); i += L) {
    const double sum = steps(input.unary.data() + i, L);
    node_sum_ += sum;
    node_most_ = std::max(node_most_, sum);
    if (std::isfinite(sum) || fault.what != OrderedFault::kNone) continue;
    for (std::size_t l = L; l-- > 0;)
      if (!std::isfinite(input.unary[i + l]))
        fault = {OrderedFault::kUnary, static_cast<std::int64_t>(i + l)};
  }
  for (std::size_t d = 0; d < edges.size(); ++d) {
    const Tables& tables = input.tables[d];
    for (std::size_t e = 0; e < (tables.each ? edges[d] : edges[d] > 0); ++e)
      survey_table(tables.data + e * square(), d, e, tables.each ? 1 : edges[d]);
  }
  if (fault.what == OrderedFault::kNone && !std::isfinite(6.0 * L * (node_sum_ + edge_sum_)))
    fault.what = OrderedFault::kRange;
}

void OrderedTerms::survey_table(const double* V, std::size_t direction, std::size_t edge,
                                std::size_t count) {
  const auto report = [&](OrderedFault::What what, Id a, Id b, double amount) {
    if (fault.what == OrderedFault::kNone || fault.what == OrderedFault::kNotSubmodular)
      fault = {what,  static_cast<std::int64_t>(edge), static_cast<std::int64_t>(direction), a, b,
               amount};
  };
  double sum = std::abs(V[0]);
  for (Id k = 1; k < L; ++k) {
    sum += std::abs(V[k * L] - V[(k - 1) * L]) + std::abs(V[k] - V[k - 1]);
    for (Id l = 1; l < L; ++l) {
      const double c =
          (V[(k - 1) * L + l] + V[k * L + l - 1]) - (V[(k - 1) * L + l - 1] + V[k * L + l]);
      sum += 2 * std::abs(c);  // an arc and the unary that goes with it
      if (c < 0 && c < fault.amount && c < -kRounding * size_of(V, L))
        report(OrderedFault::kNotSubmodular, k - 1, l - 1, c);
    }
  }
  edge_sum_ += static_cast<double>(count) * sum;
  edge_most_ = std::max(edge_most_, sum);
  if (std::isfinite(sum)) return;
  for (Id i = 0; i < L * L; ++i)
    if (!std::isfinite(V[i])) return report(OrderedFault::kTable, i / L, i % L, V[i]);
}

// ensures no pixel chooses a label that was limited, and every fixed pixel chooses its own
void OrderedTerms::limit_unaries(const OrderedInput& input) {
  const bool dwarfs = edge_sum_ > 0 && node_sum_ > kDwarf * edge_sum_;
  // Above the best label: twice what the tables can repay, and a share of the whole, so that
  // neither rounding nor a pixel without tables makes a tie. Powers of two keep whole numbers
  // whole.
  const double sum = edge_sum_ > 0 ? edge_sum_ : node_sum_ > 0 ? node_sum_ : 1;
  std::vector<double> room(pixels, sum / pixels);
  for_edges(input, grid_shape(input.shape, false),
            [&](std::size_t d, std::size_t e, Id tail, Id head) {
              const Tables& t = input.tables[d];
              const double* V = t.data + (t.each ? e * square() : 0);
              room[tail] += 2 * most_saved(V, L, true);
              room[head] += 2 * most_saved(V, L, false);
            });
  for (double& r : room) r = std::exp2(std::ceil(std::log2(r)));
  limited.assign(input.unary.begin(), input.unary.end());
  taken.assign(limited.size(), 0);
  node_sum_ = node_most_ = 0;
  for (Id t = 0; t < pixels; ++t) {
    const std::size_t at = static_cast<std::size_t>(t) * L;
    const int label = input.fixed.empty() ? -1 : input.fixed[t];
    if (dwarfs || label >= 0) limit_pixel(&limited[at], &taken[at], label, room[t]);
    node_sum_ += steps(&limited[at], L);
    node_most_ = std::max(node_most_, steps(&limited[at], L));
  }
}

// The costs of a pixel above its fixed or best label, at most `room`. What that label costs goes to
// `beyond`: beside a cost that dwarfs it, room would vanish.
void OrderedTerms::limit_pixel(double* u, double* taken_here, int label, double room) {
  const double base = label >= 0 ? u[label] : *std::min_element(u, u + L);
  double lost = 0;
  for (Id l = 0; l < L; ++l) {
    double rounding = 0;
    const double above = exact_sum(u[l], -base, rounding);
    u[l] = label < 0 ? std::min(above, room) : l == label ? 0 : room;
    taken_here[l] = above - u[l];
    if (u[l] < room) lost = std::max(lost, rounding);  // one that can be chosen
  }
  beyond = exact_sum(beyond, base, beyond_error);
  beyond_error += lost;
}

void OrderedTerms::quantise(const OrderedInput& input) {
  std::size_t all = 0;
  for (std::size_t d = 0; d < edges.size(); ++d) {
    first_.push_back(all);
    each_.push_back(input.tables[d].each);
    if (edges[d]) all += each_[d] ? edges[d] : 1;
  }
  parts_.resize(all * square());
  for (std::size_t d = 0; d < edges.size(); ++d)
    for (std::size_t e = 0; e < (each_[d] ? edges[d] : edges[d] > 0); ++e)
      quantise_table(input.tables[d].data + e * square(),
                     parts_.data() + (first_[d] + e) * square(), each_[d] ? 1 : edges[d]);
}

void OrderedTerms::quantise_table(const double* V, Cap* part, std::size_t count) {
  const Quantiser q(scale);
  const std::int64_t off = L == 3 ? quantised<3>(V, part, L, q) : quantised<0>(V, part, L, q);
  inexact += static_cast<std::int64_t>(count) * off;
}

}  // namespace cutlearn
