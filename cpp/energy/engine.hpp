// Solvers of one energy: of binary labels, alive while numbers change, and of ordered labels.
// Behind them is the kind of network that the input needs.
//
// requires of every index: in range (checked by the caller).
// One engine is for one thread at a time; the binding refuses a second one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "energy/input.hpp"
#include "energy/ordered_terms.hpp"
#include "flow/argmin_sums.hpp"

namespace cutlearn {

// The answer of one solve, when the network is gone.
struct Solved {
  std::vector<std::uint8_t> labels;
  Cap minimum = 0;
  double scale = 1;
  std::int64_t inexact = 0;
  double clipped = 0, clipped_error = 0;
  std::int64_t cuts = 1;  // how many it took
};

class Engine {
 public:
  virtual ~Engine() = default;

  // threads: of the first solve, if the grid is large
  virtual void solve(int threads = 1) = 0;
  // Labels of the last solve, one for each node, in the caller's order: of all minimisers the one
  // with the lowest labels.
  std::span<const std::uint8_t> labels() const { return labels_; }
  // The minimum of the quantised energy is minimum() / scale() + clipped().
  virtual Cap minimum() const = 0;
  double scale() const { return quantise_.scale(); }
  std::int64_t inexact() const { return quantise_.inexact; }
  double clipped() const { return clipped_; }
  double clipped_error() const { return clipped_error_; }  // the rounding of that sum, at most

  // phi[L i + k] = least energy with node i at label k, infinite against a fixed label.
  // requires a solve after the last change
  virtual void min_marginals(double* phi, int threads) = 0;

 protected:
  double energy(Cap minimum) const {
    return static_cast<double>(minimum) / quantise_.scale() + clipped_;
  }

  Quantiser quantise_;
  double clipped_ = 0, clipped_error_ = 0;
  std::vector<std::uint8_t> labels_;
};

// Binary labels. Built once from an Input, changed and solved again from the last flow.
class BinaryEngine : public Engine {
 public:
  // Nodes whose label the last solve changed. After the first solve these are the nodes with
  // label 1, which `labels` has: none are listed.
  std::span<const std::int64_t> changed() const { return changed_; }
  virtual bool resumed() const = 0;  // whether the last solve was not the first

  // True once a change needs another scale than that of a cold start: then changes are only
  // stored, and the caller rebuilds from what is stored. So warm and cold always agree.
  bool outgrown() const { return stale_ || (!clips_ && !narrow_ && !keeps_scale()); }

  Solved answer() const {
    return {labels_, minimum(), scale(), inexact(), clipped(), clipped_error()};
  }

  // The excess left at every node, and r(tail -> head) - r(head -> tail) of every listed edge.
  virtual std::pair<std::vector<Cap>, std::vector<Cap>> residuals() = 0;

  // ensures stored[index[k]] = values[k] for every k, and the network follows unless outgrown
  virtual void change_unary(std::span<const std::int64_t> index, std::span<const double> values,
                            double* stored) = 0;
  // Likewise for p, q of edges, numbered direction by direction; one number each where p = q.
  virtual void change_weights(std::span<const std::int64_t> index, std::span<const double> pq,
                              double* stored) = 0;
  virtual void change_fixed(std::span<const std::int64_t> index,
                            std::span<const std::int8_t> labels, std::int8_t* stored) = 0;

  // ensures the unary of nodes[k] grows by factor * mass[k]; nothing is stored, and the survey must
  // have counted it
  virtual void shift_unary(std::span<const Id> nodes, std::span<const double> mass,
                           double factor) = 0;

  // Min-marginals, and sums over their argmins (flow/argmin_sums.hpp).
  virtual ArgminSums argmin_sums(double* phi, const ArgminTask& task, int threads) = 0;

  // Empty if the flow is a maximum flow of the energy `input`, rebuilt at the scale in use, and
  // the labels are its minimal minimum cut; else the first law that is broken.
  // requires the nodes, edges and regions of the input that the engine was made of
  virtual std::string disproof(const Input& input) = 0;

 protected:
  // How far the sums of the survey may be from those of a new one: both are rounded.
  double survey_doubt() const {
    constexpr double kRounding = 0x1p-21;  // 2^31 numbers, half a unit in the last place each
    return drift_ + kRounding * survey_.total();
  }
  // Whether a new survey might decide to clip.
  bool may_clip() const {
    const double doubt = survey_doubt(), rest = survey_.edges + survey_.rest;
    return rest + drift_ > 0 && survey_.unary + doubt > Survey::kDwarf * (rest - doubt);
  }
  // Whether a new survey is sure to choose the same scale.
  bool keeps_scale() const {
    const double total = survey_.total(), doubt = survey_doubt();
    return doubt < total && scale_for(total - doubt) == quantise_.scale() &&
           scale_for(total + doubt) == quantise_.scale();
  }

  Survey survey_;        // of the numbers as they are now
  bool clips_ = false;   // built with clipped unaries: follows no change
  bool narrow_ = false;  // holds whole numbers of quanta only: other changes make it stale
  bool stale_ = false;
  double drift_ = 0;  // what rounding may have done to the sums of the survey since the start
  std::vector<std::int64_t> changed_;
};

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
//          stored. Else a list of arcs (ordered_layout.hpp).
class OrderedEngine : public Engine {
 public:
  explicit OrderedEngine(OrderedTerms terms) : terms_(std::move(terms)) {
    labels_.assign(terms_.pixels, 0);
  }

  const OrderedTerms& terms() const { return terms_; }
  OrderedTerms release() && { return std::move(terms_); }

  // With y the cut, argmin_tl the labelling of least energy with pixel t at label l, and c = weights
  // (pixels x L): node[i L + k] += c_tl ([argmin_tl(i) = k] - [y_i = k]), and edge[(e L + a) L + b]
  // likewise for the labels a, b at the ends of edge e. `ends` has both ends of every edge.
  virtual void argmin_sums(std::span<const double> weights, std::span<const Id> ends, double* node,
                           double* edge) = 0;

  // As that of BinaryEngine; requires an input without a fault.
  virtual std::string disproof(const OrderedInput& input) = 0;

 protected:
  OrderedTerms terms_;
};

// requires a survey without faults and a finite total
std::unique_ptr<BinaryEngine> make_engine(const Input& input, const Survey& survey);
// Likewise with a scale at which every number is whole; 0: residuals of 64 bits.
std::unique_ptr<BinaryEngine> make_engine_at(const Input& input, const Survey& survey,
                                             double narrow);
// requires terms of this input, without a fault; the input may go away afterwards
std::unique_ptr<OrderedEngine> make_ordered(const OrderedInput& input, OrderedTerms terms);

// One solve in the cheapest way there is (solve_once.cpp).
// requires a survey without faults and a finite total
// threads: of a plain cut; lines are cut one after the other on one
Solved solve_once(const Input& input, const Survey& survey, int threads);

// The region on whose lines `solve_once` conditions, or -1: one that has most of the nodes, and few
// lines.
std::int64_t conditioned_region(const Input& input);

}  // namespace cutlearn
