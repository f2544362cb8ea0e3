// Regions in the oracle: learned envelopes (w -> hinges, psi of a labelling) and counted regions of
// a loss (fixed hinges).
//
// Envelope A family of regions shares one vector of w in one of three forms (energy/envelopes.py). With
//          rises d_1 >= .. >= d_K over steps of M/K, M the nodes of a region, r = 1 or M:
//            psi_c(s) = r (v_0 + d_1 K s/M + sum_k c_k max(0, K s/M - k)),  c_k = d_{k+1} - d_k <=
//            0
//          which is r v_0 + slope s + sum_k min(0, beta_k - alpha_k s) with slope = r d_1 K/M,
//          alpha_k = -c_k r K/M, beta_k = -c_k r k. Break points k M/K lie within (0, M), so no
//          line is hidden; where c_k = 0 there is no hinge. r v_0 moves no label and is left out.
// Loss     -Delta has one concave function for each counted region, given as hinges.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "energy/input.hpp"

namespace cutlearn {

// A family of regions with one learned envelope.
struct EnvelopeFamily {
  enum Form { kSamples, kSlopes, kCurvatures } form = kCurvatures;
  std::size_t lines = 1;  // K; its part of w has K + 1 numbers
  std::size_t regions = 0;
  bool per_node = false;  // r = M instead of 1
};

// All regions of one image: those of the families in their order, then those that the loss counts.
struct OracleRegions {
  std::span<const std::int64_t> first;  // offsets of members, number of regions + 1
  std::span<const Id> members;
  std::span<const double> mass;  // 1 in the families
  std::vector<EnvelopeFamily> families;
  // Of the counted regions: psi_c(s) = slope s + sum_k min(0, beta_k - alpha_k s), and the sum of
  // their constants.
  std::span<const double> slope, alpha, beta;
  std::span<const std::int64_t> hinge_first;
  double constant = 0;

  std::size_t count() const { return first.empty() ? 0 : first.size() - 1; }
  std::size_t weights() const;    // numbers of w
  std::size_t enveloped() const;  // regions of the families
};

// Hinges at one w.
struct Hinges {
  std::vector<std::int64_t> first;
  std::vector<double> slope, alpha, beta;
};

// The terms of the energy at w, plus `ratio` times those of the loss; views `hinges`.
Regions region_terms(const OracleRegions& regions, std::span<const double> w, double ratio,
                     Hinges& hinges);

// a += psi(truth) - psi(y), the envelopes' part
void add_region_difference(const OracleRegions& regions, std::span<const std::uint8_t> truth,
                           std::span<const std::uint8_t> y, double* a);

// The sum of the loss's psi_c over its regions, constants included.
double counted_regions(const OracleRegions& regions, std::span<const std::uint8_t> y);

}  // namespace cutlearn
