#include "learn/regions.hpp"

#include <algorithm>

namespace cutlearn {

namespace {

double sum_of(const OracleRegions& r, std::size_t c, std::span<const std::uint8_t> y) {
  double s = 0;
  for (std::int64_t j = r.first[c]; j < r.first[c + 1]; ++j)
    if (y[r.members[j]]) s += r.mass[j];
  return s;
}

// The rises d_1 .. d_K of a vector; what rounding left to rise counts as straight.
std::vector<double> rises(const EnvelopeFamily& family, std::span<const double> v) {
  std::vector<double> d(family.lines);
  for (std::size_t k = 0; k < d.size(); ++k) {
    switch (family.form) {
      case EnvelopeFamily::kSamples: d[k] = v[k + 1] - v[k]; break;
      case EnvelopeFamily::kSlopes: d[k] = v[k + 1]; break;
      case EnvelopeFamily::kCurvatures: d[k] = k ? d[k - 1] + v[k + 1] : v[1]; break;
    }
    if (k) d[k] = std::min(d[k], d[k - 1]);
  }
  return d;
}

// a += factor * features of the fraction p
void add_features(const EnvelopeFamily& family, double p, double factor, double* a) {
  const std::size_t K = family.lines;
  const double x = p * static_cast<double>(K);
  if (family.form == EnvelopeFamily::kSamples) {
    const auto k = std::min(static_cast<std::size_t>(x), K - 1);
    const double part = x - static_cast<double>(k);
    a[k] += factor * (1 - part);
    a[k + 1] += factor * part;
    return;
  }
  a[0] += factor;
  if (family.form == EnvelopeFamily::kSlopes) {
    for (std::size_t k = 0; k < K; ++k)
      a[k + 1] += factor * std::clamp(x - static_cast<double>(k), 0.0, 1.0);
    return;
  }
  a[1] += factor * x;
  for (std::size_t k = 1; k < K; ++k)
    a[k + 1] += factor * std::max(0.0, x - static_cast<double>(k));
}

double size_of(const OracleRegions& r, std::size_t c) {
  return static_cast<double>(r.first[c + 1] - r.first[c]);
}

}  // namespace

std::size_t OracleRegions::weights() const {
  std::size_t sum = 0;
  for (const EnvelopeFamily& family : families) sum += family.lines + 1;
  return sum;
}

std::size_t OracleRegions::enveloped() const {
  std::size_t sum = 0;
  for (const EnvelopeFamily& family : families) sum += family.regions;
  return sum;
}

Regions region_terms(const OracleRegions& regions, std::span<const double> w, double ratio,
                     Hinges& hinges) {
  hinges.first.assign(1, 0);
  hinges.slope.clear();
  hinges.alpha.clear();
  hinges.beta.clear();
  std::size_t c = 0;
  for (const EnvelopeFamily& family : regions.families) {
    const auto d = rises(family, w.first(family.lines + 1));
    w = w.subspan(family.lines + 1);
    for (const std::size_t end = c + family.regions; c < end; ++c) {
      const double M = size_of(regions, c), r = family.per_node ? M : 1;
      const double step = r * static_cast<double>(family.lines) / M;
      hinges.slope.push_back(d[0] * step);
      for (std::size_t k = 1; k < d.size(); ++k) {
        if (d[k - 1] == d[k]) continue;
        hinges.alpha.push_back((d[k - 1] - d[k]) * step);
        hinges.beta.push_back((d[k - 1] - d[k]) * r * static_cast<double>(k));
      }
      hinges.first.push_back(static_cast<std::int64_t>(hinges.alpha.size()));
    }
  }
  for (std::size_t j = 0; j < regions.slope.size(); ++j) {
    hinges.slope.push_back(ratio * regions.slope[j]);
    for (std::int64_t h = regions.hinge_first[j]; h < regions.hinge_first[j + 1]; ++h) {
      hinges.alpha.push_back(ratio * regions.alpha[h]);
      hinges.beta.push_back(ratio * regions.beta[h]);
    }
    hinges.first.push_back(static_cast<std::int64_t>(hinges.alpha.size()));
  }
  return {regions.first, hinges.first, regions.members, regions.mass,
          hinges.slope,  hinges.alpha, hinges.beta};
}

void add_region_difference(const OracleRegions& regions, std::span<const std::uint8_t> truth,
                           std::span<const std::uint8_t> y, double* a) {
  std::size_t c = 0;
  for (const EnvelopeFamily& family : regions.families) {
    for (const std::size_t end = c + family.regions; c < end; ++c) {
      const double wanted = sum_of(regions, c, truth), found = sum_of(regions, c, y);
      if (wanted == found) continue;
      const double M = size_of(regions, c), r = family.per_node ? M : 1;
      add_features(family, wanted / M, r, a);
      add_features(family, found / M, -r, a);
    }
    a += family.lines + 1;
  }
}

double counted_regions(const OracleRegions& regions, std::span<const std::uint8_t> y) {
  double sum = regions.constant;
  const std::size_t before = regions.enveloped();
  for (std::size_t j = 0; j < regions.slope.size(); ++j) {
    const double s = sum_of(regions, before + j, y);
    sum += regions.slope[j] * s;
    for (std::int64_t h = regions.hinge_first[j]; h < regions.hinge_first[j + 1]; ++h)
      sum += std::min(0.0, regions.beta[h] - regions.alpha[h] * s);
  }
  return sum;
}

}  // namespace cutlearn
