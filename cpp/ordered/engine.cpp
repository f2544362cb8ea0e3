#include "ordered/engine.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "flow/arcs.hpp"
#include "flow/certificate.hpp"
#include "flow/checks.hpp"
#include "flow/maxflow.hpp"
#include "flow/network.hpp"
#include "flow/sweep.hpp"

namespace cutlearn {

namespace {

// The edges around every pixel.
class Around {
 public:
  struct Edge {
    Id other, edge;
    bool first;  // whether the pixel is the edge's first end
  };

  Around(Id pixels, std::span<const Id> ends) : begin_(pixels + 1, 0), edges_(ends.size()) {
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

// The search over one kind of network: a list of arcs, or a grid of pixels with L - 1 nodes each.
// Directions of a grid: up and down the thresholds, then for each direction of the pixels that
// towards the same threshold, then those towards the next higher, then towards the next lower.
// With CUTLEARN_CHECKS a twin network follows every change but is never solved, every solve is
// proved against it, and no order arc is cut.
template <class Net>
class OrderedFlow final : public Ordered {
 public:
  static constexpr bool kGrid = !Net::has_arcs;
  static constexpr Id D = Net::directions;
  // Of a grid: directions of the pixels, forward only, and all that keep or cross thresholds alone.
  // Those that do both hardly ever carry flow: they are left to the search.
  static constexpr Id kForward = D == 6 || D == 14 ? 2 : 4;
  static constexpr Id kStraight = kGrid ? 2 + 2 * kForward : 0;

  OrderedFlow(const OrderedInput& input, OrderedTerms terms)
      : Ordered(std::move(terms)),
        L_(terms_.L),
        grid_(roomy(grid_shape(input.shape, kGrid))),
        fixed_(input.fixed.begin(), input.fixed.end()),
        flow_(net_) {
    const std::int64_t thresholds = L_ - 1;
    check_size((grid_.slots + grid_.guard) * thresholds, "nodes");
    net_.allocate(grid_.slots * thresholds, static_cast<Id>(grid_.guard * thresholds));
    carried_.assign(grid_.slots, 1);
    if constexpr (kGrid) {
      set_offsets(input);
      add_rows(input);
    } else {
      ArcLayout<Net> arcs(net_);
      make_room(input, arcs);
      add_edges(input, arcs);
    }
    add_unaries(terms_.limited.empty() ? input.unary : terms_.limited);
    for (Id v = net_.begin(); v < net_.end(); ++v) net_.K -= std::max<Cap>(net_.excess[v], 0);
    if constexpr (kChecks) {
      demand(broken_network(net_));
      twin_ = net_.clone();
    }
  }

  Cap minimum() const override { return net_.K; }

  void solve() override {
    if (!std::exchange(started_, true)) push_ahead<Net, kStraight, kGrid ? 2 : 0, kStraight>(net_);
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
  // A neighbour lies up to a threshold further than its pixel: one more slot of padding.
  static GridShape roomy(GridShape grid) {
    grid.guard += kGrid;
    grid.slots += kGrid;
    return grid;
  }
  static auto narrowed(Cap c) { return static_cast<typename Net::Residual>(c); }
  Id node(Id slot, Id k) const { return slot * (L_ - 1) + k - 1; }
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
    for (Id z = 0; z < grid_.size[0]; ++z)
      for (Id y = 0; y < grid_.size[1]; ++y)
        for (Id slot = grid_.slot(z, y, 0), end = slot + grid_.size[2]; slot < end; ++slot)
          f(t++, slot);
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

  // The code of the arc from threshold k to threshold l of the next pixel.
  Id code(std::size_t direction, Id k, Id l) const {
    const Id turn = l == k ? 0 : l > k ? 1 : 2;
    return 2 + 2 * (turn * kForward + static_cast<Id>(direction));
  }

  void set_offsets(const OrderedInput& input) {
    const auto set = [&](Id code, Id offset) {
      net_.offset[code] = offset;
      net_.offset[code + 1] = -offset;
    };
    set(0, 1);
    const auto offsets = forward_offsets(input.connectivity);
    for (std::size_t d = 0; d < offsets.size(); ++d) {
      const Offset& o = offsets[d];
      const Id step = (L_ - 1) * (o[0] * grid_.stride[0] + o[1] * grid_.stride[1] + o[2]);
      set(code(d, 1, 1), step);
      if (D == kStraight) continue;
      set(code(d, 1, 2), step + 1);
      set(code(d, 2, 1), step - 1);
    }
  }

  // Counts the arcs of every node and lays those that keep the order, without capacities yet:
  // the first arc of a node k > 1 leads to k - 1.
  void make_room(const OrderedInput& input, ArcLayout<Net>& arcs) {
    const std::int64_t thresholds = L_ - 1, edges = static_cast<std::int64_t>(terms_.edge_count());
    check_size(2 * thresholds * (terms_.pixels + edges * thresholds), "arcs");
    for (Id t = 0; t < terms_.pixels; ++t)
      for (Id k = 2; k < L_; ++k) arcs.count(node(t, k), node(t, k - 1));
    for_edges(input, grid_, [&](std::size_t d, std::size_t e, Id tail, Id head) {
      const Cap* part = terms_.part(d, e);
      for (Id k = 1; k < L_; ++k)
        for (Id l = 1; l < L_; ++l)
          if (part[k * L_ + l]) arcs.count(node(tail, k), node(head, l));
    });
    arcs.make_room();
    for (Id t = 0; t < terms_.pixels; ++t)
      for (Id k = 2; k < L_; ++k) arcs.join(node(t, k), node(t, k - 1));
  }

  void join(ArcLayout<Net>& arcs, Id u, Id v, ArcPair pair) {
    const Id a = arcs.join(u, v);
    net_.arc[a] = pair.there;
    net_.arc[net_.sister[a]] = pair.back;
  }

  void add_edges(const OrderedInput& input, ArcLayout<Net>& arcs) {
    for_edges(input, grid_, [&](std::size_t d, std::size_t e, Id tail, Id head) {
      const Cap* part = terms_.part(d, e);
      net_.K += part[0];
      Cap carried = 0;
      for (Id k = 1; k < L_; ++k) {
        net_.excess[node(tail, k)] -= part[k * L_];
        net_.excess[node(head, k)] -= part[k];
        for (Id l = 1; l < L_; ++l) {
          const Cap c = part[k * L_ + l];
          carried += c;
          if (c) join(arcs, node(tail, k), node(head, l), arcs_of(c, k, l));
        }
      }
      carried_[tail] += carried;
      carried_[head] += carried;
    });
  }

  // The same on a grid, where the residuals of a pixel's nodes lie together: all of an edge's are
  // written at once, at the same places for every edge of a direction.
  void add_rows(const OrderedInput& input) {
    struct Place {
      Id k, l;
      std::size_t there, back;  // from the first residual of the tail's pixel, of the head's
    };
    const auto offsets = forward_offsets(input.connectivity);
    const Id reach = D == kStraight ? 0 : 1;
    for (std::size_t d = 0; d < offsets.size(); ++d) {
      std::vector<Place> places;
      for (Id k = 1; k < L_; ++k)
        for (Id l = std::max(1, k - reach); l <= std::min(L_ - 1, k + reach); ++l) {
          const std::size_t c = code(d, k, l);
          places.push_back({k, l, (k - 1) * std::size_t{D} + c, (l - 1) * std::size_t{D} + c + 1});
        }
      const Offset& o = offsets[d];
      const Id step = o[0] * grid_.stride[0] + o[1] * grid_.stride[1] + o[2];
      for_runs(grid_, o, [&](Id first, std::size_t e, Id n) {
        for (Id tail = first, end = first + n; tail < end; ++tail, ++e) {
          const Id head = tail + step;
          const Cap* part = terms_.part(d, e);
          net_.K += part[0];
          Cap *at_tail = &net_.excess[node(tail, 1)], *at_head = &net_.excess[node(head, 1)];
          for (Id k = 1; k < L_; ++k) {
            at_tail[k - 1] -= part[k * L_];
            at_head[k - 1] -= part[k];
          }
          auto *from_tail = &net_.at(node(tail, 1), 0), *from_head = &net_.at(node(head, 1), 0);
          Cap carried = 0;
          for (const Place& place : places) {
            const Cap c = part[place.k * L_ + place.l];
            const ArcPair arcs = arcs_of(c, place.k, place.l);
            from_tail[place.there] = narrowed(arcs.there);
            from_head[place.back] = narrowed(arcs.back);
            carried += c;
          }
          carried_[tail] += carried;
          carried_[head] += carried;
        }
      });
    }
  }

  void add_unaries(std::span<const double> unary) {
    Quantiser q(terms_.scale);
    const double* u = unary.data();
    for_pixels([&](Id, Id slot) {
      q.inexact = 0;
      Cap below = q(*u++), all = carried_[slot];
      net_.K += below;
      for (Id k = 1; k < L_; ++k) {
        const Cap here = q(*u++);
        Cap& excess = net_.excess[node(slot, k)];
        excess -= here - std::exchange(below, here);
        all += std::abs(excess);
      }
      terms_.inexact += q.inexact != 0;
      for (Id k = 2; k < L_; ++k) {
        if constexpr (kGrid)
          net_.at(node(slot, k), 1) = narrowed(all);
        else
          net_.arc[net_.first[node(slot, k)]] = all;
      }
    });
    carried_ = {};
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
  GridShape grid_;
  std::vector<std::int16_t> fixed_;
  std::vector<Cap> carried_;  // one more than the sum of the arcs at each pixel
  Net net_, twin_;            // twin_: see the top
  Maxflow<Net> flow_;
  bool started_ = false;
};

}  // namespace

std::unique_ptr<Ordered> make_ordered(const OrderedInput& input, OrderedTerms terms) {
  const Id reach = input.connectivity ? terms.reach() : 2;
  const auto make = [&]<class Net>(std::type_identity<Net>) -> std::unique_ptr<Ordered> {
    return std::make_unique<OrderedFlow<Net>>(input, std::move(terms));
  };
  const auto grid = [&]<class R>(std::type_identity<R>) -> std::unique_ptr<Ordered> {
    if (input.connectivity == 4 && reach == 0)
      return make(std::type_identity<Network<6, false, R>>{});
    if (input.connectivity == 4 && reach == 1)
      return make(std::type_identity<Network<14, false, R>>{});
    if (input.connectivity == 8 && reach == 0)
      return make(std::type_identity<Network<10, false, R>>{});
    if (input.connectivity == 8 && reach == 1)
      return make(std::type_identity<Network<26, false, R>>{});
    return make(std::type_identity<Network<0, true, Cap>>{});
  };
  if (terms.narrow) return grid(std::type_identity<std::int32_t>{});
  return grid(std::type_identity<Cap>{});
}

}  // namespace cutlearn
