// The invariants that the headers name, as functions that find where one is broken, called where
// CUTLEARN_CHECKS is defined; and the proof of a cut.
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

// The coefficient of y_v in the stored function.
template <class Net>
Cap linear_coefficient(Net& net, Id v) {
  Cap sum = -net.excess[v];
  net.any_code(v, [&](Id code) { return sum += net.out(v, code), false; });
  return sum;
}

// The proof of a cut, from the residual network and the same network before any search.
//
// Both networks store a function of the labels; two such functions are equal iff their
// constants, their linear coefficients and their pair coefficients are, and that is the
// statement "the flow keeps to the capacities (C1, C2) and is conserved at every node (C3, C4)".
// The labels are the minimal minimum cut iff no residual path leaves the source (C5), every
// labelled node is reached from it (C6), and the energy of the labels is the flow's value (C7).
template <class Net>
std::string disproof(Net& solved, Net& pristine, const std::vector<std::uint8_t>& on) {
  Cap constant = 0, energy = 0;
  for (Id v = solved.begin(); v < solved.end(); ++v) {
    const Cap e = solved.excess[v], e0 = pristine.excess[v];
    constant += (e > 0 ? e : 0) - (e0 > 0 ? e0 : 0);
    energy += (e0 > 0 ? e0 : 0) - (on[v] ? e0 : 0);
    if (linear_coefficient(solved, v) != linear_coefficient(pristine, v))
      return broken("C3 broken: flow is not conserved at slot ", v);
    if ((e > 0 && !on[v]) || (e < 0 && on[v]))
      return broken("C5 broken: a terminal with room is on the wrong side at slot ", v);
    std::string fault;
    const bool found = solved.any_code(v, [&](Id code) {
      const Cap r = solved.out(v, code), r0 = pristine.out(v, code);
      const Id w = solved.neighbour(v, code);
      if (r < 0) fault = broken("C1 broken: negative residual out of slot ", v);
      if (r + solved.in(v, code) != r0 + pristine.in(v, code))
        fault = broken("C2 broken: capacities changed at slot ", v);
      if (r > 0 && on[v] && !on[w]) fault = broken("C5 broken: a residual path leaves slot ", v);
      if (on[v] && !on[w]) energy += r0;
      return !fault.empty();
    });
    if (found) return fault;
  }
  if (constant != pristine.K - solved.K) return "C4 broken: the flow's value does not add up";
  if (energy + pristine.K != solved.K) return "C7 broken: the energy of the labels is not the flow";
  std::vector<std::uint8_t> reached(solved.slots, 0);
  std::vector<Id> stack;
  const auto reach = [&](Id v) {
    if (!reached[v]) reached[v] = 1, stack.push_back(v);
  };
  for (Id v = solved.begin(); v < solved.end(); ++v)
    if (solved.excess[v] > 0) reach(v);
  while (!stack.empty()) {
    const Id v = stack.back();
    stack.pop_back();
    solved.any_code(v, [&](Id code) {
      if (solved.out(v, code) > 0) reach(solved.neighbour(v, code));
      return false;
    });
  }
  for (Id v = solved.begin(); v < solved.end(); ++v)
    if (on[v] != reached[v]) return broken("C6 broken: not the minimal source side at slot ", v);
  return {};
}

}  // namespace cutlearn
