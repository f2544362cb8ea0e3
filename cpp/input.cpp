#include "input.hpp"

#include <algorithm>

namespace cutlearn {

namespace {

constexpr double kRounding = 1e-9;  // of the table's size: below it p + q < 0 counts as zero

double sum_abs(std::span<const double> values) {
  double sum = 0;
  for (const double x : values) sum += std::abs(x);
  return sum;
}

struct EdgeSums {
  double sum = 0;
  double worst = 0;
  std::int64_t worst_edge = -1, bad_edge = -1;

  void see(double p, double q, std::size_t e) {
    const double size = std::abs(p) + std::abs(q);
    sum += size;
    if (p + q < worst && p + q < -kRounding * size) {
      worst = p + q;
      worst_edge = static_cast<std::int64_t>(e);
    }
  }
};

EdgeSums survey_edges(const Weights& weights, std::size_t count) {
  EdgeSums s;
  if (count == 0) return s;
  if (weights.kind == Weights::kScalar) {
    s.see(weights.data[0], weights.data[0], 0);
    s.sum *= static_cast<double>(count);
  } else {
    for (std::size_t e = 0; e < count; ++e) s.see(weights.p(e), weights.q(e), e);
  }
  if (!std::isfinite(s.sum))
    for (std::size_t e = 0; e < count && s.bad_edge < 0; ++e)
      if (!std::isfinite(weights.p(e)) || !std::isfinite(weights.q(e)))
        s.bad_edge = static_cast<std::int64_t>(e);
  return s;
}

std::size_t edge_count(const GridShape& grid, const Offset& offset) {
  std::size_t count = 1;
  for (int k = 0; k < 3; ++k) count *= std::max(0, grid.size[k] - std::abs(offset[k]));
  return count;
}

double survey_regions(const Regions& r) {
  double sum = 0;
  for (std::size_t c = 0; c < r.count(); ++c) {
    double M = 0;
    for (std::int64_t k = r.member_first[c]; k < r.member_first[c + 1]; ++k) M += r.mass[k];
    sum += std::abs(r.slope[c]) * M;
    for (std::int64_t h = r.hinge_first[c]; h < r.hinge_first[c + 1]; ++h)
      sum += 2 * r.alpha[h] * M + std::abs(r.beta[h]);
  }
  return sum;
}

}  // namespace

Survey survey(const Input& input) {
  Survey s;
  s.unary = sum_abs(input.unary);
  if (!std::isfinite(s.unary))
    for (std::size_t i = 0; i < input.unary.size() && s.bad_unary < 0; ++i)
      if (!std::isfinite(input.unary[i])) s.bad_unary = static_cast<std::int64_t>(i);
  const auto offsets = forward_offsets(input.connectivity);
  const GridShape grid = grid_shape(input.shape, true);
  for (std::size_t k = 0; k < input.weights.size(); ++k) {
    const std::size_t count =
        input.connectivity ? edge_count(grid, offsets[k]) : input.edges.size() / 2;
    const EdgeSums sums = survey_edges(input.weights[k], count);
    s.edges += sums.sum;
    if (sums.bad_edge >= 0 && s.bad_edge < 0) {
      s.bad_direction = static_cast<std::int64_t>(k);
      s.bad_edge = sums.bad_edge;
    }
    if (sums.worst < s.worst) {
      s.worst = sums.worst;
      s.worst_direction = static_cast<std::int64_t>(k);
      s.worst_edge = sums.worst_edge;
    }
  }
  s.rest = survey_regions(input.regions) + std::abs(input.constant);
  return s;
}

double scale_for(double total) {
  if (total == 0) return 1;
  int exponent;  // total < 2^exponent
  std::frexp(total, &exponent);
  return std::ldexp(1.0, std::min(61 - exponent, 1023));
}

}  // namespace cutlearn
