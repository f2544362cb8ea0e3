// A flow network in residual form: an implicit n-D grid, a list of arcs, or both.
//
// What     Node slots 0..slots-1. Slots of a grid are row-major with padding, so that the
//          neighbour of v in direction d is v + offset[d] and no heads or sisters are stored:
//          padding has capacity 0 everywhere and is never entered. The residuals of a pixel lie
//          side by side. Arcs of general graphs lie contiguously by tail; those between auxiliary
//          nodes and the members of their regions are in flow/members.hpp.
// Layers   A pixel may have several nodes, side by side, layers 0..T-1; slot v has layer v mod T.
//          Directions 0 and 1 are left to arcs between the layers of a pixel; then come those
//          of the pixels towards the same layer, then towards the next one, and so on round. So
//          a neighbour is an offset that depends on the layer, and the opposite direction does not.
// Numbers  Residuals are of type R, 32 bits wide where that is exact, else 64: half of the memory
//          is a tenth of the time. Sums, excesses and flows are always 64 bits.
// Code     An arc out of v is named by a code: 0..D-1 for the directions, D + a for arc a, and
//          D + the number of arcs + its place for one between a member and a hub.
// Meaning  A node on the source side has label 1. The stored function of the labels y is
//            K + sum_v ([excess_v]+ - excess_v y_v) + sum_(u->v) r(u->v) y_u (1 - y_v).
// Invariants
//   N1  every r >= 0.
//   N2  opposite(d) leads back from where d leads to, d ^ 1 with one layer; sister[sister[a]] == a.
//   N3  every change (push, set_*) keeps the function's value for every labelling, or changes
//       it by exactly what the caller requested. So once no residual path is left, K is the
//       minimum.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "flow/ids.hpp"
#include "flow/members.hpp"
#include "run/pool.hpp"

namespace cutlearn {

using Cap = std::int64_t;

// Memory that starts as zeros.
template <class T>
class Zeroed {
 public:
  Zeroed() = default;
  explicit Zeroed(std::size_t n)
      : data_(static_cast<T*>(Pool::get().take(bytes(n), true)), Free{bytes(n)}) {}
  T& operator[](std::size_t i) { return data_.get()[i]; }
  const T& operator[](std::size_t i) const { return data_.get()[i]; }
  T* get() { return data_.get(); }
  const T* get() const { return data_.get(); }

 private:
  static std::size_t bytes(std::size_t n) { return (n ? n : 1) * sizeof(T); }
  struct Free {
    std::size_t bytes = 0;
    void operator()(T* p) const { Pool::get().give(p, bytes); }
  };
  std::unique_ptr<T[], Free> data_;
};

template <int D, bool Arcs, class R, int T = 1>
struct Network {
  using Residual = R;
  static constexpr int directions = D;
  static constexpr int layers = T;
  static constexpr bool has_arcs = Arcs;
  static constexpr bool kListed = Arcs && D == 0;  // a grid has no arcs from a list

  Id slots = 0;
  Id guard = 0;  // the first and the last slots are padding: a neighbour always exists in memory
  Cap K = 0;
  std::array<Id, (D ? D * T : 1)> offset{};  // of layer 0, of layer 1, ...
  Zeroed<Cap> excess;
  Zeroed<R> grid_caps;                  // the D residuals of slot 0, of slot 1, ...
  std::vector<Id> first, head, sister;  // listed arcs by tail; first has slots + 1 entries
  std::vector<R> arc;
  Members<R> members;

  // Room for n slots and a guard after them; the guard before them is among the n.
  void allocate(std::int64_t n, Id guard_slots) {
    check_size(n + guard_slots, "nodes");
    guard = guard_slots;
    n += guard;
    slots = static_cast<Id>(n);
    excess = Zeroed<Cap>(n);
    grid_caps = Zeroed<R>(static_cast<std::size_t>(n) * D);
  }

  // A network of its own with the same contents.
  Network clone() const {
    Network copy;
    copy.allocate(slots - guard, guard);
    copy.K = K;
    copy.offset = offset;
    std::copy_n(excess.get(), slots, copy.excess.get());
    std::copy_n(grid_caps.get(), static_cast<std::size_t>(slots) * D, copy.grid_caps.get());
    copy.first = first;
    copy.head = head;
    copy.sister = sister;
    copy.arc = arc;
    copy.members = members;
    return copy;
  }

  Id begin() const { return guard; }
  Id end() const { return slots - guard; }
  // The offsets of v's layer.
  const Id* offsets(Id v) const {
    return offset.data() + (T == 1 ? 0 : static_cast<std::uint32_t>(v) % T * D);
  }
  static constexpr Id opposite(Id d) { return T == 1 ? d ^ 1 : kOpposite[d]; }
  Id neighbour(Id v, Id code) const {
    if (is_direction(code)) return v + offsets(v)[code];
    if (is_listed(code)) return head[code - D];
    return members.neighbour(v, code - member_code());
  }
  Id reverse(Id v, Id code) const {  // the code of the same arc at the neighbour
    if (is_direction(code)) return opposite(code);
    if (is_listed(code)) return D + sister[code - D];
    return member_code() + members.reverse(v, code - member_code());
  }
  // r(v -> neighbour in direction d)
  R& at(Id v, Id d) { return grid_caps[static_cast<std::size_t>(v) * D + d]; }
  R& out(Id v, Id code) {  // r(v -> neighbour)
    if (is_direction(code)) return at(v, code);
    if (is_listed(code)) return arc[code - D];
    return members.out(v, code - member_code());
  }
  R& in(Id v, Id code) {  // r(neighbour -> v)
    if (is_direction(code)) return at(v + offsets(v)[code], opposite(code));
    if (is_listed(code)) return arc[sister[code - D]];
    return members.in(v, code - member_code());
  }

  // Where an arc leads, with r(v -> there) and r(there -> v).
  End<R> end(Id v, Id code) {
    if (is_direction(code)) {
      const Id w = v + offsets(v)[code];
      return {w, at(v, code), at(w, opposite(code))};
    }
    if (is_listed(code)) return {head[code - D], arc[code - D], arc[sister[code - D]]};
    return members.end(v, code - member_code());
  }

  // One bit for each direction of the grid where f holds.
  template <class F>
  static std::uint32_t mask(F&& f) {
    std::uint32_t bits = 0;
#pragma GCC unroll 32
    for (Id d = 0; d < D; ++d) bits |= static_cast<std::uint32_t>(f(d)) << d;
    return bits;
  }

  // Calls f(code) for every arc out of v until one call returns true.
  template <class F>
  bool any_code(Id v, F&& f) {
    for (Id d = 0; d < D; ++d)
      if (f(d)) return true;
    return any_arc(v, 0, [&](Id code, Id, R&, R&, Id) { return f(code); });
  }
  // Calls f(code, neighbour, out, in, reverse) for the arcs of v outside the grid, all but the first
  // `from`, until one call returns true.
  template <class F>
  bool any_arc(Id v, Id from, F&& f) {
    if constexpr (kListed) {
      const Id begin = first[v], listed = first[v + 1] - begin;
      for (Id k = from; k < listed; ++k) {
        const Id a = begin + k, back = sister[a];
        if (f(D + a, head[a], arc[a], arc[back], D + back)) return true;
      }
      from = from > listed ? from - listed : 0;
    }
    if constexpr (Arcs)
      return members.any(v, from, [&](Id place, Id w, R& out_r, R& in_r, Id back) {
        return f(member_code() + place, w, out_r, in_r, member_code() + back);
      });
    return false;
  }

  // As any_code, but the arcs outside the grid are walked round from the one of code `from`, if v
  // has it.
  template <class F>
  bool any_code_from(Id v, Id from, F&& f) {
    for (Id d = 0; d < D; ++d)
      if (f(d)) return true;
    Id left = std::max(0, from < D ? 0 : arc_number(v, from));
    if (any_arc(v, left, [&](Id code, Id, R&, R&, Id) { return f(code); })) return true;
    bool found = false;
    any_arc(v, 0, [&](Id code, Id, R&, R&, Id) { return left-- <= 0 || (found = f(code)); });
    return found;
  }

  void push(Id v, Id code, Cap amount) {
    out(v, code) -= amount;
    in(v, code) += amount;
  }

  // ensures the stored function grows by amount * y_v
  void add_unary(Id v, Cap amount) {
    const Cap before = excess[v], after = before - amount;
    K += (before > 0 ? before : 0) - (after > 0 ? after : 0);
    excess[v] = after;
  }

  // ensures the stored function grows by there * y_v (1 - y_w) + back * y_w (1 - y_v),
  //         w = neighbour(v, code)
  // requires r(v -> w) + r(w -> v) + there + back >= 0
  // returns whether the excess of v and w changed
  bool add_pairwise(Id v, Id code, Cap there, Cap back) {
    R &out_r = out(v, code), &in_r = in(v, code);
    out_r += there;
    in_r += back;
    if (out_r >= 0 && in_r >= 0) return false;
    out_r < 0 ? move_to_unaries(v, neighbour(v, code), out_r, in_r)
              : move_to_unaries(neighbour(v, code), v, in_r, out_r);
    return true;
  }

  // All that edges can carry into or out of v.
  Cap incident(Id v) {
    Cap sum = 0;
    any_code(v, [&](Id code) { return sum += out(v, code) + in(v, code), false; });
    return sum;
  }

  // How many arcs any_arc passes before this one.
  Id arc_number(Id v, Id code) const {
    if (is_listed(code)) return code - D - first[v];
    return (kListed ? first[v + 1] - first[v] : 0) + code - member_code();
  }
  Id member_code() const { return kListed ? D + static_cast<Id>(arc.size()) : D; }

 private:
  static constexpr auto kOpposite = [] {
    std::array<std::uint8_t, (D ? D : 1)> opposite{};
    constexpr Id round = T == 1 ? D : (D - 2) / T;  // directions of the pixels
    for (Id d = 0; d < D; ++d) {
      const Id turn = d < 2 ? 0 : (d - 2) / (round ? round : 1), back = turn ? T - turn : 0;
      opposite[d] = static_cast<std::uint8_t>((d ^ 1) + (back - turn) * round);
    }
    return opposite;
  }();
  static constexpr bool is_direction(Id code) { return D && (!Arcs || code < D); }
  bool is_listed(Id code) const { return kListed && code < member_code(); }

  // r y_v (1 - y_w) = r y_w (1 - y_v) + r (y_v - y_w), used to make a negative r zero.
  void move_to_unaries(Id v, Id w, R& r, R& opposite) {
    opposite += r;
    add_unary(v, r);
    add_unary(w, -r);
    r = 0;
  }
};

// Lays the arcs of a list by tail. Every pair of nodes is counted first, then joined, in the same
// order or another.
template <class Net>
class ArcLayout {
 public:
  explicit ArcLayout(Net& net) : net_(net) { net_.first.assign(net_.slots + 1, 0); }

  void count(Id u, Id v) { ++net_.first[u + 1], ++net_.first[v + 1]; }

  // Room for all that was counted, without capacities.
  void make_room() {
    auto& first = net_.first;
    for (Id v = 0; v < net_.slots; ++v) first[v + 1] += first[v];
    net_.head.resize(first[net_.slots]);
    net_.sister.resize(first[net_.slots]);
    net_.arc.assign(first[net_.slots], 0);
    next_.assign(first.begin(), first.end() - 1);
  }

  // The arc u -> v; its sister is the way back.
  Id join(Id u, Id v) {
    const Id a = next_[u]++, b = next_[v]++;
    net_.head[a] = v;
    net_.head[b] = u;
    net_.sister[a] = b;
    net_.sister[b] = a;
    return a;
  }

 private:
  Net& net_;
  std::vector<Id> next_;  // where the next arc of a node goes
};

}  // namespace cutlearn
