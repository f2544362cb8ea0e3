// Lays the arcs of a list by tail. Every pair of nodes is counted first, then joined, in the same
// order or another.
#pragma once

#include <vector>

#include "flow/network.hpp"

namespace cutlearn {

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
