// The invariants that the headers name, as functions that find where one is broken. They are called
// only where CUTLEARN_CHECKS is defined.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "flow/levels.hpp"
#include "flow/network.hpp"

namespace cutlearn {

#ifdef CUTLEARN_CHECKS
constexpr bool kChecks = true;
#else
constexpr bool kChecks = false;
#endif

// throws std::logic_error unless there is no fault
inline void throw_if_fault(const std::string& fault) {
  if (!fault.empty()) throw std::logic_error(fault);
}

inline std::string broken(const char* law, Id v) { return law + std::to_string(v); }

// N1 and N2 of network.hpp; empty if they hold.
template <class Net>
std::string broken_network(Net& net) {
  std::string fault;
  for (Id v = net.begin(); v < net.end() && fault.empty(); ++v)
    net.any_code(v, [&](Id code) {
      const Id w = net.neighbour(v, code), back = net.reverse(v, code);
      if (net.out(v, code) < 0) fault = broken("N1 broken: negative residual out of slot ", v);
      if (net.neighbour(w, back) != v || net.reverse(w, back) != code ||
          &net.out(w, back) != &net.in(v, code))
        fault = broken("N2 broken: an arc does not lead back to slot ", v);
      return !fault.empty();
    });
  return fault;
}

// T1 and T3 of maxflow.hpp; empty if they hold.
template <class Net, class Link>
std::string broken_trees(Net& net, const Id* level, const Link* parent, Link root,
                         const std::array<Id, 2>& top, const std::array<Levels<Id>, 2>& active) {
  std::vector<std::uint8_t> waits(net.slots, 0);
  for (int side = 0; side < 2; ++side)
    for (const Id v : active[side].waiting(top[side])) waits[v] |= 1 << side;
  for (Id v = net.begin(); v < net.end(); ++v) {
    if (level[v] == 0) continue;
    const bool s = level[v] > 0;
    const Id depth = s ? level[v] : -level[v], deepest = top[s ? 0 : 1];
    if (depth > deepest) return broken("T3 broken: deeper than the top at slot ", v);
    if (depth == deepest && !(waits[v] & (s ? 1 : 2)))
      return broken("T3 broken: does not wait at the top at slot ", v);
    if (parent[v] == root) {
      if (s ? net.excess[v] <= 0 : net.excess[v] >= 0)
        return broken("T1 broken: a root without excess at slot ", v);
      continue;
    }
    if (parent[v] > root - 3) return broken("T1 broken: no parent at slot ", v);
    const Id above = level[net.neighbour(v, parent[v])];
    if (s ? above <= 0 || above >= level[v] : above >= 0 || above <= level[v])
      return broken("T1 broken: the parent is not nearer to the root at slot ", v);
    if ((s ? net.in(v, parent[v]) : net.out(v, parent[v])) <= 0)
      return broken("T1 broken: a full link to the parent at slot ", v);
  }
  return {};
}

}  // namespace cutlearn
