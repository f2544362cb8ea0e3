#include "energy/ordered_terms.hpp"

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

double size_of(const double* V, Id L) {
  double size = 0;
  for (Id i = 0; i < L * L; ++i) size += std::abs(V[i]);
  return size;
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
      edges(edge_counts(grid_shape(input.shape, false), input.connectivity, input.edges)) {
  survey(input);
  if (fault.what != OrderedFault::kNone) return;
  const bool dwarfs = edge_sum_ > 0 && node_sum_ > kDwarf * edge_sum_;
  if (dwarfs || !input.fixed.empty()) limit_unaries(input);
  // All terms, and the arcs that keep the order: each carries all terms of its pixel.
  scale = wide_ = scale_for(node_sum_ + edge_sum_ + (L - 2) * (node_sum_ + 2 * edge_sum_));
  const double widest = node_most_ + 2 * static_cast<double>(edges.size()) * edge_most_;
  const double coarse = std::min(scale, std::ldexp(scale_for(widest), -31));
  narrow = input.connectivity && seems_narrow(input, coarse);
  if (narrow) scale = coarse;
}

// From a sample: the layout reads them all and counts what is inexact.
bool OrderedTerms::seems_narrow(const OrderedInput& input, double coarse) const {
  const auto whole = [&](std::span<const double> x) {
    constexpr std::size_t kSample = 64;
    for (std::size_t i = 0; i < x.size(); i += x.size() / kSample + 1)
      if (!is_multiple(x[i], coarse)) return false;
    return true;
  };
  if (!whole(limited.empty() ? input.unary : limited)) return false;
  for (std::size_t d = 0; d < edges.size(); ++d)
    if (edges[d] &&
        !whole({input.tables[d].data, (input.tables[d].each ? edges[d] : 1) * square()}))
      return false;
  return true;
}

void OrderedTerms::widen() {
  narrow = false;
  scale = wide_;
  inexact = 0;
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
  switch (L) {
    case 3: survey_tables<3>(input); break;
    case 4: survey_tables<4>(input); break;
    case 5: survey_tables<5>(input); break;
    default: survey_tables<0>(input);
  }
  if (fault.what == OrderedFault::kNone && !std::isfinite(6.0 * L * (node_sum_ + edge_sum_)))
    fault.what = OrderedFault::kRange;
}

template <Id known>
void OrderedTerms::survey_tables(const OrderedInput& input) {
  for (std::size_t d = 0; d < edges.size(); ++d) {
    const Tables& tables = input.tables[d];
    const std::size_t count = tables.each ? edges[d] : edges[d] > 0;
    for (std::size_t e = 0; e < count; ++e) {
      const double sum = survey_table<known>(tables.data + e * square(), d, e);
      edge_sum_ += (tables.each ? 1 : static_cast<double>(edges[d])) * sum;
      edge_most_ = std::max(edge_most_, sum);
    }
  }
}

// All absolute values of a table's terms.
template <Id known>
double OrderedTerms::survey_table(const double* V, std::size_t direction, std::size_t edge) {
  const Id L = known ? known : this->L;
  const auto report = [&](OrderedFault::What what, Id a, Id b, double amount) {
    if (fault.what == OrderedFault::kNone || fault.what == OrderedFault::kNotSubmodular)
      fault = {what,  static_cast<std::int64_t>(edge), static_cast<std::int64_t>(direction), a, b,
               amount};
  };
  double sum = std::abs(V[0]), least = 0;
  Id reach = 0;
  const auto c = [&](Id k, Id l) {
    return (V[(k - 1) * L + l] + V[k * L + l - 1]) - (V[(k - 1) * L + l - 1] + V[k * L + l]);
  };
#pragma GCC unroll 8
  for (Id k = 1; k < L; ++k) {
    sum += std::abs(V[k * L] - V[(k - 1) * L]) + std::abs(V[k] - V[k - 1]);
#pragma GCC unroll 8
    for (Id l = 1; l < L; ++l) {
      const double here = c(k, l);
      sum += 2 * std::abs(here);  // an arc and the unary that goes with it
      least = std::min(least, here);
      reach = std::max(reach, here != 0 ? std::abs(k - l) : 0);
    }
  }
  this->reach = std::max(this->reach, reach);
  if (least < fault.amount)
    for (Id k = 1; k < L; ++k)
      for (Id l = 1; l < L; ++l)
        if (c(k, l) < fault.amount && c(k, l) < -kRounding * size_of(V, L))
          report(OrderedFault::kNotSubmodular, k - 1, l - 1, c(k, l));
  if (!std::isfinite(sum))
    for (Id i = 0; i < L * L; ++i)
      if (!std::isfinite(V[i])) {
        report(OrderedFault::kTable, i / L, i % L, V[i]);
        break;
      }
  return sum;
}

// ensures no pixel chooses a label that was limited, and every fixed pixel chooses its own
void OrderedTerms::limit_unaries(const OrderedInput& input) {
  const bool dwarfs = edge_sum_ > 0 && node_sum_ > kDwarf * edge_sum_;
  // Above the best label: twice what the tables can repay, and a share of the whole, so that
  // neither rounding nor a pixel without tables makes a tie. Powers of two keep whole numbers
  // whole.
  const double sum = edge_sum_ > 0 ? edge_sum_ : node_sum_ > 0 ? node_sum_ : 1;
  std::vector<double> room(pixels, sum / pixels);
  for_edges(grid_shape(input.shape, false), input.connectivity, input.edges,
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
// `clipped`: next to a cost that dwarfs it, room would vanish.
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
  clipped = exact_sum(clipped, base, clipped_error);
  clipped_error += lost;
}

}  // namespace cutlearn
