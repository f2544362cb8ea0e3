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
//          only a few times before it goes free, and each scan adds nodes or ends.
// At the end S has no waiting node: by T2 it is the set that the source reaches in the residual
// network, the unique minimal source side, whatever the order of the pushes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "flow/checks.hpp"
#include "flow/forest.hpp"
#include "flow/grid.hpp"
#include "flow/levels.hpp"
#include "flow/network.hpp"
#include "run/interrupt.hpp"

namespace cutlearn {

template <class Net>
class Maxflow : public Forest<Net> {
  using Base = Forest<Net>;

 public:
  using Base::D, Base::S, Base::T, Base::kNone, Base::kOrphan, Base::kRoot, Base::wake;
  using typename Base::Link, typename Base::R, typename Base::Side;

  explicit Maxflow(Net& net) : Base(net) {}

  // A search of its own in the same trees, for a part of the network that no arc joins to the rest
  // as long as it lives. Different parts may be searched at the same time.
  Maxflow part() {
    Maxflow other(net_);
    other.share(*this);
    return other;
  }

  // Nodes that entered or left S since the last call, some of them more than once.
  std::vector<Id>& touched() { return touched_; }

  // ensures no residual path from an excess to a deficit; S is all that excesses reach
  void solve() {
    if (!level_) {
      Base::make_trees();
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

 private:
  using Base::active_, Base::level_, Base::net_, Base::orphans_, Base::parent_, Base::reopened_;
  using Base::is_parent, Base::top_, Base::touched_, Base::track_;
  template <Side side>
  static constexpr Id sign = Base::template sign<side>;

  template <Side side>
  auto& grow_cap(Id v, Id code) {
    return Base::template grow_cap<side>(v, code);
  }
  template <Side side>
  auto& link_cap(Id v, Id code) {
    return Base::template link_cap<side>(v, code);
  }
  template <Side side>
  void make_orphan(Id v) {
    Base::template make_orphan<side>(v);
  }
  template <Side side>
  void adopt() {
    Base::template adopt<side>();
  }

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
    // Which directions lead out of the tree is asked without branches: mostly none does.
    const Id* offset = net_.offsets(u);
    auto open = Net::mask([&](Id d) {
      const Id v = u + offset[d];
      return (Base::template cap_from<side>(u, d, v) > 0) & (level_[v] * sign<side> <= 0);
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
    if (amount == 0) return;  // the root changed sign and is about to say so
    push_up<side>(v, amount);
    net_.excess[v] += sign<side> * amount;
    net_.excess[root] -= sign<side> * amount;
    net_.K += amount;
    if (net_.excess[root] == 0) make_orphan<side>(root);
  }

  template <Side side>
  void make_root(Id v) {
    if (level_[v] * sign<side> > 0) {
      parent_[v] = kRoot;  // its depth stays: T1 asks only for smaller depths above
      return;
    }
    if (level_[v] != 0) abandon_children(v);
    if (level_[v] > 0) Base::template wake_around<S>(v);
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

  std::vector<Id> scan_;
  std::vector<Arc> look_;
  Cap flow_ = 0;                               // found, and not yet in K
  static constexpr std::size_t kScans = 4096;  // between two questions whether to go on
  std::size_t scans_ = 0;
};

}  // namespace cutlearn
