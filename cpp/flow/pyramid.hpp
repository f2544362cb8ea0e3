// A flow to start from where paths are long: that of an image of half the size, spread over this
// one.
//
// What     Blocks of 2 x 2 (x 2) pixels are the pixels of a coarser network: excesses, arcs between
//          blocks and arcs to hubs are summed. Its maximum flow, found the same way from one that is
//          coarser still, is spread over the arcs that were summed, in proportion to what they hold.
//          Then each block sums up to what it has in the coarser network, and its own arcs even it
//          out. Flow over long ways is so found by a few nodes; what is left to search is short.
// Exact    All of it is pushes (N3 of network.hpp), so the minimum and its labels stay the same.
//          Where the coarser flow sends more than a block's inside lets through, an excess stays on
//          one side and a deficit on the other.
// Invariants
//   P1  in `prolong`, room - left of a coarser arc is what is still to be sent over those of its arcs
//       that were not yet seen, and room is what they hold: 0 <= room - left <= room.
// Why it stops  Each network has at most half of the pixels of the one below it.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "flow/checks.hpp"
#include "flow/grid.hpp"
#include "flow/network.hpp"

namespace cutlearn {

// A maximum flow of a coarser network (pyramid.cpp).
// requires a network that was never solved
template <int D, bool Arcs>
void solve_coarse(Network<D, Arcs, Cap>& net, const GridShape& grid);

template <class Net>
class Pyramid {
 public:
  static constexpr Id D = Net::directions;
  using R = typename Net::Residual;
  using Coarse = Network<D, Net::has_arcs, Cap>;

  // requires a network that was never solved
  Pyramid(Net& net, const GridShape& grid)
      : net_(net), grid_(grid), coarse_grid_(halved(grid)), offset_(all_offsets(D)) {
    for (int parity = 0; parity < 8; ++parity)
      for (Id d = 0; d < D; ++d)
        if (const Id e = across(parity, d); e < D) crossing_[parity].push_back({d, e});
    for (int k = 0; k < 3; ++k) {
      Offset one{};
      one[k] = 1;
      axis_[k] = direction(one);
    }
  }

  // Whether there are enough pixels to gain by.
  static bool pays(const GridShape& grid) { return grid.pixels() >= (kChecks ? 4 : 4096); }

  void operator()() {
    const Cap before = positive();
    coarsen();
    solve_coarse(coarse_, coarse_grid_);
    even_out();
    prolong();
    if constexpr (Net::has_arcs) prolong_hubs();
    balance();
    net_.K += before - positive();
  }

 private:
  struct Crossing {
    Id fine, coarse;  // directions
  };

  static GridShape halved(const GridShape& grid) {
    std::array<std::int64_t, 3> half;
    for (int k = 0; k < 3; ++k) half[k] = (grid.size[k] + 1) / 2;
    return grid_shape(half, true);
  }

  Id direction(const Offset& offset) const {
    return static_cast<Id>(std::find(offset_.begin(), offset_.end(), offset) - offset_.begin());
  }

  // The direction between blocks of an arc that leaves a pixel at this place of its block; D inside.
  Id across(int parity, Id d) const {
    Offset between;
    for (int k = 0; k < 3; ++k) {
      const int to = (parity >> k & 1) + offset_[d][k];
      between[k] = to < 0 ? -1 : to > 1 ? 1 : 0;
    }
    return direction(between);
  }

  // Calls f(slot, slot of its block, place in it) for every pixel.
  template <class F>
  void each(F&& f) const {
    for (Id z = 0; z < grid_.size[0]; ++z)
      for (Id y = 0; y < grid_.size[1]; ++y) {
        const Id v = grid_.slot(z, y, 0), b = coarse_grid_.slot(z / 2, y / 2, 0);
        const int parity = (z & 1) | (y & 1) << 1;
        for (Id x = 0; x < grid_.size[2]; ++x) f(v + x, b + x / 2, parity | (x & 1) << 2);
      }
  }

  Cap positive() const {
    Cap sum = 0;
    for (Id v = net_.begin(); v < net_.end(); ++v) sum += std::max<Cap>(net_.excess[v], 0);
    return sum;
  }

  void coarsen() {
    const Id hubs = net_.end() - grid_.slots;
    coarse_.allocate(coarse_grid_.slots + hubs, coarse_grid_.guard);
    for (Id d = 0; d < D; ++d) coarse_.offset[d] = coarse_grid_.step(offset_[d]);
    each([&](Id v, Id b, int parity) {
      coarse_.excess[b] += net_.excess[v];
      for (const auto& [d, e] : crossing_[parity]) coarse_.at(b, e) += net_.at(v, d);
    });
    room_ = Zeroed<Cap>(static_cast<std::size_t>(coarse_.slots) * D);
    std::copy_n(coarse_.grid_caps.get(), static_cast<std::size_t>(coarse_.slots) * D, room_.get());
    if constexpr (Net::has_arcs) {
      std::copy_n(net_.excess.get() + grid_.slots, hubs, coarse_.excess.get() + coarse_grid_.slots);
      std::vector<Id> block(net_.slots);
      each([&](Id v, Id b, int) { block[v] = b; });
      place_ = coarse_.members.coarsen(net_.members, block, coarse_grid_.slots, coarse_.slots);
      hub_room_ = coarse_.members.pairs();
    }
  }

  // What one of the arcs that hold `room` takes of the flow over all of them.
  static Cap share(Cap flow, Cap room, Cap capacity) {
    if (flow == room) return capacity;
    const auto part = static_cast<double>(capacity) / static_cast<double>(room);
    const auto sent = static_cast<Cap>(static_cast<double>(flow) * part);
    return std::clamp<Cap>(sent, std::max<Cap>(0, flow - (room - capacity)),
                           std::min(capacity, flow));
  }

  // Sends over one arc what is its part of the flow of a coarser one (P1).
  void send(Id v, Id w, R& out, R& in, Cap& room, Cap& left) {
    const Cap flow = room - left;
    if (flow <= 0) return;
    const Cap capacity = out, sent = share(flow, room, capacity);
    room -= capacity;
    left -= capacity - sent;
    push(v, w, out, in, sent);
  }

  void push(Id v, Id w, R& out, R& in, Cap amount) {
    out -= static_cast<R>(amount);
    in += static_cast<R>(amount);
    net_.excess[v] -= amount;
    net_.excess[w] += amount;
  }

  void prolong() {
    each([&](Id v, Id b, int parity) {
      for (const auto& [d, e] : crossing_[parity]) {
        const Id w = v + net_.offset[d];
        send(v, w, net_.at(v, d), net_.at(w, d ^ 1), room_[static_cast<std::size_t>(b) * D + e],
             coarse_.at(b, e));
      }
    });
  }

  // Hubs have only given so far: nothing flows back to them.
  void prolong_hubs() {
    const Id* place = place_.data();
    auto& left = coarse_.members.pairs();
    net_.members.each_row([&](Id v, Id hub, auto row) {
      for (std::size_t k = 0; k < row.size(); ++k)
        send(hub + static_cast<Id>(k), v, row[k].there, row[k].back, hub_room_[*place + k].there,
             left[*place + k].there);
      ++place;
    });
  }

  // What flows round the four sides of a square of blocks is spread over them, so that no arc
  // carries more than it must: then the insides of blocks are more often wide enough.
  void even_out() {
    for (int a = 0; a < 3; ++a)
      for (int b = a + 1; b < 3; ++b) {
        std::array<Id, 3> n = coarse_grid_.size;
        --n[a], --n[b];
        for (Id z = 0; z < n[0]; ++z)
          for (Id y = 0; y < n[1]; ++y)
            for (Id x = 0; x < n[2]; ++x) turn(coarse_grid_.slot(z, y, x), axis_[a], axis_[b]);
      }
  }

  void turn(Id v, Id a, Id b) {
    const Id to_a = coarse_.offset[a], to_b = coarse_.offset[b];
    const std::array<std::pair<Id, Id>, 4> sides{
        {{v, a}, {v + to_a, b}, {v + to_a + to_b, a ^ 1}, {v + to_b, b ^ 1}}};
    double flows = 0, widths = 0;
    Cap most = std::numeric_limits<Cap>::max(), least = most;
    for (const auto& [u, d] : sides) {
      const Cap out = coarse_.at(u, d), in = coarse_.at(u + coarse_.offset[d], d ^ 1);
      const double width = 1 / (static_cast<double>(out) + static_cast<double>(in) + 1);
      flows += width * static_cast<double>(room_[static_cast<std::size_t>(u) * D + d] - out);
      widths += width;
      most = std::min(most, out);
      least = std::min(least, in);
    }
    const Cap amount = std::clamp<Cap>(static_cast<Cap>(-flows / widths), -least, most);
    if (amount == 0) return;
    for (const auto& [u, d] : sides) coarse_.push(u, d, amount);
  }

  // Evens out each block: halves of differences first, along all axes but the last, then what each
  // pixel has beyond its share moves on, axis by axis, to the last pixel.
  void balance() {
    const std::array<int, 3> order{2, 1, 0};  // columns, rows, slices
    int last = 0;
    for (int k = 0; k < 3; ++k)
      if (grid_.size[k] > 1) {
        last = k;
        break;
      }
    std::array<Id, 3> at;
    for (at[0] = 0; at[0] < grid_.size[0]; at[0] += 2)
      for (at[1] = 0; at[1] < grid_.size[1]; at[1] += 2)
        for (at[2] = 0; at[2] < grid_.size[2]; at[2] += 2) {
          Block block(*this, at);
          for (const int k : order)
            if (k != last) block.halve(k);
          for (int k = last; k < 3; ++k) block.gather(k);
          block.cross();
        }
  }

  // The pixels of one block, by their places.
  class Block {
   public:
    Block(Pyramid& whole, const std::array<Id, 3>& at) : whole_(whole) {
      Cap total = 0;
      for (int k = 0; k < 3; ++k) full_[k] = at[k] + 1 < whole.grid_.size[k];
      for (int p = 0; p < 8; ++p) {
        if (!has(p)) continue;
        slot_[p] = whole.grid_.slot(at[0] + (p & 1), at[1] + (p >> 1 & 1), at[2] + (p >> 2));
        total += whole.net_.excess[slot_[p]];
        last_ = p;
        ++count_;
      }
      share_ = total / count_;
      rest_ = total - share_ * (count_ - 1);
    }

    void halve(int axis) {
      each_pair(axis,
                [&](int p, int q) { move(p, q, whole_.axis_[axis], (over(p) - over(q)) / 2); });
    }

    // Along an axis, within the far sides of the axes before it.
    void gather(int axis) {
      each_pair(axis, [&](int p, int q) {
        for (int k = 0; k < axis; ++k)
          if (full_[k] && !(p >> k & 1)) return;
        move(p, q, whole_.axis_[axis], over(p));
      });
    }

    // Over the diagonals of a plane, what was left.
    void cross() {
      if (D != 8 || count_ < 4) return;
      move(0, 6, whole_.direction({0, 1, 1}), over(0));
      move(4, 2, whole_.direction({0, 1, -1}), over(4));
      move(2, 6, whole_.axis_[2], over(2));
    }

   private:
    bool has(int p) const {
      for (int k = 0; k < 3; ++k)
        if ((p >> k & 1) && !full_[k]) return false;
      return true;
    }
    template <class F>
    void each_pair(int axis, F&& f) {
      if (!full_[axis]) return;
      for (int p = 0; p < 8; ++p)
        if (!(p >> axis & 1) && has(p)) f(p, p | 1 << axis);
    }
    // Beyond its share.
    Cap over(int p) const { return whole_.net_.excess[slot_[p]] - (p == last_ ? rest_ : share_); }
    void move(int p, int q, Id d, Cap amount) {
      if (amount < 0) std::swap(p, q), d ^= 1, amount = -amount;
      auto& net = whole_.net_;
      R& out = net.at(slot_[p], d);
      whole_.push(slot_[p], slot_[q], out, net.at(slot_[q], d ^ 1), std::min<Cap>(amount, out));
    }

    Pyramid& whole_;
    std::array<bool, 3> full_;
    std::array<Id, 8> slot_;
    int count_ = 0, last_ = 0;
    Cap share_ = 0, rest_ = 0;
  };

  Net& net_;
  const GridShape& grid_;
  GridShape coarse_grid_;
  std::vector<Offset> offset_;
  std::array<Id, 3> axis_{};
  std::array<std::vector<Crossing>, 8> crossing_;  // by the place in a block
  Coarse coarse_;
  Zeroed<Cap> room_;                                    // of coarse_ before it was solved
  PooledVector<Id> place_;                              // of a member, in coarse_
  PooledVector<typename Members<Cap>::Pair> hub_room_;  // as room_
};

}  // namespace cutlearn
