// The proof of a cut, from the residual network and the same network before any search.
//
// Both networks store a function of the labels; two such functions are equal iff their
// constants, their linear coefficients and their pair coefficients are, and that is the
// statement "the flow keeps to the capacities (C1, C2) and is conserved at every node (C3, C4)".
// The labels are the minimal minimum cut iff no residual path leaves the source (C5), every
// labelled node is reached from it (C6), and the energy of the labels is the flow's value (C7).
#pragma once

#include <string>
#include <vector>

#include "flow/network.hpp"

namespace cutlearn {

template <class Net>
Cap linear_coefficient(Net& net, Id v) {
  Cap sum = -net.excess[v];
  net.any_code(v, [&](Id code) { return sum += net.out(v, code), false; });
  return sum;
}

template <class Net>
std::string disproof(Net& solved, Net& pristine, const std::vector<std::uint8_t>& on) {
  const auto at = [](const char* law, Id v) { return law + std::to_string(v); };
  Cap constant = 0, energy = 0;
  for (Id v = solved.begin(); v < solved.end(); ++v) {
    const Cap e = solved.excess[v], e0 = pristine.excess[v];
    constant += (e > 0 ? e : 0) - (e0 > 0 ? e0 : 0);
    energy += (e0 > 0 ? e0 : 0) - (on[v] ? e0 : 0);
    if (linear_coefficient(solved, v) != linear_coefficient(pristine, v))
      return at("C3 broken: flow is not conserved at slot ", v);
    if ((e > 0 && !on[v]) || (e < 0 && on[v]))
      return at("C5 broken: a terminal with room is on the wrong side at slot ", v);
    std::string fault;
    const bool broken = solved.any_code(v, [&](Id code) {
      const Cap r = solved.out(v, code), r0 = pristine.out(v, code);
      const Id w = solved.neighbour(v, code);
      if (r < 0) fault = at("C1 broken: negative residual out of slot ", v);
      if (r + solved.in(v, code) != r0 + pristine.in(v, code))
        fault = at("C2 broken: capacities changed at slot ", v);
      if (r > 0 && on[v] && !on[w]) fault = at("C5 broken: a residual path leaves slot ", v);
      if (on[v] && !on[w]) energy += r0;
      return !fault.empty();
    });
    if (broken) return fault;
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
    if (on[v] != reached[v]) return at("C6 broken: not the minimal source side at slot ", v);
  return {};
}

}  // namespace cutlearn
