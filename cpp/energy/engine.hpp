// A solver that stays alive: built once from an Input, changed and solved again from the last
// flow. Hides which kind of network is inside.
//
// requires of every index: in range (checked by the caller).
// One engine is for one thread at a time; the binding refuses a second one.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "energy/input.hpp"
#include "energy/solved.hpp"
#include "flow/argmin_sums.hpp"

namespace cutlearn {

class Engine {
 public:
  virtual ~Engine() = default;

  // threads: of the first solve, if the grid is large
  virtual void solve(int threads = 1) = 0;
  // Labels of the last solve, one for each node, in the caller's order.
  std::span<const std::uint8_t> labels() const { return labels_; }
  // Nodes whose label the last solve changed. After the first solve these are the nodes with
  // label 1, which `labels` tells: none are listed.
  std::span<const std::int64_t> changed() const { return changed_; }
  virtual bool resumed() const = 0;  // whether the last solve was not the first

  // True once a change asks for another scale than that of a cold start: then changes are only
  // stored, and the caller builds anew from what is stored. So warm and cold always agree.
  bool outgrown() const { return stale_ || (!clips_ && !narrow_ && !keeps_scale()); }
  // The minimum of the quantised energy is minimum() / scale + clipped().
  virtual Cap minimum() const = 0;
  double scale() const { return quantise_.scale(); }
  std::int64_t inexact() const { return quantise_.inexact; }
  double clipped() const { return clipped_; }
  double clipped_error() const { return clipped_error_; }  // the rounding of that sum, at most

  // All of that, to keep when the engine is gone.
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

  // phi[2 i + k] = least energy with node i at label k, infinite against a fixed label.
  // requires a solve after the last change
  virtual void min_marginals(double* phi, int threads) = 0;
  // Likewise; and sums over the argmins (flow/argmin_sums.hpp).
  virtual ArgminSums argmin_sums(double* phi, const ArgminTask& task, int threads) = 0;
  // Likewise; and for every node the nodes that turn with it, in order; none for a fixed node.
  virtual std::vector<std::vector<std::int64_t>> argmins(double* phi, int threads) = 0;

  // Empty if the flow is a maximum flow of the energy `input`, built anew at the scale in use, and
  // the labels are its minimal minimum cut; else the first law that is broken.
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
  Quantiser quantise_;
  double clipped_ = 0;
  double clipped_error_ = 0;
  double drift_ = 0;  // what rounding may have done to the sums of the survey since the start
  std::vector<std::uint8_t> labels_;
  std::vector<std::int64_t> changed_;
};

// requires a survey without faults and a finite total
std::unique_ptr<Engine> make_engine(const Input& input, const Survey& survey);
// Likewise with a scale at which every number is whole; 0: residuals of 64 bits.
std::unique_ptr<Engine> make_engine_at(const Input& input, const Survey& survey, double narrow);

}  // namespace cutlearn
