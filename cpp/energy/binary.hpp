// Binary labels over one kind of network: changes, re-solves, min-marginals.
//
// What     The network is built once (build.hpp) and solved. A change is quantised, applied to the
//          network in place and passed on to the search (maxflow.hpp), which resumes from its trees.
// Changes  Very many numbers may come at a time: all of them where w is new. They go in blocks: the
//          old numbers are taken out of the store, their sums checked once, then the quanta by which
//          each grew are added to the network. Nothing is divided or searched for each number alone.
// Invariants (between calls)
//   V1  the network stores the energy as it is now, quantised at the scale in use: what a new
//       engine would store at it. So the minimum and the labels do not depend on the history.
//   V2  survey_ has the sums of the numbers as they are now, up to survey_doubt(). When a new
//       engine might choose another scale or clip, outgrown() is true and nothing follows.
//   V3  quantise_.inexact counts the numbers as they are now: a change takes the old one out.
//   V4  labels_ are the minimal minimum cut of the last solve; min-marginals need no change since.
//   V5  a search that was broken off leaves trees that cannot be resumed: stale_ until rebuilt.
// Why it stops  As maxflow.hpp; every change is a constant number of steps, or as many as the node
//          has arcs where it is fixed.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "energy/build.hpp"
#include "energy/engine.hpp"
#include "flow/marginals.hpp"
#include "flow/partition.hpp"
#include "flow/pyramid.hpp"
#include "flow/solver.hpp"
#include "flow/sweep.hpp"

namespace cutlearn {

constexpr std::size_t kBlock = 256;

// Calls f(begin, end) for the blocks of n numbers.
template <class F>
void in_blocks(std::size_t n, F&& f) {
  for (std::size_t begin = 0; begin < n; begin += kBlock) f(begin, std::min(begin + kBlock, n));
}

// Absolute values of a block that go and come, and whether the network can hold these.
struct BlockSums {
  double before = 0, now = 0;
  bool held = true;
  void take(double gone, double come) { before += gone, now += come; }
};

// Whether a network at a scale can hold a number. An object of its own, so that loops which write numbers need
// not read the scale again, nor divide by it.
class FitsScale {
 public:
  FitsScale(double scale, bool narrow) : scale_(scale), any_(!narrow) {}
  bool operator()(double x) const { return any_ | is_multiple(x, scale_); }

 private:
  double scale_;
  bool any_;
};

// The quantised number, no longer counted among the inexact ones.
inline Cap uncount(Quantiser& quantise, double x) {
  const Cap r = quantise.rounded(x);
  quantise.inexact -= !quantise.is_exact(x, r);
  return r;
}

// The quanta by which a number grew; exact: both are whole numbers of them.
inline Cap replace(Quantiser& quantise, double old, double now, bool exact) {
  const Cap before = quantise.rounded(old), after = quantise.rounded(now);
  if (!exact) quantise.inexact += quantise.is_exact(old, before) - quantise.is_exact(now, after);
  return after - before;
}

// What the new weights p, q of an edge add to r(tail -> head) and to r(head -> tail).
inline std::pair<Cap, Cap> replace_pair(Quantiser& quantise, const double* old, double p, double q,
                                        bool exact) {
  if (exact && p == q && old[0] == old[1]) {  // the most frequent case
    const Cap change = replace(quantise, old[0], p, exact);
    return {change, change};
  }
  Cap P, Q, P0 = uncount(quantise, old[0]), Q0 = uncount(quantise, old[1]);
  if (P0 + Q0 < 0) {
    quantise.inexact += P0 + Q0;  // as `pair` counted it
    Q0 = -P0;
  }
  quantise.pair(p, q, P, Q);
  return {Q - Q0, P - P0};
}

template <class Net>
class BinaryCut final : public BinaryEngine {
 public:
  static constexpr int D = Net::directions;

  // narrow: the scale that makes every number whole, or 0
  BinaryCut(const Input& input, const Survey& survey, double narrow)
      : grid_(grid_shape(input.shape, D > 0)), offsets_(forward_offsets(D)) {
    survey_ = survey;
    narrow_ = narrow > 0;
    clips_ = !narrow_ && survey.clip();
    const double rest = survey.edges + survey.rest;
    // Clipped unaries add at most what the edges carry, once at each end.
    const double held = clips_ ? 3 * rest + survey.constant : survey.total();
    quantise_ = Quantiser(narrow_ ? narrow : scale_for(held));
    Builder<Net> builder(net_, input, grid_, quantise_);
    builder.build(clips_);
    edge_arc_ = std::move(builder.edge_arc);
    decided_ = builder.decided;
    for (const auto& [slot, amount, lost, on] : builder.clipped) {
      clipped_rest_[slot] = on ? -amount : amount;
      const std::int8_t fixed = input.fixed.empty() ? -1 : input.fixed[grid_.pixel(slot)];
      if (fixed >= 0 ? fixed != 1 : !on) continue;
      clipped_ = exact_sum(clipped_, amount, clipped_error_);
      clipped_error_ += lost;
    }
    solver_.check_network();
    labels_.assign(grid_.pixels(), 0);
    for (std::size_t i = 0; i < input.fixed.size(); ++i)
      if (input.fixed[i] >= 0) force(grid_.slot(static_cast<Id>(i)), input.fixed[i]);
  }

  void solve(int threads) override {
    const bool stale = std::exchange(stale_, true);
    if (!solved_) start(threads);
    solver_.solve();
    stale_ = stale;
    changed_.clear();
    resumed_ = solved_;
    solved_ ? read_touched() : read_all();
    solved_ = true;
  }

  bool resumed() const override { return resumed_; }

  Cap minimum() const override { return net_.K; }

  std::pair<std::vector<Cap>, std::vector<Cap>> residuals() override {
    std::vector<Cap> excess, difference;
    grid_.for_pixels([&](Id, Id v) { excess.push_back(net_.excess[v]); });
    for (const Id a : edge_arc_) difference.push_back(net_.arc[a] - net_.arc[net_.sister[a]]);
    return {std::move(excess), std::move(difference)};
  }

  void change_unary(std::span<const std::int64_t> index, std::span<const double> values,
                    double* stored) override {
    std::array<double, kBlock> old;
    PixelCursor slot(grid_);
    const FitsScale holds(scale(), narrow_);
    in_blocks(index.size(), [&](std::size_t begin, std::size_t end) {
      BlockSums sums;
      for (std::size_t k = begin; k < end; ++k) {
        const double x = values[k], before = std::exchange(stored[index[k]], x);
        old[k - begin] = before;
        sums.take(std::abs(before), std::abs(x));
        sums.held &= holds(x);
      }
      if (!follows(survey_.unary, sums)) return;
      for (std::size_t k = begin; k < end; ++k) {
        const Cap amount = replace(quantise_, old[k - begin], values[k], narrow_);
        const Id v = slot(index[k]);
        if (amount == 0) continue;
        solver_.change([&](Net& net) { net.add_unary(v, amount); });
        flow_.excess_changed(v);
      }
    });
    force_again(index.size(), [&](std::size_t k, auto&& see) { see(slot(index[k])); });
  }

  void change_weights(std::span<const std::int64_t> index, std::span<const double> pq,
                      double* stored) override {
    const std::size_t columns = pq.size() == index.size() ? 1 : 2;  // p = q, or p and q
    std::array<double, 2 * kBlock> old;
    EdgeCursor edge(grid_, offsets_);
    const FitsScale holds(scale(), narrow_);
    const double widest = narrow_ ? 0x1p30 / scale() : std::numeric_limits<double>::infinity();
    const auto locate = [&](std::int64_t e) {
      if constexpr (D == 0)
        return Arc{net_.head[net_.sister[edge_arc_[e]]], edge_arc_[e]};
      else
        return edge(e);
    };
    in_blocks(index.size(), [&](std::size_t begin, std::size_t end) {
      BlockSums sums;
      for (std::size_t k = begin; k < end; ++k) {
        double *at = stored + 2 * index[k], *before = old.data() + 2 * (k - begin);
        const double p = pq[columns * k], q = pq[columns * k + columns - 1];
        const double size = std::abs(p) + std::abs(q);
        before[0] = std::exchange(at[0], p);
        before[1] = std::exchange(at[1], q);
        sums.take(std::abs(before[0]) + std::abs(before[1]), size);
        sums.held &= holds(p) & holds(q) & (size < widest);
      }
      if (!follows(survey_.edges, sums)) return;
      for (std::size_t k = begin; k < end; ++k) {
        const double* pair = pq.data() + columns * k;
        const auto [there, back] = replace_pair(quantise_, old.data() + 2 * (k - begin), pair[0],
                                                pair[columns - 1], narrow_);
        const auto [v, code] = locate(index[k]);
        if (there == 0 && back == 0) continue;
        bool moved = false;  // whether a residual below zero became a change of unaries
        solver_.change([&, v = v, code = code, there = there, back = back](Net& net) {
          moved |= net.add_pairwise(v, code, there, back);
        });
        flow_.residual_changed(v, code);
        if (!moved) continue;
        flow_.excess_changed(v);
        flow_.excess_changed(net_.neighbour(v, code));
      }
    });
    force_again(index.size(), [&](std::size_t k, auto&& see) {
      const auto [v, code] = locate(index[k]);
      see(v), see(net_.neighbour(v, code));
    });
  }

  void change_fixed(std::span<const std::int64_t> index, std::span<const std::int8_t> labels,
                    std::int8_t* stored) override {
    stale_ = stale_ || clips_;
    for (std::size_t k = 0; k < index.size(); ++k) {
      stored[index[k]] = labels[k];
      if (!stale_) force(grid_.slot(static_cast<Id>(index[k])), labels[k]);
    }
  }

  void shift_unary(std::span<const Id> nodes, std::span<const double> mass,
                   double factor) override {
    PixelCursor cursor(grid_);
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      const Cap amount = quantise_(factor * mass[k]);
      const Id slot = cursor(nodes[k]);
      if (amount == 0) continue;
      solver_.change([&](Net& net) { net.add_unary(slot, amount); });
      flow_.excess_changed(slot);
    }
    force_again(nodes.size(), [&](std::size_t k, auto&& see) { see(grid_.slot(nodes[k])); });
  }

  void min_marginals(double* phi, int threads) override {
    marginals(phi, threads, [](int, Id, double, std::span<const Id>) {});
  }

  ArgminSums argmin_sums(double* phi, const ArgminTask& task, int threads) override {
    const ArgminPlan plan(task, labels_);
    const std::vector<std::uint8_t> on = solver_.source_side();
    // One for each thread that has something to add.
    std::vector<std::optional<ArgminSummer<Net>>> summers(kMostThreads);
    summers[0].emplace(net_, grid_, on, plan);
    marginals(phi, threads, [&](int thread, Id i, double rise, std::span<const Id> set) {
      auto& summer = summers[thread];
      if (!summer) summer.emplace(net_, grid_, on, plan);
      summer->add(i, rise, set);
    });
    for (std::size_t t = 1; t < summers.size(); ++t)
      if (summers[t]) summers[0]->add(*summers[t]);
    return summers[0]->sums(edge_arc_);
  }

  std::string disproof(const Input& input) override {
    BinaryCut pristine(input, cutlearn::survey(input), narrow_ ? scale() : 0);
    std::string fault;
    grid_.for_pixels([&](Id i, Id v) {
      if (labels_[i] != flow_.on_source_side(v)) fault = "labels differ from the source side";
    });
    return fault.empty() ? solver_.disproof(pristine.net_) : fault;
  }

 private:
  struct Force {
    std::int8_t label;
    Cap amount;
  };

  // What needs no search over the whole network.
  void start(int threads) {
    const bool hard = flows_far();
    if constexpr (D > 0)
      if (hard) Pyramid<Net>(net_, grid_)();
    if constexpr (D > 0 && !Net::has_arcs)
      if (tiles_pay(grid_)) return search_tiles(net_, flow_, grid_, threads, hard);
    if (!hard) push_ahead(net_);
  }

  // Whether a coarser network pays (decision 0032): shares of decided pixels were 0.9 in easy
  // volumes, 0.6 in blurred ones, and 0 to 0.02 where hubs made a cut slow, from 0.16 on not.
  bool flows_far() const {
    if constexpr (D > 0) {
      if (!Pyramid<Net>::pays(grid_)) return false;
      if constexpr (kChecks) return grid_.pixels() % 2 == 0;  // both ways are tried
      return decided_ < (Net::has_arcs ? 0.125 : grid_.size[0] > 1 ? 0.75 : 0.0);
    }
    return false;
  }

  // Writes phi, and calls visit(thread, i, rise, A_i) for every free node i: its other label costs
  // `rise` more than the minimum.
  template <class Visit>
  void marginals(double* phi, int threads, Visit&& visit) {
    const Cap best = minimum();
    const double least = energy(best), quantum = quantise_.quantum();
    for (Id i = 0; i < grid_.pixels(); ++i) {
      phi[2 * i + labels_[i]] = least;
      phi[2 * i + !labels_[i]] = std::numeric_limits<double>::infinity();
    }
    const auto skip = [&](Id i) { return !forced_.empty() && forced_.count(grid_.slot(i)); };
    each_marginal(net_, solver_.source_side(), grid_, threads, skip,
                  [&](int thread, Id i, Cap f, std::span<const Id> set) {
                    double& other = phi[2 * i + !labels_[i]];
                    other = static_cast<double>(best + f) * quantum + clipped_;
                    double rise = static_cast<double>(f) * quantum;
                    if (!clipped_rest_.empty())
                      if (const auto it = clipped_rest_.find(grid_.slot(i));
                          it != clipped_rest_.end()) {
                        other += it->second;
                        rise += it->second;
                      }
                    visit(thread, i, rise, set);
                  });
  }

  // Moves one of the survey's sums on by a block; false if the network can no longer follow.
  bool follows(double& sum, const BlockSums& block) {
    constexpr double kAdding = kBlock * 0x1p-53;  // what adding a block may round, of its sum
    drift_ += kAdding * (block.before + block.now);
    const double rest = exact_sum(sum, -block.before, drift_);
    sum = exact_sum(rest, block.now, drift_);
    // A number that is replaced twice in one block is in its sum, but not in the total.
    const double most = std::max(survey_.total() + survey_doubt(), block.now);
    const bool outgrows = most * quantise_.scale() >= 0x1p61;
    stale_ = stale_ || !block.held || clips_ || (!narrow_ && may_clip()) || outgrows;
    return !stale_;
  }

  // Changes the label that v is forced to; -1 frees it.
  void force(Id v, std::int8_t label) {
    if (const auto it = forced_.find(v); it != forced_.end()) {
      solver_.add_bias(v, it->second.label, -it->second.amount);
      forced_.erase(it);
      if (label < 0) flow_.excess_changed(v);
    }
    if (label >= 0) forced_[v] = {label, solver_.force(v, label)};
  }

  // Forces again the forced nodes that a change of n numbers touched; each(k, see) calls see with
  // those of number k. Where very many changed, all are.
  template <class Each>
  void force_again(std::size_t n, Each&& each) {
    if (forced_.empty() || stale_) return;
    std::vector<std::pair<Id, std::int8_t>> again;
    const auto see = [&](Id v) {
      const auto it = forced_.find(v);
      if (it != forced_.end()) again.emplace_back(v, it->second.label);
    };
    if (n < forced_.size())
      for (std::size_t k = 0; k < n; ++k) each(k, see);
    else
      for (const auto& [v, old] : forced_) again.emplace_back(v, old.label);
    for (const auto& [v, label] : again) force(v, label);
  }

  void read_all() {
    grid_.for_pixels([&](Id i, Id v) { labels_[i] = flow_.on_source_side(v); });
    flow_.touched().clear();
  }

  void read_touched() {
    for (const Id v : flow_.touched()) {
      if (v >= grid_.slots) continue;  // an auxiliary node
      const Id i = grid_.pixel(v);
      const std::uint8_t label = flow_.on_source_side(v);
      if (labels_[i] != label) {
        labels_[i] = label;
        changed_.push_back(i);
      }
    }
    flow_.touched().clear();
    std::sort(changed_.begin(), changed_.end());
  }

  GridShape grid_;
  std::vector<Offset> offsets_;
  FlowSolver<Net> solver_;
  Net& net_ = solver_.net;
  Maxflow<Net>& flow_ = solver_.search;
  std::vector<Id> edge_arc_;
  std::unordered_map<Id, Force> forced_;
  std::unordered_map<Id, double>
      clipped_rest_;    // what clipping took from the cost of the label not forced
  double decided_ = 0;  // see Builder
  bool solved_ = false, resumed_ = false;
};

}  // namespace cutlearn
