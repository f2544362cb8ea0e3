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

#include "flow/grid.hpp"
#include "flow/network.hpp"

namespace cutlearn {

// What a walk stores for every slot. Walks through different parts of a network may share it.
template <class R>
struct Rooms {
  explicit Rooms(std::size_t slots) : here(slots), next(slots) {}
  Zeroed<R> here, next;
};

// Along the directions first .. last - 1, in opposite pairs, the first of each pair forward, in the
// slots of a range (Run or Box): no arc may lead out of it.
template <class Net, class Range, Id first, Id last>
class Sweep {
 public:
  using R = typename Net::Residual;

  Sweep(Net& net, const Range& range, Rooms<R>& rooms)
      : net_(net), range_(range), room_(rooms.here.get()), next_(rooms.next.get()) {}

  // Where the first direction moves little after the direct pushes, as with noisy unaries, the
  // others would not pay. Returns what reached the sink.
  Cap operator()() {
    range_.backward([&](Id v) { find_room(v, first); });
    std::swap(room_, next_);
    pass(first, first + 1);
    if (pushed_ >= range_.size() / kWorthwhile)
      for (Id d = first + 1; d < last; ++d) pass(d, d + 1);
    return absorbed_;
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
    step > 0 ? range_.forward(visit) : range_.backward(visit);
    std::swap(room_, next_);
  }

  // requires room and excess of v + offset to be known
  void find_room(Id v, Id d) {
    const Id w = v + net_.offset[d];
    const Cap further = static_cast<Cap>(next_[w]) - net_.excess[w];
    next_[v] = static_cast<R>(std::min<Cap>(net_.at(v, d), std::max<Cap>(further, 0)));
  }

  void push(Id v, Id d, Id step) {
    const Cap amount = std::min<Cap>(net_.excess[v], room_[v]);
    if (amount <= 0) return;
    const Id w = v + step;
    net_.at(v, d) -= static_cast<R>(amount);
    net_.at(w, d ^ 1) += static_cast<R>(amount);
    const Cap there = net_.excess[w];
    net_.excess[v] -= amount;
    net_.excess[w] = there + amount;
    absorbed_ += std::min(amount, std::max<Cap>(-there, 0));
    ++pushed_;
  }

  Net& net_;
  const Range& range_;
  R *room_, *next_;
  Cap absorbed_ = 0;
  std::int64_t pushed_ = 0;
};

// Pushes over one arc along the first `direct` directions and all other arcs of the slots in a
// range; returns what reached the sink.
template <Id direct, class Net, class Range>
Cap push_directly(Net& net, const Range& range) {
  using R = typename Net::Residual;
  Cap absorbed = 0;
  const auto push = [&](Id v, Id w, R& out, R& in) {
    if (net.excess[w] >= 0) return;
    const Cap amount = std::min<Cap>({out, net.excess[v], -net.excess[w]});
    out -= static_cast<R>(amount);
    in += static_cast<R>(amount);
    net.excess[v] -= amount;
    net.excess[w] += amount;
    absorbed += amount;
  };
  range.forward([&](Id v) {
    if (net.excess[v] <= 0) return;
    for (Id d = 0; d < direct && net.excess[v] > 0; ++d)
      push(v, v + net.offset[d], net.at(v, d), net.at(v + net.offset[d], d ^ 1));
    if (!Net::kListed && !net.members.is_hub(v)) return;  // a member has nothing for its hubs yet
    net.any_arc(v, 0, [&](Id, Id w, R& out, R& in, Id) {
      push(v, w, out, in);
      return net.excess[v] == 0;
    });
  });
  return absorbed;
}

template <class Net>
constexpr Id kLines = Net::directions < 8 ? Net::directions : 8;  // whose lines are walked

// All of that, then along the lines of the directions first .. last - 1.
// requires a network that was never solved
template <class Net, Id direct = Net::directions, Id first = 0, Id last = kLines<Net>>
void push_ahead(Net& net) {
  const Run all{net.begin(), net.end()};
  net.K += push_directly<direct>(net, all);
  if constexpr (Net::directions > 0) {
    Rooms<typename Net::Residual> rooms(net.slots);
    net.K += Sweep<Net, Run, first, last>{net, all, rooms}();
  }
}

}  // namespace cutlearn
