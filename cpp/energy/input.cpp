#include "energy/input.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

namespace cutlearn {

namespace {

constexpr double kRounding = 1e-9;  // of the table's size: below it p + q < 0 counts as zero

// Several sums side by side: one alone would wait for each addition.
constexpr std::size_t kLanes = 8;

// The numbers of one array seen once: their sum and their largest, as absolute values, and whether
// one is not whole at a scale.
struct Seen {
  std::array<double, kLanes> sums{}, most{}, least{};
  std::array<std::int64_t, kLanes> broken{};

  Seen(std::span<const double> values, double scale) {
    const std::size_t even = values.size() / kLanes * kLanes;
    for (std::size_t i = 0; i < even; i += kLanes)
      for (std::size_t k = 0; k < kLanes; ++k) see(values[i + k], k, scale);
    for (std::size_t i = even; i < values.size(); ++i) see(values[i], i - even, scale);
  }
  double sum() const { return std::accumulate(sums.begin(), sums.end(), 0.0); }
  bool any_below_zero() const { return *std::min_element(least.begin(), least.end()) < 0; }
  double largest() const { return *std::max_element(most.begin(), most.end()); }
  bool whole() const {
    return std::all_of(broken.begin(), broken.end(), [](auto b) { return !b; });
  }

 private:
  void see(double x, std::size_t k, double scale) {
    sums[k] += std::abs(x);
    most[k] = std::max(most[k], std::abs(x));
    least[k] = std::min(least[k], x);
    broken[k] |= !is_multiple(x, scale);
  }
};

struct EdgeSums {
  double sum = 0;
  double widest = 0;
  bool whole = true;
  double worst = 0;
  std::int64_t worst_edge = -1, bad_edge = -1;

  void see(double p, double q, std::size_t e) {
    const double size = std::abs(p) + std::abs(q);
    sum += size;
    widest = std::max(widest, size);
    see_worst(p, q, e);
  }
  void see_worst(double p, double q, std::size_t e) {
    const double size = std::abs(p) + std::abs(q);
    if (p + q < worst && p + q < -kRounding * size) {
      worst = p + q;
      worst_edge = static_cast<std::int64_t>(e);
    }
  }
};

EdgeSums survey_edges(const Weights& weights, std::size_t count, double scale) {
  EdgeSums s;
  if (count == 0) return s;
  if (weights.kind == Weights::kScalar) {
    s.see(weights.data[0], weights.data[0], 0);
    s.sum *= static_cast<double>(count);
    s.whole = is_multiple(weights.data[0], scale);
  } else if (weights.kind == Weights::kSymmetric) {
    const Seen seen({weights.data, count}, scale);
    s.sum = 2 * seen.sum();
    s.widest = 2 * seen.largest();
    s.whole = seen.whole();
    if (seen.any_below_zero())
      for (std::size_t e = 0; e < count; ++e) s.see_worst(weights.data[e], weights.data[e], e);
  } else {
    for (std::size_t e = 0; e < count; ++e) s.see(weights.p(e), weights.q(e), e);
    s.whole = Seen({weights.data, 2 * count}, scale).whole();
  }
  if (!std::isfinite(s.sum))
    for (std::size_t e = 0; e < count && s.bad_edge < 0; ++e)
      if (!std::isfinite(weights.p(e)) || !std::isfinite(weights.q(e)))
        s.bad_edge = static_cast<std::int64_t>(e);
  return s;
}

// How many numbers the weights of so many edges are.
std::size_t weight_count(const Weights& weights, std::size_t edges) {
  switch (weights.kind) {
    case Weights::kScalar: return 1;
    case Weights::kSymmetric: return edges;
    default: return 2 * edges;
  }
}

void survey_regions(const Regions& r, Survey& s) {
  for (std::size_t c = 0; c < r.count(); ++c) {
    const std::int64_t members = r.member_first[c + 1] - r.member_first[c];
    const Seen masses(r.mass.subspan(r.member_first[c], members), 1);
    const double M = masses.sum(), most = masses.largest();
    s.rest += std::abs(r.slope[c]) * M;
    for (std::int64_t h = r.hinge_first[c]; h < r.hinge_first[c + 1]; ++h) {
      s.rest += 2 * r.alpha[h] * M + std::abs(r.beta[h]);
      s.widest = std::max(s.widest, r.alpha[h] * most);
    }
  }
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

// The coarsest power of two that makes a few of the numbers whole: likely to do for all.
double likely_scale(std::span<const double> values) {
  constexpr std::size_t kSample = 64;
  int lowest = 0;  // the least bit of all, as a power of two
  bool any = false;
  for (std::size_t i = 0; i < values.size(); i += values.size() / kSample + 1) {
    if (values[i] == 0 || !std::isfinite(values[i])) continue;
    int exponent;
    const auto digits = static_cast<std::uint64_t>(
        std::ldexp(std::abs(std::frexp(values[i], &exponent)), 53));  // whole
    const int bit = exponent - 53 + std::countr_zero(digits);
    lowest = any ? std::min(lowest, bit) : bit;
    any = true;
  }
  return std::ldexp(1.0, std::clamp(-lowest, -1000, 1000));
}

// The largest power of two with x * scale < 2^bits.
double power_below(double x, int bits) {
  if (x == 0) return 1;
  int exponent;  // x < 2^exponent
  std::frexp(x, &exponent);
  return std::ldexp(1.0, std::min(bits - exponent, 1023));
}

}  // namespace

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

Survey survey(const Input& input) {
  Survey s;
  const double scale = likely_scale(input.unary);
  const Seen unaries(input.unary, scale);
  s.unary = unaries.sum();
  s.largest = unaries.largest();
  bool whole = unaries.whole();
  if (!std::isfinite(s.unary))
    for (std::size_t i = 0; i < input.unary.size() && s.bad_unary < 0; ++i)
      if (!std::isfinite(input.unary[i])) s.bad_unary = static_cast<std::int64_t>(i);
  const auto counts = edge_counts(grid_shape(input.shape, true), input.connectivity, input.edges);
  for (std::size_t k = 0; k < input.weights.size(); ++k) {
    const EdgeSums sums = survey_edges(input.weights[k], counts[k], scale);
    whole = whole && sums.whole;
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
  s.whole_at = whole ? scale : 0;
  survey_regions(input.regions, s);
  s.constant = std::abs(input.constant);
  return s;
}

double scale_for(double total) { return power_below(total, 61); }

double narrow_scale(const Input& input, const Survey& survey) {
  const double scale = std::min(power_below(survey.widest, 30), scale_for(survey.total()));
  if (!is_multiple(input.constant, scale)) return 0;
  // What is whole at a coarser scale is at a finer one, unless it has too many digits there.
  if (survey.whole_at > 0 && survey.whole_at <= scale && survey.largest * scale < 0x1p50)
    return regions_are_multiples(input.regions, scale) ? scale : 0;
  if (!all_multiples(input.unary, scale)) return 0;
  const auto counts = edge_counts(grid_shape(input.shape, true), input.connectivity, input.edges);
  for (std::size_t k = 0; k < input.weights.size(); ++k) {
    const std::size_t count = weight_count(input.weights[k], counts[k]);
    if (!all_multiples({input.weights[k].data, count}, scale)) return 0;
  }
  return regions_are_multiples(input.regions, scale) ? scale : 0;
}

}  // namespace cutlearn
