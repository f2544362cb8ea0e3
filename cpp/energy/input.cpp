#include "energy/input.hpp"

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
  double widest = 0;
  double worst = 0;
  std::int64_t worst_edge = -1, bad_edge = -1;

  void see(double p, double q, std::size_t e) {
    const double size = std::abs(p) + std::abs(q);
    sum += size;
    widest = std::max(widest, size);
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

// How many numbers the weights of direction k, or of the list, are.
std::size_t weight_count(const Input& input, const GridShape& grid, std::size_t k,
                         const std::vector<Offset>& offsets) {
  const std::size_t edges =
      input.connectivity ? edge_count(grid, offsets[k]) : input.edges.size() / 2;
  switch (input.weights[k].kind) {
    case Weights::kScalar: return 1;
    case Weights::kSymmetric: return edges;
    default: return 2 * edges;
  }
}

void survey_regions(const Regions& r, Survey& s) {
  for (std::size_t c = 0; c < r.count(); ++c) {
    double M = 0, most = 0;
    for (std::int64_t k = r.member_first[c]; k < r.member_first[c + 1]; ++k) {
      M += r.mass[k];
      most = std::max(most, r.mass[k]);
    }
    s.rest += std::abs(r.slope[c]) * M;
    for (std::int64_t h = r.hinge_first[c]; h < r.hinge_first[c + 1]; ++h) {
      s.rest += 2 * r.alpha[h] * M + std::abs(r.beta[h]);
      s.widest = std::max(s.widest, r.alpha[h] * most);
    }
  }
}

bool all_multiples(std::span<const double> values, double scale) {
  constexpr std::size_t kBlock = 1024;  // long enough for vector units, short enough to stop early
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    int wrong = 0;
    for (const double x : values.subspan(begin, std::min(kBlock, values.size() - begin)))
      wrong |= !is_multiple(x, scale);
    if (wrong) return false;
  }
  return true;
}

bool regions_are_multiples(const Regions& r, double scale) {
  for (std::size_t c = 0; c < r.count(); ++c) {
    double mass = -1;  // equal masses need one look
    for (std::int64_t k = r.member_first[c]; k < r.member_first[c + 1]; ++k) {
      if (r.mass[k] == mass) continue;
      mass = r.mass[k];
      if (!is_multiple(r.slope[c] * mass, scale)) return false;
      for (std::int64_t h = r.hinge_first[c]; h < r.hinge_first[c + 1]; ++h)
        if (!is_multiple(r.alpha[h] * mass, scale)) return false;
    }
  }
  return all_multiples(r.beta, scale);
}

// The largest power of two with x * scale < 2^bits.
double power_below(double x, int bits) {
  if (x == 0) return 1;
  int exponent;  // x < 2^exponent
  std::frexp(x, &exponent);
  return std::ldexp(1.0, std::min(bits - exponent, 1023));
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
    s.widest = std::max(s.widest, sums.widest);
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
  survey_regions(input.regions, s);
  s.constant = std::abs(input.constant);
  return s;
}

double scale_for(double total) { return power_below(total, 61); }

double narrow_scale(const Input& input, const Survey& survey) {
  const double scale = std::min(power_below(survey.widest, 30), scale_for(survey.total()));
  if (!is_multiple(input.constant, scale) || !all_multiples(input.unary, scale)) return 0;
  const auto offsets = forward_offsets(input.connectivity);
  const GridShape grid = grid_shape(input.shape, true);
  for (std::size_t k = 0; k < input.weights.size(); ++k) {
    const std::size_t count = weight_count(input, grid, k, offsets);
    if (!all_multiples({input.weights[k].data, count}, scale)) return 0;
  }
  return regions_are_multiples(input.regions, scale) ? scale : 0;
}

}  // namespace cutlearn
