// Ordered labels as one cut: y_t in 0..L-1 as L - 1 binary nodes x_tk = [y_t >= k], k = 1..L-1.
//
//   E(y) = sum_t u_t(y_t) + sum_e V_e(y_i, y_j)
//
// Tables   With c(k,l) = V(k-1,l) + V(k,l-1) - V(k-1,l-1) - V(k,l) >= 0 (submodular),
//            V(a,b) = V(0,0) + sum_{k<=a} [V(k,0) - V(k-1,0)] + sum_{l<=b} [V(0,l) - V(0,l-1)]
//                   - sum_{k<=a, l<=b} c(k,l),
//          and -c x_k x'_l is an arc plus a unary, in either direction. Arcs of k != l point from
//          the higher to the lower threshold: they are cut only where labels jump, so hardly any
//          flow needs them (2.5 times faster than arcs of half the size both ways). Arcs of k = l
//          are split in halves.
// Order    x_t(k+1) <= x_tk by an arc from k+1 to k that carries more than all terms of the pixel:
//          never cut, also when some nodes of the pixel are forced.
// Layout   On a grid of few labels, or whose tables join neighbouring thresholds at most, the nodes
//          of a pixel lie side by side, and a neighbour is an offset: no heads or sisters are
//          stored. Else a list of arcs (layout.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ordered/terms.hpp"

namespace cutlearn {

class Ordered {
 public:
  explicit Ordered(OrderedTerms terms) : terms_(std::move(terms)), labels_(terms_.pixels, 0) {}
  virtual ~Ordered() = default;

  virtual void solve() = 0;
  // The lowest labels of all minimisers.
  std::span<const std::uint8_t> labels() const { return labels_; }
  // The minimum is minimum() / scale + beyond.
  virtual Cap minimum() const = 0;
  const OrderedTerms& terms() const { return terms_; }
  OrderedTerms release() && { return std::move(terms_); }
  // Whether no number was rounded.
  virtual bool exact() const = 0;
  // least[t L + l] = least energy with pixel t at label l, infinite against a fixed label
  virtual void min_marginals(double* least) = 0;
  // With y the cut, argmin_tl the labelling of least energy with pixel t at label l, and c = weights
  // (pixels x L): node[i L + k] += c_tl ([argmin_tl(i) = k] - [y_i = k]), and edge[(e L + a) L + b]
  // likewise for the labels a, b at the ends of edge e. `ends` has both ends of every edge.
  virtual void argmin_sums(std::span<const double> weights, std::span<const Id> ends, double* node,
                           double* edge) = 0;

 protected:
  OrderedTerms terms_;
  std::vector<std::uint8_t> labels_;
};

// requires terms of this input, without a fault; the input may go away afterwards
std::unique_ptr<Ordered> make_ordered(const OrderedInput& input, OrderedTerms terms);

}  // namespace cutlearn
