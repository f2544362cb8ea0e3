// An energy as the arrays that arrive from outside, and the scale that turns it into integers.
//
//   E(y) = constant + sum_i u_i y_i + sum_e [ p_e (1 - y_i) y_j + q_e y_i (1 - y_j) ]
//        + sum_c ( slope_c s_c + sum_k min(0, beta_ck - alpha_ck s_c) ),   s_c = sum_i m_ci y_i
//
// Quantisation: every number x becomes round(x * scale), scale a power of two so large that the
// sum of all |x| * scale stays below 2^61. Everything after that is integer arithmetic, so the
// labels minimise the quantised energy exactly, and that differs from E by at most half a
// quantum for each number that was not represented exactly (`inexact` counts these, and the quanta
// that an edge with p + q < 0 within rounding was raised by).
// Where every number is a multiple of a coarser quantum and the edges fit into 31 bits of it
// (`narrow_scale`), that quantum is taken: nothing is rounded, and residuals need 32 bits only.
// Where unaries dwarf the edges (`clip`), those beyond what their edges can carry are cut to one
// quantum above it: the label stays forced, no tie arises, and the edges keep their precision.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "flow/grid.hpp"
#include "flow/network.hpp"

namespace cutlearn {

// The weights of a list of edges, or of one direction of a grid.
struct Weights {
  enum Kind { kScalar, kSymmetric, kPair } kind = kScalar;
  const double* data = nullptr;  // kScalar: one number; kSymmetric: p = q; kPair: p, q, p, q, ...

  double p(std::size_t e) const {
    return kind == kScalar ? data[0] : kind == kSymmetric ? data[e] : data[2 * e];
  }
  double q(std::size_t e) const {
    return kind == kScalar ? data[0] : kind == kSymmetric ? data[e] : data[2 * e + 1];
  }
};

struct Regions {
  std::span<const std::int64_t> member_first, hinge_first;  // offsets, number of regions + 1
  std::span<const Id> members;
  std::span<const double> mass;         // m, one for each member
  std::span<const double> slope;        // one for each region
  std::span<const double> alpha, beta;  // one for each hinge, alpha > 0

  std::size_t count() const { return slope.size(); }
};

struct Input {
  double constant = 0;
  std::span<const double> unary;
  std::vector<std::int64_t> shape;  // of the grid; one number for a list of edges
  int connectivity = 0;             // 0: a list of edges
  std::span<const Id> edges;        // tail, head, tail, head, ...
  std::vector<Weights> weights;     // one for each direction, or one for the list
  Regions regions;
  std::span<const std::int8_t> fixed;  // empty, or one for each node: -1 free, else the label
};

// What the numbers look like; an index of -1 means that nothing is wrong.
struct Survey {
  double unary = 0, edges = 0, rest = 0;  // sums of absolute values
  double constant = 0;          // likewise; it forces no label, so it plays no part in clip
  double widest = 0;            // the largest p + q, or alpha m, of an arc
  double largest = 0;           // the largest unary
  double whole_at = 0;          // a scale that makes unaries and weights whole; 0 if none was found
  std::int64_t bad_unary = -1;  // first that is not finite
  std::int64_t bad_direction = -1, bad_edge = -1;
  std::int64_t worst_direction = -1, worst_edge = -1;  // the least p + q below rounding
  double worst = 0;

  double total() const { return unary + edges + rest + constant; }
  bool clip() const { return edges + rest > 0 && unary > kDwarf * (edges + rest); }
  static constexpr double kDwarf = 256;
};
Survey survey(const Input& input);

// a + b, and what rounding took from it is added to `lost`, as an absolute value.
inline double exact_sum(double a, double b, double& lost) {
  const double sum = a + b, of_b = sum - a, of_a = sum - of_b;
  lost += std::abs((a - of_a) + (b - of_b));
  return sum;
}

// The largest power of two with total * scale < 2^61.
double scale_for(double total);

// A power of two that makes every number whole and every arc less than 2^30; 0 if there is none.
double narrow_scale(const Input& input, const Survey& survey);
// Whether x is a multiple of 1 / scale, of less than 2^51 quanta.
inline bool is_multiple(double x, double scale) {
  constexpr double kRounder = 0x1.8p52;  // adding and taking it away rounds to whole numbers
  // Compared as a number, not as quanta: what vanishes in the product is no multiple.
  return ((x * scale + kRounder) - kRounder) * (1 / scale) == x;
}

// Whether that holds for all of them.
bool all_multiples(std::span<const double> values, double scale);

class Quantiser {
 public:
  explicit Quantiser(double scale = 1) : scale_(scale), quantum_(1 / scale) {}
  std::int64_t inexact = 0;

  double scale() const { return scale_; }
  double quantum() const { return quantum_; }
  Cap operator()(double x) {
    const Cap r = rounded(x);
    inexact += !is_exact(x, r);
    return r;
  }
  // Without counting.
  Cap rounded(double x) const { return std::llrint(x * scale_); }
  bool is_exact(double x, Cap r) const { return static_cast<double>(r) * quantum_ == x; }
  // p and q of an edge; a sum below zero counts as zero, and the quanta of that as inexact.
  void pair(double p, double q, Cap& P, Cap& Q) {
    P = (*this)(p);
    Q = (*this)(q);
    if (P + Q >= 0) return;
    inexact -= P + Q;
    Q = -P;
  }

 private:
  double scale_, quantum_;
};

}  // namespace cutlearn
