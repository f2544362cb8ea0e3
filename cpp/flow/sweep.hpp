// Flow that needs no search: over one arc, and along the lines of a grid.
//
// Direct   Most flow travels source -> v -> w -> sink.
// Lines    Where unaries come in blobs, most of the rest is straight. On a line of pixels v, v +
//          step, ... let room_v be what the arc v -> v + step can carry to deficits further on:
//            room_v = min(r(v -> v + step), [room_{v + step} - excess_{v + step}]+),
//          found walking against the line. Walking along it, every excess passes on what has room.
//          Nothing is pushed that does not arrive, so each pass is a maximum flow of its lines in
//          that direction.
// Passes   While the excesses of one direction are passed on, the room of the next is found:
//          directions come in opposite pairs, so D of them take D + 1 walks through memory, in turn
//          from the end and from the beginning.
#pragma once

#include <algorithm>
#include <utility>

#include "flow/network.hpp"

namespace cutlearn {

// Along the directions first .. last - 1, in opposite pairs, the first of each pair forward.
template <class Net, Id first, Id last>
class Sweep {
 public:
  using R = typename Net::Residual;

  explicit Sweep(Net& net) : net_(net), room_(net.slots), next_(net.slots) {}

  // Where the first direction moves little after the direct pushes, as with noisy unaries, the
  // others would not pay.
  void operator()() {
    for (Id v = net_.end() - 1; v >= net_.begin(); --v) find_room(v, first);
    std::swap(room_, next_);
    pass(first, first + 1);
    if (pushed_ < net_.slots / kWorthwhile) return;
    for (Id d = first + 1; d < last; ++d) pass(d, d + 1);
  }

 private:
  // Measured: noisy 1 in 40 to 120, blobs and seeds 1 in 4 to 18.
  static constexpr Id kWorthwhile = 25;

  // Passes on along d, and finds the room of direction `then`.
  void pass(Id d, Id then) {
    const Id step = net_.offset[d];
    const auto visit = [&](Id v) {
      push(v, d, step);
      if (then < last) find_room(v, then);
    };
    if (step > 0)
      for (Id v = net_.begin(); v < net_.end(); ++v) visit(v);
    else
      for (Id v = net_.end() - 1; v >= net_.begin(); --v) visit(v);
    std::swap(room_, next_);
  }

  // requires room and excess of v + offset to be known
  void find_room(Id v, Id d) {
    const Id w = v + net_.offset[d];
    const Cap beyond = static_cast<Cap>(next_[w]) - net_.excess[w];
    next_[v] = static_cast<R>(std::min<Cap>(net_.at(v, d), std::max<Cap>(beyond, 0)));
  }

  void push(Id v, Id d, Id step) {
    const Cap amount = std::min<Cap>(net_.excess[v], room_[v]);
    if (amount <= 0) return;
    const Id w = v + step;
    net_.at(v, d) -= static_cast<R>(amount);
    net_.at(w, d ^ 1) += static_cast<R>(amount);
    const Cap there = net_.excess[w];
    const Cap absorbed = std::min(amount, std::max<Cap>(-there, 0));
    net_.excess[v] -= amount;
    net_.excess[w] = there + amount;
    net_.K += absorbed;
    ++pushed_;
  }

  Net& net_;
  Zeroed<R> room_, next_;
  Id pushed_ = 0;
};

// Pushes over one arc along the first `direct` directions and all other arcs, then along the lines
// of the directions first .. last - 1.
// requires a network that was never solved
template <class Net, Id direct = Net::directions, Id first = 0,
          Id last = Net::directions < 8 ? Net::directions : 8>
void push_ahead(Net& net) {
  using R = typename Net::Residual;
  const auto push = [&net](Id v, Id w, R& out, R& in) {
    if (net.excess[w] >= 0) return;
    const Cap amount = std::min<Cap>({out, net.excess[v], -net.excess[w]});
    out -= static_cast<R>(amount);
    in += static_cast<R>(amount);
    net.excess[v] -= amount;
    net.excess[w] += amount;
    net.K += amount;
  };
  for (Id v = net.begin(); v < net.end(); ++v) {
    if (net.excess[v] <= 0) continue;
    for (Id d = 0; d < direct && net.excess[v] > 0; ++d)
      push(v, v + net.offset[d], net.at(v, d), net.at(v + net.offset[d], d ^ 1));
    if (!Net::kListed && !net.members.is_hub(v)) continue;  // a member has nothing for its hubs yet
    net.any_arc(v, 0, [&](Id, Id w, R& out, R& in, Id) {
      push(v, w, out, in);
      return net.excess[v] == 0;
    });
  }
  if constexpr (Net::directions > 0) Sweep<Net, first, last>{net}();
}

}  // namespace cutlearn
