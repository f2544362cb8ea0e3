// All min-marginals of a solved network: for a node d, the least energy with d at its other label,
// and the nodes that change their label then.
//
// What     In a solved network no residual path leads from an excess to a deficit. Let d have label
//          0. Forcing it to 1 makes it a source without limit, so
//            f_d = Phi_d(1) - min E = the largest flow from d to the deficits,
//          and the labelling nearest to the minimiser that attains it puts A_d to 1: all that d
//          then reaches. No residual path enters the other side, so the search stays on d's own.
//          For label 1 everything is mirrored: excesses flow to d, A_d is all that reaches d.
// How      Flow is not taken back. A push from d that leaves excess_d lower by the same amount
//          keeps the stored function (N3 of flow/network.hpp), so it just moves room (what is left
//          of deficits) to d, and f_d is all the room that can be gathered at d. The next node, a
//          neighbour, finds most of its room there, one step away.
// Search   Breadth first from each neighbour of d in turn. Where a path fills up, the search goes
//          back to the state before the nodes beyond were found. What was searched without finding
//          room is closed (no residual arc leaves it) and stays so while d gathers.
// Sets     If d lies in the set A_c of the node c before it, all room of A_c is at c (or where it
//          was moved since). If d takes it all and still reaches the place, A_d = A_c, known
//          without a search. f_d and A_d depend on the energy alone, not on order or flow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "flow/grid.hpp"
#include "flow/network.hpp"
#include "run/parallel.hpp"

namespace cutlearn {

template <class Net>
class MarginalSearch {
 public:
  // requires a solved network, on[v] iff v is on the source side, auxiliary nodes from `hubs` on
  MarginalSearch(Net solved, const std::vector<std::uint8_t>& on, Id hubs)
      : net_(std::move(solved)),
        hubs_(hubs),
        found_(std::make_unique_for_overwrite<Found[]>(net_.slots)),
        mark_(net_.slots, 0),
        owner_(net_.slots, 0) {
    for (Id v = 0; v < net_.slots; ++v)
      if (on[v]) mark_[v] = kOne;
    if constexpr (Net::has_arcs) next_.assign(net_.slots, 0);
  }

  // ensures the value is f_d, and set() is A_d
  Cap operator()(Id d) { return mark_[d] & kOne ? gather<true>(d) : gather<false>(d); }
  std::span<const Id> set() const { return set_; }

 private:
  static constexpr std::uint32_t kOne = std::uint32_t{1} << 31;  // of mark_: the side of a node
  struct Found {
    Id node;
    Id from;  // place of the node that led here; -1: d
    Id code;  // of the arc from there to here
  };

  template <bool one>
  auto& onward(Id v, Id code) {
    return one ? net_.in(v, code) : net_.out(v, code);
  }
  template <bool one>
  void push(Id v, Id code, Cap amount) {
    onward<one>(v, code) -= amount;
    onward<!one>(v, code) += amount;
  }
  template <bool one>
  Cap room(Id v) const {
    return one ? net_.excess[v] : -net_.excess[v];
  }
  template <bool one>
  void move_room(Id from, Id to, Cap amount) {
    net_.excess[from] -= one ? amount : -amount;
    net_.excess[to] += one ? amount : -amount;
  }
  template <bool one>
  bool open(Id v) const {  // on this side, and not found yet
    return (one ? mark_[v] ^ kOne : mark_[v]) < stamp_;
  }
  template <bool one>
  void mark(Id v, std::uint32_t stamp) {
    mark_[v] = one ? stamp | kOne : stamp;
  }
  Id before(Id k) const { return found_[k].from < 0 ? d_ : found_[found_[k].from].node; }

  template <bool one>
  Cap gather(Id d) {
    d_ = d;
    count_ = 0;
    mark<one>(d, ++stamp_);
    const bool inside = owner_[d] == set_stamp_;
    // Room of neighbours first, without a branch: for most nodes that is all.
    Cap taken = 0, left = 0;
    net_.any_code(d, [&](Id code) {
      const Id n = net_.neighbour(d, code);
      auto& r = onward<one>(d, code);
      const Cap amount = std::max<Cap>(std::min<Cap>(r, room<one>(n)), 0);
      push<one>(d, code, amount);
      net_.excess[n] -= one ? amount : -amount;
      taken += amount;
      left |= r;
      return false;
    });
    net_.excess[d] += one ? taken : -taken;
    const bool same = left > 0 && net_.any_code(d, [&](Id code) {
      if (onward<one>(d, code) <= 0) return false;
      const Id n = net_.neighbour(d, code);
      if (!open<one>(n)) return false;
      if (inside && n == holder_) return true;
      return !(!is_hub(n) && two_steps<one>(code, n)) && search<one>(code, n, inside);
    });
    holder_ = d;
    if (!same) keep_set();
    return room<one>(d);
  }

  // Room of the neighbours of n; true if the arc of d to n is full.
  template <bool one>
  bool two_steps(Id code_of_d, Id n) {
    const Cap all = onward<one>(d_, code_of_d);
    Cap left = all;
    resume_scan(n, [&](Id code) {
      const Id w = net_.neighbour(n, code);
      const Cap there = w == d_ ? 0 : std::min<Cap>(onward<one>(n, code), room<one>(w));
      const Cap amount = std::max<Cap>(std::min(there, left), 0);
      push<one>(n, code, amount);
      net_.excess[w] -= one ? amount : -amount;
      left -= amount;
      return left == 0;
    });
    push<one>(d_, code_of_d, all - left);
    net_.excess[d_] += one ? all - left : left - all;
    return left == 0;
  }

  template <class F>
  bool resume_scan(Id v, F&& f) {
    if constexpr (Net::has_arcs)
      return net_.any_code_from(v, next_[v], [&](Id code) {
        const bool stop = f(code);
        if (stop) next_[v] = code;
        return stop;
      });
    else
      return net_.any_code(v, f);
  }

  void keep_set() {
    set_.resize(1 + count_);
    set_[0] = d_;
    set_stamp_ = stamp_;
    for (Id k = 0; k < count_; ++k) owner_[set_[k + 1] = found_[k].node] = stamp_;
  }

  // Searches for room from n until the arc of d is full or nothing is left to find. True if d took
  // all the room of the set that it lies in, and still reaches where it was.
  template <bool one>
  [[gnu::noinline]] bool search(Id code_of_d, Id n, bool inside) {
    const Id base = count_;
    add<one>(n, -1, code_of_d);
    for (Id at = base; at < count_;) {
      const Id u = found_[at].node;
      Id cut = -1;
      bool same = false;
      const auto look = [&](Id code) {
        auto& r = onward<one>(u, code);
        if (r <= 0) return false;
        const Id w = net_.neighbour(u, code);
        if (!open<one>(w)) return false;
        if (room<one>(w) > 0) {
          cut = augment<one>(at, code, w);
          if (cut >= 0) return true;
          if (r <= 0) return false;
          if (inside && w == holder_) return same = true;
        }
        add<one>(w, at, code);
        if (is_hub(u)) cut = look_ahead<one>(count_ - 1);
        return cut >= 0;
      };
      resume_scan(u, look);
      if (same) return true;
      if (cut < 0) {
        ++at;
        continue;
      }
      at = found_[cut].from;
      while (count_ > cut) mark<one>(found_[--count_].node, 0);
      if (cut == base) return false;
    }
    return false;
  }

  // Looks one step beyond place `at`, so that a search need not go through all members of a hub
  // before it looks further. As augment.
  template <bool one>
  Id look_ahead(Id at) {
    const Id u = found_[at].node;
    Id cut = -1;
    net_.any_code(u, [&](Id code) {
      const Id w = net_.neighbour(u, code);
      if (onward<one>(u, code) > 0 && room<one>(w) > 0 && open<one>(w))
        cut = augment<one>(at, code, w);
      return cut >= 0;
    });
    return cut;
  }
  bool is_hub(Id v) const { return Net::has_arcs && v >= hubs_; }

  template <bool one>
  void add(Id v, Id from, Id code) {
    mark<one>(v, stamp_);
    found_[count_++] = {v, from, code};
  }

  // Pushes what the path to w over place `at` can carry. The place of the first node on it that is
  // cut off from d, or -1.
  template <bool one>
  Id augment(Id at, Id code, Id w) {
    Cap amount = std::min<Cap>(room<one>(w), onward<one>(found_[at].node, code));
    for (Id k = at; k >= 0; k = found_[k].from)
      amount = std::min<Cap>(amount, onward<one>(before(k), found_[k].code));
    push<one>(found_[at].node, code, amount);
    Id cut = -1;
    for (Id k = at; k >= 0; k = found_[k].from) {
      const Id u = before(k);
      push<one>(u, found_[k].code, amount);
      if (onward<one>(u, found_[k].code) <= 0) cut = k;
    }
    move_room<one>(w, d_, amount);
    return cut;
  }

  Net net_;
  const Id hubs_;
  Id d_ = 0, count_ = 0;
  std::unique_ptr<Found[]> found_;    // the first count_: nodes found from d_, in order
  std::vector<std::uint32_t> mark_;   // stamp_ if found
  std::vector<std::uint32_t> owner_;  // set_stamp_ if in the set of the last node
  std::uint32_t stamp_ = 0, set_stamp_ = 0;
  std::vector<Id> set_;
  Id holder_ = -1;        // where the room of that set is
  std::vector<Id> next_;  // code of the last arc that led a hub to room
};

// Calls visit(thread, i, f_i, A_i) for every pixel i but those that skip(i) names; A_i as slots.
// Each thread keeps a network of its own. Rows are walked to and fro: the room gathered at one node
// is next to the next one.
template <class Net, class Skip, class Visit>
void each_marginal(const Net& solved, const std::vector<std::uint8_t>& on, const GridShape& grid,
                   int threads, Skip&& skip, Visit&& visit) {
  struct Worker {
    int thread;
    MarginalSearch<Net> search;
  };
  // Pieces of a few thousand pixels, whole rows of a grid.
  constexpr Id kPiece = 4096;
  const Id pixels = grid.pixels(), width = Net::directions ? std::max(grid.size[2], 1) : kPiece;
  const auto rows = static_cast<Id>((std::int64_t{pixels} + width - 1) / width);
  const Id step = std::max(1, kPiece / width), count = (rows + step - 1) / step;
  const auto make = [&](int thread) {
    return Worker{thread, MarginalSearch<Net>(solved.clone(), on, grid.slots)};
  };
  const auto work = [&](Worker& worker, std::size_t piece) {
    const Id from = static_cast<Id>(piece) * step;
    for (Id row = from; row < std::min(rows, from + step); ++row) {
      const Id begin = row * width, end = std::min(pixels, begin + width);
      const Id shift = grid.slot(begin) - begin;
      for (Id k = begin; k < end; ++k) {
        if ((k & 1023) == 0) allow_interrupt();
        const Id i = row % 2 ? end - 1 - (k - begin) : k;
        if (skip(i)) continue;
        const Cap f = worker.search(i + shift);
        visit(worker.thread, i, f, worker.search.set());
      }
    }
  };
  if (count == 0) return;
  try {
    parallel(static_cast<std::size_t>(count), threads, make, work);
  } catch (const TaskFailure& failure) {
    std::rethrow_exception(failure.cause);
  }
}

}  // namespace cutlearn
