// The two search trees of a maximum flow: the state of a node, and how orphans find parents.
//
// What     Nodes of tree S and of tree T have a level and the code of the arc to their parent;
//          lists by depth hold what waits: nodes and arcs to look from, orphans. Several searches
//          may share the levels and parents of one network, each in a part of it that no arc joins to
//          the others'. Invariants T1 to T3 are those of maxflow.hpp.
// Why it stops  An orphan finds a parent, sinks, or goes free after a few steps (RelabelBudget).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "flow/levels.hpp"
#include "flow/network.hpp"
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
class Forest {
 public:
  static constexpr int D = Net::directions;
  using R = typename Net::Residual;
  using Link = std::conditional_t<Net::has_arcs, Id, std::uint8_t>;
  static constexpr Link kRoot = std::numeric_limits<Link>::max();
  static constexpr Link kOrphan = kRoot - 1;
  static constexpr Link kNone = kRoot - 2;
  enum Side { S = 0, T = 1 };

  explicit Forest(Net& net) : net_(net) {}

  bool on_source_side(Id v) const { return level_[v] > 0; }

  // Room for the trees, all nodes free.
  void make_trees() {
    memory_.level.assign(net_.slots, 0);
    memory_.parent.assign(net_.slots, kNone);
    if constexpr (Net::has_arcs) memory_.current.assign(net_.slots, 0);
    memory_.sunk.assign(net_.slots, 0);
    look_into(memory_.level.data(), memory_.parent.data(), memory_.current.data(),
              memory_.sunk.data());
  }

  // To be called after r(v -> w) grew from zero: T2 must hold for v in S and for w in T.
  void wake(Id v, Id w) {
    if (level_[v] > 0 && level_[w] <= 0 && level_[v] < top_[S]) active_[S].add(v, level_[v]);
    if (level_[w] < 0 && level_[v] == 0 && -level_[w] < top_[T]) active_[T].add(w, -level_[w]);
  }

 protected:
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

  void look_into(Id* level, Link* parent, Id* current, std::uint8_t* sunk) {
    level_ = level;
    parent_ = parent;
    current_ = current;
    budget_.start(sunk_ = sunk);
  }

  // Looks into the trees of another.
  void share(const Forest& other) {
    look_into(other.level_, other.parent_, other.current_, other.sunk_);
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
};

}  // namespace cutlearn
