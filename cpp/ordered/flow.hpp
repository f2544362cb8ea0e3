// The cut of ordered labels over one kind of network.
//
// With CUTLEARN_CHECKS a twin network follows every change but is never solved, every solve is
// proved against it, and no order arc is cut.
#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "flow/bands.hpp"
#include "flow/certificate.hpp"
#include "flow/checks.hpp"
#include "flow/maxflow.hpp"
#include "flow/sweep.hpp"
#include "ordered/around.hpp"
#include "ordered/engine.hpp"
#include "ordered/layout.hpp"

namespace cutlearn {

template <class Net>
class OrderedFlow final : public Ordered {
 public:
  static constexpr Id kStraight = OrderedLayout<Net>::kStraight;

  OrderedFlow(const OrderedInput& input, OrderedTerms terms)
      : Ordered(std::move(terms)),
        L_(terms_.L),
        fixed_(input.fixed.begin(), input.fixed.end()),
        layout_(input, terms_, net_),
        flow_(net_) {
    if constexpr (kChecks) {
      demand(broken_network(net_));
      twin_ = net_.clone();
    }
  }

  bool exact() const override { return layout_.exact(); }
  Cap minimum() const override { return net_.K; }

  void solve() override {
    if (!std::exchange(started_, true)) start();
    search();
    for_pixels([&](Id t, Id slot) { labels_[t] = label_at(slot); });
  }

  void min_marginals(double* least) override {
    solve();
    const double best = energy();
    std::fill_n(least, static_cast<std::size_t>(terms_.pixels) * L_,
                std::numeric_limits<double>::infinity());
    for (Id t = 0; t < terms_.pixels; ++t) least[std::size_t(t) * L_ + labels_[t]] = best;
    for_forced([&](Id t, Id, Id l) {
      const std::size_t at = static_cast<std::size_t>(t) * L_ + l;
      least[at] = energy();
      if (!terms_.taken.empty()) least[at] += terms_.taken[at];
    });
  }

  // A labelling that attains a min-marginal differs from the cut in a connected set of pixels around
  // the forced one: any other part of it could be left out, at no cost.
  void argmin_sums(std::span<const double> weights, std::span<const Id> ends, double* node_sums,
                   double* edge_sums) override {
    solve();
    const Around around(terms_.pixels, ends);
    std::vector<Id> slot_of;
    for_pixels([&](Id, Id slot) { slot_of.push_back(slot); });
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
        for (const auto& [other, e, first] : around.of(i))
          if (!std::exchange(seen[other], 1)) looked.push_back(other);
      }
      const auto add = [&](double* sums, std::size_t from, std::size_t to) {
        sums[from] -= c;
        sums[to] += c;
      };
      for (const Id i : turned) {
        add(node_sums + static_cast<std::size_t>(i) * L_, labels_[i], now[i]);
        for (const auto& [other, e, first] : around.of(i)) {
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

 private:
  Id node(Id slot, Id k) const { return layout_.node(slot, k); }
  double energy() const { return static_cast<double>(net_.K) / terms_.scale + terms_.beyond; }

  std::uint8_t label_at(Id slot) {
    std::uint8_t label = 0;
    for (Id k = 1; k < L_; ++k) label += flow_.on_source_side(node(slot, k));
    return label;
  }

  // Forces each pixel that is free to its other labels in turn, from the last flow; calls f with the
  // pixel, its slot and the label while the network is solved so.
  // requires a solved network; ensures it is solved without force again
  template <class F>
  void for_forced(F&& f) {
    for_pixels([&](Id t, Id slot) {
      if (!fixed_.empty() && fixed_[t] >= 0) return;
      for (Id l = 0; l < L_; ++l) {
        if (l == labels_[t]) continue;
        const Cap up = l > 0 ? force(node(slot, l), true) : 0;
        const Cap down = l + 1 < L_ ? force(node(slot, l + 1), false) : 0;
        search();
        f(t, slot, l);
        if (l > 0) favour(node(slot, l), true, -up);
        if (l + 1 < L_) favour(node(slot, l + 1), false, -down);
      }
    });
    search();
  }

  template <class F>
  void for_pixels(F&& f) const {
    Id t = 0;
    for (Id z = 0; z < layout_.grid.size[0]; ++z)
      for (Id y = 0; y < layout_.grid.size[1]; ++y)
        for (Id slot = layout_.grid.slot(z, y, 0), end = slot + layout_.grid.size[2]; slot < end;
             ++slot)
          f(t++, slot);
  }

  void start() {
    if constexpr (kStraight)
      Bands<Net, 2, kStraight>(net_, flow_, layout_.grid.stride[1] * (L_ - 1))();
    else
      push_ahead<Net>(net_);
  }

  void search() {
    flow_.solve();
    if constexpr (kChecks) demand(disproof_from_twin());
  }

  std::string disproof_from_twin() {
    std::vector<std::uint8_t> on(net_.slots);
    for (Id v = net_.begin(); v < net_.end(); ++v) on[v] = flow_.on_source_side(v);
    std::string fault;
    for_pixels([&](Id t, Id slot) {
      for (Id k = 2; k < L_; ++k)
        if (on[node(slot, k)] && !on[node(slot, k - 1)])
          fault = broken("an order arc is cut at pixel ", t);
    });
    return fault.empty() ? disproof(net_, twin_, on) : fault;
  }

  // Makes the label other than `on` cost more by `amount`.
  void favour(Id v, bool on, Cap amount) {
    const auto change = [&](Net& net) {
      net.add_unary(v, on ? -amount : amount);
      if (on) net.K += amount;
    };
    change(net_);
    if constexpr (kChecks) change(twin_);
    flow_.excess_changed(v);
  }

  // ensures v has the label `on` in every minimum; gives the amount that `favour` was given
  Cap force(Id v, bool on) {
    const Cap amount = net_.incident(v) + std::abs(linear_coefficient(net_, v)) + 1;
    favour(v, on, amount);
    return amount;
  }

  Id L_;
  std::vector<std::int16_t> fixed_;
  Net net_, twin_;  // twin_: see the top
  OrderedLayout<Net> layout_;
  Maxflow<Net> flow_;
  bool started_ = false;
};

}  // namespace cutlearn
