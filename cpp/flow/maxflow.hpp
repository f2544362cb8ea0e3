// Maximum flow by two search trees that keep breadth-first levels (incremental breadth-first
// search; Goldberg, Hed, Kaplan, Tarjan, Werneck, ESA 2011), resumable after any change.
//
// What     Tree S grows from nodes with excess > 0 along residual arcs, tree T from nodes with
//          excess < 0 against them. Where the trees meet, flow is pushed along the path found;
//          nodes whose link to the parent filled up are orphans and look for a new parent that
//          lies strictly nearer to its root. Levels make that a local look: no walk to the root.
// Invariants (between calls of grow; "depth" is |level|)
//   T1  a node of a tree is a root (its excess has the tree's sign) or its parent link has
//       residual capacity and the parent is of the same tree and of smaller depth: no cycles.
//   T2  a node of S that is not waiting in `active` has all its residual out-neighbours in S,
//       except over arcs that wait in `reopened`. Likewise T and in-neighbours, except that after
//       changes from outside T may lag behind: only the end of S is needed to stop.
//   T3  a node whose depth is top[side] is waiting; none is deeper.
// Why it stops  Every push raises the flow by at least one quantum. Between pushes a node sinks
//          only a few times before it goes free (RelabelBudget), and each scan adds nodes or ends.
// Sharing  Several searches may share the levels and parents of one network, each in a part of it that
//          no arc joins to the others'.
// At the end S has no waiting node: by T2 it is the set that the source reaches in the residual
// network, the unique minimal source side, whatever the order of the pushes.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "flow/checks.hpp"
#include "flow/grid.hpp"
#include "flow/levels.hpp"
#include "flow/network.hpp"
#include "run/interrupt.hpp"
#include "run/pool.hpp"

namespace cutlearn {

// How often a node may sink before it goes free.
//
// A set of nodes cut off from its roots would climb level by level, each one taking another for its
// parent, up to the top. After a few steps in one phase a node goes free instead: if it is still
// reached, its neighbours find it again.
class RelabelBudget {
 public:
  // sunk: zeros, one for each node
  void start(std::uint8_t* sunk) { sunk_ = sunk; }
  void next_phase() { phase_ = static_cast<std::uint8_t>(phase_ + kSteps + 2); }

  // Whether v may sink once more in this phase; counts it.
  bool spend(Id v) {
    // sunk_[v] - phase_ counts the steps of this phase. Other differences are older counts; one
    // that looks recent because bytes wrap only frees a node too early.
    const auto count = static_cast<std::uint8_t>(sunk_[v] - phase_);
    sunk_[v] = static_cast<std::uint8_t>(phase_ + (count > kSteps ? 1 : count + 1));
    return count != kSteps;
  }

 private:
  static constexpr std::uint8_t kSteps = 2;  // measured: 1 to 4 are alike
  std::uint8_t* sunk_ = nullptr;
  std::uint8_t phase_ = 0;
};

template <class Net>
class Maxflow {
 public:
  static constexpr int D = Net::directions;
  using R = typename Net::Residual;
  using Link = std::conditional_t<Net::has_arcs, Id, std::uint8_t>;
  static constexpr Link kRoot = std::numeric_limits<Link>::max();
  static constexpr Link kOrphan = kRoot - 1;
  static constexpr Link kNone = kRoot - 2;
  enum Side { S = 0, T = 1 };

  explicit Maxflow(Net& net) : net_(net) {}

  bool on_source_side(Id v) const { return level_[v] > 0; }

  // Room for the trees, all nodes free.
  void make_trees() {
    memory_.level.assign(net_.slots, 0);
    memory_.parent.assign(net_.slots, kNone);
    if constexpr (Net::has_arcs) memory_.current.assign(net_.slots, 0);
    memory_.sunk.assign(net_.slots, 0);
    use(memory_.level.data(), memory_.parent.data(), memory_.current.data(), memory_.sunk.data());
  }

  // A search of its own in the same trees, for a part of the network that no arc joins to the rest
  // as long as it lives. Different parts may be searched at the same time.
  Maxflow part() {
    Maxflow other(net_);
    other.use(level_, parent_, current_, sunk_);
    return other;
  }

  // Nodes that entered or left S since the last call, some of them more than once.
  std::vector<Id>& touched() { return touched_; }

  // ensures no residual path from an excess to a deficit; S is all that excesses reach
  void solve() {
    if (!level_) {
      make_trees();
      plant(Run{net_.begin(), net_.end()});
    }
    search();
    net_.K += std::exchange(flow_, 0);
    track_ = true;
    if constexpr (kChecks)
      throw_if_fault(broken_trees(net_, level_, parent_, kRoot, top_, active_));
  }

  // The excesses and deficits of a range become roots.
  template <class Range>
  void plant(const Range& range) {
    range.forward([&](Id v) {
      const Cap e = net_.excess[v];
      if (e == 0) return;
      level_[v] = e > 0 ? 1 : -1;
      parent_[v] = kRoot;
      active_[e > 0 ? S : T].add(v, 1);
    });
  }

  void search() {
    adopt<S>();
    adopt<T>();
    bool t_grows = true;
    while (grow<S>())
      if (t_grows) t_grows = grow<T>();
  }

  // Counts flow that was pushed without a search.
  void add_flow(Cap amount) { flow_ += amount; }

  // Takes over what a part, searched to its end, left waiting, and the flow that it found.
  void absorb(Maxflow& part) {
    for (const Side side : {S, T}) {
      top_[side] = std::max(top_[side], part.top_[side]);
      active_[side].add_all(part.active_[side]);
    }
    flow_ += std::exchange(part.flow_, 0);
  }

  // To be called after the excess of v changed.
  void excess_changed(Id v) {
    if (!level_) return;
    if (net_.excess[v] > 0 && level_[v] < 0) drain<T>(v);
    if (net_.excess[v] < 0 && level_[v] > 0) drain<S>(v);
    const Cap e = net_.excess[v];
    if (e > 0) {
      make_root<S>(v);
    } else if (e < 0) {
      make_root<T>(v);
    } else if (level_[v] != 0 && parent_[v] == kRoot) {
      level_[v] > 0 ? make_orphan<S>(v) : make_orphan<T>(v);
    }
  }

  // To be called after the residuals between v and neighbour(v, code) changed.
  void residual_changed(Id v, Id code) {
    if (!level_) return;
    const auto [w, out, in] = net_.end(v, code);
    if (out == 0 || in == 0) {
      drop_saturated(v, code);
      drop_saturated(w, net_.reverse(v, code));
    }
    if ((level_[v] > 0) == (level_[w] > 0) && (level_[v] < 0) == (level_[w] < 0)) return;
    if (out > 0) wake(v, w);
    if (in > 0) wake(w, v);
  }

  // To be called after r(v -> w) grew from zero: T2 must hold for v in S and for w in T.
  void wake(Id v, Id w) {
    if (level_[v] > 0 && level_[w] <= 0 && level_[v] < top_[S]) active_[S].add(v, level_[v]);
    if (level_[w] < 0 && level_[v] == 0 && -level_[w] < top_[T]) active_[T].add(w, -level_[w]);
  }

 private:
  template <Side side>
  static constexpr Id sign = side == S ? 1 : -1;

  // Residual along which `side` grows from v over code, and that which links v to a parent.
  template <Side side>
  auto& grow_cap(Id v, Id code) {
    return side == S ? net_.out(v, code) : net_.in(v, code);
  }
  template <Side side>
  auto& link_cap(Id v, Id code) {
    return side == S ? net_.in(v, code) : net_.out(v, code);
  }

  // The first of these for a direction d of the grid that is known to lead from v to w.
  template <Side side>
  auto& cap_from(Id v, Id d, Id w) {
    return side == S ? net_.at(v, d) : net_.at(w, Net::opposite(d));
  }

  // Whether v, over the arc of this code, is the parent of its neighbour u.
  bool is_parent(Id v, Id code, Id u) const {
    return parent_[u] == static_cast<Link>(net_.reverse(v, code));
  }

  template <Side side>
  void make_orphan(Id v) {
    parent_[v] = kOrphan;
    orphans_[side].add(v, level_[v] * sign<side>);
  }

  // Finds every orphan a parent, nearest to the roots first: those of smaller depth are settled,
  // so a link to one of them can be trusted.
  template <Side side>
  void adopt() {
    Levels<Id>& waiting = orphans_[side];
    if (waiting.lowest() < 0) return;
    budget_.next_phase();
    for (Id depth; (depth = waiting.lowest()) >= 0;) {
      for (std::size_t k = 0; k < waiting.at(depth).size(); ++k) {
        const Id v = waiting.at(depth)[k];
        if (parent_[v] == kOrphan && level_[v] == sign<side> * depth) settle<side>(v, depth);
      }
      waiting.at(depth).clear();
    }
  }

  template <Side side>
  void settle(Id v, Id depth) {
    Id nearest = top_[side];
    if (find_parent<side>(v, depth, nearest)) return;
    // No parent at a smaller depth: sink to just below the nearest neighbour, or go free. The
    // children's depths are no longer above v's, so they look again, after v in order.
    const Id* offset = net_.offsets(v);
    auto children = Net::mask([&](Id d) { return parent_[v + offset[d]] == Net::opposite(d); });
    for (; children; children &= children - 1)
      make_orphan<side>(v + offset[std::countr_zero(children)]);
    net_.any_arc(v, 0, [&](Id, Id u, R& out, R& in, Id back) {
      const Id at = level_[u] * sign<side>;
      if (at <= 0) return false;
      if (parent_[u] == static_cast<Link>(back)) make_orphan<side>(u);
      if (at < nearest && (side == S ? in : out) > 0) nearest = at;
      return false;
    });
    if (nearest < top_[side] && budget_.spend(v)) {
      level_[v] = sign<side> * (nearest + 1);
      orphans_[side].add(v, nearest + 1);
      if (nearest + 1 == top_[side]) active_[side].add(v, nearest + 1);
    } else {
      level_[v] = 0;
      parent_[v] = kNone;
      if (side == S && track_) touched_.push_back(v);
      if (nearest < top_[side]) wake_around<side>(v);
    }
    if constexpr (Net::has_arcs) current_[v] = 0;
  }

  // v left its tree: nodes there that reach it must look at it again (T2).
  template <Side side>
  void wake_around(Id v) {
    net_.any_code(v, [&](Id code) {
      const Id u = net_.neighbour(v, code);
      const Id at = level_[u] * sign<side>;
      if (at <= 0 || at >= top_[side] || link_cap<side>(v, code) <= 0) return false;
      if (code < D)
        active_[side].add(u, at);
      else  // it may have very many arcs: it looks along this one only
        reopened_[side].add({u, net_.reverse(v, code)}, at);
      return false;
    });
  }

  // Else `nearest` is the least depth among the neighbours in the grid that could be a parent.
  template <Side side>
  bool find_parent(Id v, Id depth, Id& nearest) {
    if constexpr (D > 0)
      if (find_grid_parent<side>(v, depth, nearest)) return true;
    if constexpr (Net::has_arcs) {
      // Arcs before current_ were found useless for this depth: a node with very many arcs must
      // not look at all of them each time it loses its parent.
      return net_.any_arc(v, current_[v], [&](Id code, Id u, R& out, R& in, Id) {
        const Id at = level_[u] * sign<side>;
        if (at > 0 && at < depth && (side == S ? in : out) > 0) {
          parent_[v] = static_cast<Link>(code);
          return true;
        }
        ++current_[v];
        return false;
      });
    }
    return false;
  }

  template <Side side>
  bool find_grid_parent(Id v, Id depth, Id& nearest) {
    // Depth and direction in one number, the least of all: no branch until it is known.
    std::uint64_t best = static_cast<std::uint64_t>(nearest) << 5;
    const Id* offset = net_.offsets(v);
#pragma GCC unroll 32
    for (Id d = 0; d < D; ++d) {
      const Id u = v + offset[d], at = level_[u] * sign<side>;
      const bool fits = (at > 0) & (cap_from<side>(u, Net::opposite(d), v) > 0);
      const auto key = static_cast<std::uint64_t>(at) << 5 | static_cast<std::uint64_t>(d);
      best = std::min(best, fits ? key : ~std::uint64_t{0});
    }
    nearest = static_cast<Id>(best >> 5);
    if (nearest < depth) parent_[v] = static_cast<Link>(best & 31);
    return nearest < depth;
  }

  // --- growing the trees ---

  // Looks from the lowest waiting depth of one tree; false if nothing waits.
  template <Side side>
  bool grow() {
    const Id depth = active_[side].lowest(), arcs = reopened_[side].lowest();
    if (arcs >= 0 && (depth < 0 || arcs <= depth)) {
      const auto visit = [&](const Arc& a) { return look<side>(a.from, a.code, arcs); };
      look_at<side>(reopened_[side], look_, arcs, [](const Arc& a) { return a.from; }, visit);
      return true;
    }
    if (depth < 0) return false;
    if (depth == top_[side]) ++top_[side];
    const auto visit = [&](Id u) { return scan<side>(u, depth); };
    look_at<side>(active_[side], scan_, depth, [](Id u) { return u; }, visit);
    return true;
  }

  // Visits all that waits at a depth. What sank while it waited, or in its visit (then that is
  // false), waits again; at the top it does already (T3).
  template <Side side, class Item, class Node, class Visit>
  void look_at(Levels<Item>& waiting, std::vector<Item>& taken, Id depth, Node&& node,
               Visit&& visit) {
    taken.swap(waiting.at(depth));
    if ((scans_ += taken.size()) >= kScans) scans_ = 0, allow_interrupt();
    for (const Item& item : taken) {
      if (level_[node(item)] == sign<side> * depth && visit(item)) continue;
      const Id at = level_[node(item)] * sign<side>;
      if (at > 0 && at < top_[side]) waiting.add(item, at);
    }
    taken.clear();
  }

  // Looks along every arc of u; false if u left its depth on the way.
  template <Side side>
  bool scan(Id u, Id depth) {
    // Which directions lead out of the tree is found without branches: mostly none does.
    const Id* offset = net_.offsets(u);
    auto open = Net::mask([&](Id d) {
      const Id v = u + offset[d];
      return (cap_from<side>(u, d, v) > 0) & (level_[v] * sign<side> <= 0);
    });
    for (; open; open &= open - 1)
      if (!look<side>(u, std::countr_zero(open), depth)) return false;
    return !net_.any_arc(u, 0, [&](Id code, Id v, R& out, R& in, Id) {
      if ((side == S ? out : in) <= 0 || level_[v] * sign<side> > 0) return false;
      return !look<side>(u, code, depth);
    });
  }

  template <Side side>
  bool look(Id u, Id code, Id depth) {
    while (grow_cap<side>(u, code) > 0) {
      const Id v = net_.neighbour(u, code);
      const Id there = level_[v] * sign<side>;
      if (there > 0) return true;
      if (there == 0) {
        level_[v] = sign<side> * (depth + 1);
        parent_[v] = static_cast<Link>(net_.reverse(u, code));
        active_[side].add(v, depth + 1);
        if (side == S && track_) touched_.push_back(v);
        return true;
      }
      side == S ? augment(u, code) : augment(v, net_.reverse(u, code));
      adopt<S>();
      adopt<T>();
      if (level_[u] != sign<side> * depth) return false;
    }
    return true;
  }

  // Pushes what the path root(S) .. u -> neighbour .. root(T) can carry.
  void augment(Id u, Id code) {
    const Id v = net_.neighbour(u, code);
    Cap amount = net_.out(u, code);
    const Id source = bottleneck<S>(u, amount), sink = bottleneck<T>(v, amount);
    net_.push(u, code, amount);
    push_up<S>(u, amount);
    push_up<T>(v, amount);
    flow_ += amount;
    if ((net_.excess[source] -= amount) == 0) make_orphan<S>(source);
    if ((net_.excess[sink] += amount) == 0) make_orphan<T>(sink);
  }

  template <Side side>
  Id bottleneck(Id v, Cap& amount) {
    while (parent_[v] != kRoot) {
      const auto [above, out, in] = net_.end(v, parent_[v]);
      amount = std::min<Cap>(amount, side == S ? in : out);
      v = above;
    }
    amount = std::min(amount, side == S ? net_.excess[v] : -net_.excess[v]);
    return v;
  }

  template <Side side>
  void push_up(Id v, Cap amount) {
    while (parent_[v] != kRoot) {
      const auto [above, out, in] = net_.end(v, parent_[v]);
      auto& left = side == S ? in : out;
      left -= amount;
      (side == S ? out : in) += amount;
      if (left == 0) make_orphan<side>(v);
      v = above;
    }
  }

  // --- changes from outside, between solves ---

  // An excess that arises at a node of T leaves through its path to the root, as far as that has
  // room; likewise a deficit in S. Mostly the trees stay as they are.
  template <Side side>
  void drain(Id v) {
    if (parent_[v] == kRoot) return;
    Cap amount = net_.excess[v] < 0 ? -net_.excess[v] : net_.excess[v];
    Id root = v;
    while (parent_[root] != kRoot) {
      if (parent_[root] == kOrphan) return;
      amount = std::min<Cap>(amount, link_cap<side>(root, parent_[root]));
      root = net_.neighbour(root, parent_[root]);
    }
    amount = std::min(amount, net_.excess[root] < 0 ? -net_.excess[root] : net_.excess[root]);
    if (amount == 0) return;  // the root changed sign and is about to be notified
    push_up<side>(v, amount);
    net_.excess[v] += sign<side> * amount;
    net_.excess[root] -= sign<side> * amount;
    net_.K += amount;
    if (net_.excess[root] == 0) make_orphan<side>(root);
  }

  template <Side side>
  void make_root(Id v) {
    if (level_[v] * sign<side> > 0) {
      parent_[v] = kRoot;  // its depth stays: T1 needs only smaller depths above
      return;
    }
    if (level_[v] != 0) abandon_children(v);
    if (level_[v] > 0) wake_around<S>(v);
    if (side == S || level_[v] > 0) touched_.push_back(v);
    level_[v] = sign<side>;
    parent_[v] = kRoot;
    active_[side].add(v, 1);
  }

  void abandon_children(Id v) {
    const bool s = level_[v] > 0;
    net_.any_code(v, [&](Id code) {
      const Id u = net_.neighbour(v, code);
      if (is_parent(v, code, u)) s ? make_orphan<S>(u) : make_orphan<T>(u);
      return false;
    });
  }

  void drop_saturated(Id v, Id code) {
    if (parent_[v] != static_cast<Link>(code)) return;
    if (level_[v] > 0 && net_.in(v, code) == 0) make_orphan<S>(v);
    if (level_[v] < 0 && net_.out(v, code) == 0) make_orphan<T>(v);
  }

  void use(Id* level, Link* parent, Id* current, std::uint8_t* sunk) {
    level_ = level;
    parent_ = parent;
    current_ = current;
    budget_.start(sunk_ = sunk);
  }

  Net& net_;
  struct Memory {
    PooledVector<Id> level, current;
    PooledVector<Link> parent;
    PooledVector<std::uint8_t> sunk;
  } memory_;                // of the whole; its parts have none
  Id* level_ = nullptr;     // > 0 depth in S, < 0 minus the depth in T, 0 in neither
  Link* parent_ = nullptr;  // code of the arc from the node towards its parent
  Id* current_ = nullptr;   // first arc that may still lead to a parent
  std::uint8_t* sunk_ = nullptr;
  std::array<Levels<Id>, 2> active_, orphans_;
  std::array<Levels<Arc>, 2> reopened_;  // arcs outside the grid that wait, not their nodes
  std::array<Id, 2> top_{1, 1};
  std::vector<Id> touched_;
  RelabelBudget budget_;
  bool track_ = false;  // the first solve touches everything: not worth listing
  std::vector<Id> scan_;
  std::vector<Arc> look_;
  Cap flow_ = 0;                               // found, and not yet in K
  static constexpr std::size_t kScans = 4096;  // between two checks for an interrupt
  std::size_t scans_ = 0;
};

}  // namespace cutlearn
