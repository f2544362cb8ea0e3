// Ordered labels over one kind of network.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "energy/engine.hpp"
#include "energy/ordered_layout.hpp"
#include "flow/partition.hpp"
#include "flow/solver.hpp"
#include "flow/sweep.hpp"

namespace cutlearn {

// The edges at every pixel.
class EdgesOfPixels {
 public:
  struct Edge {
    Id other, edge;
    bool first;  // whether the pixel is the edge's first end
  };

  EdgesOfPixels(Id pixels, std::span<const Id> ends) : begin_(pixels + 1, 0), edges_(ends.size()) {
    for (const Id i : ends) ++begin_[i + 1];
    for (Id i = 0; i < pixels; ++i) begin_[i + 1] += begin_[i];
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    for (std::size_t k = 0; k < ends.size(); ++k)
      edges_[next[ends[k]]++] = {ends[k ^ 1], static_cast<Id>(k / 2), k % 2 == 0};
  }

  std::span<const Edge> of(Id i) const {
    return {edges_.data() + begin_[i], edges_.data() + begin_[i + 1]};
  }

 private:
  std::vector<std::size_t> begin_;
  std::vector<Edge> edges_;
};

template <class Net>
class OrderedCut final : public OrderedEngine {
 public:
  using Layout = OrderedLayout<Net>;

  OrderedCut(const OrderedInput& input, OrderedTerms terms)
      : OrderedEngine(std::move(terms)),
        L_(terms_.L),
        fixed_(input.fixed.begin(), input.fixed.end()),
        layout_(input, terms_, net_) {
    quantise_ = Quantiser(terms_.scale);
    quantise_.inexact = terms_.inexact;
    clipped_ = terms_.clipped;
    clipped_error_ = terms_.clipped_error;
    solver_.check_network();
  }

  Cap minimum() const override { return net_.K; }

  void solve(int threads) override {
    if (!std::exchange(started_, true)) {
      if constexpr (Layout::kStraight)
        search_bands<2, Layout::kStraight>(net_, flow_, layout_.grid.stride[1] * (L_ - 1), threads);
      else
        push_ahead<Net>(net_);
    }
    solver_.solve();
    layout_.grid.for_pixels([&](Id t, Id slot) { labels_[t] = label_at(slot); });
    if constexpr (kChecks) throw_if_fault(broken_order());
  }

  void min_marginals(double* least, int threads) override {
    solve(threads);
    const double best = energy(net_.K);
    std::fill_n(least, static_cast<std::size_t>(terms_.pixels) * L_,
                std::numeric_limits<double>::infinity());
    for (Id t = 0; t < terms_.pixels; ++t) least[std::size_t(t) * L_ + labels_[t]] = best;
    for_forced([&](Id t, Id, Id l) {
      const std::size_t at = static_cast<std::size_t>(t) * L_ + l;
      least[at] = energy(net_.K);
      if (!terms_.taken.empty()) least[at] += terms_.taken[at];
    });
  }

  // A labelling that attains a min-marginal differs from the cut in a connected set of pixels around
  // the forced one: any other part of it could be left out, at no cost.
  void argmin_sums(std::span<const double> weights, std::span<const Id> ends, double* node_sums,
                   double* edge_sums) override {
    solve(1);
    const EdgesOfPixels edges(terms_.pixels, ends);
    std::vector<Id> slot_of;
    layout_.grid.for_pixels([&](Id, Id slot) { slot_of.push_back(slot); });
    std::vector<std::uint8_t> now(labels_), seen(labels_.size(), 0);
    std::vector<Id> turned, looked;
    for_forced([&](Id t, Id, Id l) {
      const double c = weights[static_cast<std::size_t>(t) * L_ + l];
      if (c == 0) return;
      looked.assign(1, t);
      seen[t] = 1;
      for (std::size_t k = 0; k < looked.size(); ++k) {
        const Id i = looked[k];
        if ((now[i] = label_at(slot_of[i])) == labels_[i]) continue;
        turned.push_back(i);
        for (const auto& [other, e, first] : edges.of(i))
          if (!std::exchange(seen[other], 1)) looked.push_back(other);
      }
      const auto add = [&](double* sums, std::size_t from, std::size_t to) {
        sums[from] -= c;
        sums[to] += c;
      };
      for (const Id i : turned) {
        add(node_sums + static_cast<std::size_t>(i) * L_, labels_[i], now[i]);
        for (const auto& [other, e, first] : edges.of(i)) {
          // An edge of which both ends turn is counted at its first.
          if (now[other] != labels_[other] && !first) continue;
          const Id a = first ? i : other, b = first ? other : i;
          add(edge_sums + static_cast<std::size_t>(e) * L_ * L_, labels_[a] * L_ + labels_[b],
              now[a] * L_ + now[b]);
        }
      }
      for (const Id i : looked) {
        now[i] = labels_[i];
        seen[i] = 0;
      }
      turned.clear();
    });
  }

  std::string disproof(const OrderedInput& input) override {
    OrderedTerms terms(input);
    if (sizeof(typename Net::Residual) == 8) terms.widen();
    if (Layout::kGrid && rounded_reach(input, terms) > Layout::kReach)
      return "the tables join thresholds that this network has no arcs for";
    Net pristine;
    Layout(input, terms, pristine);
    if (terms.scale != scale()) return "the energy needs another scale";
    std::string fault = broken_order();
    layout_.grid.for_pixels([&](Id t, Id slot) {
      if (labels_[t] != label_at(slot)) fault = "labels differ from the source side";
    });
    return fault.empty() ? solver_.disproof(pristine) : fault;
  }

 private:
  Id node(Id slot, Id k) const { return layout_.node(slot, k); }

  std::uint8_t label_at(Id slot) const {
    std::uint8_t label = 0;
    for (Id k = 1; k < L_; ++k) label += flow_.on_source_side(node(slot, k));
    return label;
  }

  // Empty if no arc that keeps the order is cut.
  std::string broken_order() const {
    std::string fault;
    layout_.grid.for_pixels([&](Id t, Id slot) {
      for (Id k = 2; k < L_; ++k)
        if (flow_.on_source_side(node(slot, k)) && !flow_.on_source_side(node(slot, k - 1)))
          fault = broken("an order arc is cut at pixel ", t);
    });
    return fault;
  }

  // Forces each pixel that is free to its other labels in turn, from the last flow; calls f with the
  // pixel, its slot and the label while the network is solved so.
  // requires a solved network; ensures it is solved without force again
  template <class F>
  void for_forced(F&& f) {
    layout_.grid.for_pixels([&](Id t, Id slot) {
      if (!fixed_.empty() && fixed_[t] >= 0) return;
      for (Id l = 0; l < L_; ++l) {
        if (l == labels_[t]) continue;
        const Cap up = l > 0 ? solver_.force(node(slot, l), true) : 0;
        const Cap down = l + 1 < L_ ? solver_.force(node(slot, l + 1), false) : 0;
        solver_.solve();
        f(t, slot, l);
        if (l > 0) solver_.release(node(slot, l), true, up);
        if (l + 1 < L_) solver_.release(node(slot, l + 1), false, down);
      }
    });
    solver_.solve();
  }

  Id L_;
  std::vector<std::int16_t> fixed_;
  FlowSolver<Net> solver_;
  Net& net_ = solver_.net;
  Maxflow<Net>& flow_ = solver_.search;
  Layout layout_;
  bool started_ = false;
};

}  // namespace cutlearn
