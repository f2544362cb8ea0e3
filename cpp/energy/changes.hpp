// Numbers of a live energy that are replaced, very many at a time: all of them where w is new.
//
// What     A change goes in blocks: the old numbers are taken out of the store, their sums checked
//          once, then the quanta by which each grew are added to the network. Nothing is divided,
//          searched or asked for each number alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "energy/input.hpp"

namespace cutlearn {

constexpr std::size_t kBlock = 256;

// Calls f(begin, end) for the blocks of n numbers.
template <class F>
void in_blocks(std::size_t n, F&& f) {
  for (std::size_t begin = 0; begin < n; begin += kBlock) f(begin, std::min(begin + kBlock, n));
}

// Absolute values of a block that go and come, and whether the network can hold these.
struct BlockSums {
  double before = 0, now = 0;
  bool held = true;
  void take(double gone, double come) { before += gone, now += come; }
};

// Whether a network can hold a number. An object of its own, so that loops which write numbers need
// not read the scale again, nor divide by it.
class Holds {
 public:
  Holds(double scale, bool narrow) : scale_(scale), any_(!narrow) {}
  bool operator()(double x) const { return any_ | is_multiple(x, scale_); }

 private:
  double scale_;
  bool any_;
};

// The quantised number, no longer counted among the inexact ones.
inline Cap forget(Quantiser& quantise, double x) {
  const Cap r = quantise.rounded(x);
  quantise.inexact -= !quantise.is_exact(x, r);
  return r;
}

// The quanta by which a number grew; exact: both are whole numbers of them.
inline Cap replace(Quantiser& quantise, double old, double now, bool exact) {
  const Cap before = quantise.rounded(old), after = quantise.rounded(now);
  if (!exact) quantise.inexact += quantise.is_exact(old, before) - quantise.is_exact(now, after);
  return after - before;
}

// What the new weights p, q of an edge add to r(tail -> head) and to r(head -> tail).
inline std::pair<Cap, Cap> replace_pair(Quantiser& quantise, const double* old, double p, double q,
                                        bool exact) {
  if (exact && p == q && old[0] == old[1]) {  // the most frequent case
    const Cap change = replace(quantise, old[0], p, exact);
    return {change, change};
  }
  Cap P, Q, P0 = forget(quantise, old[0]), Q0 = forget(quantise, old[1]);
  if (P0 + Q0 < 0) {
    quantise.inexact += P0 + Q0;  // as `pair` counted it
    Q0 = -P0;
  }
  quantise.pair(p, q, P, Q);
  return {Q - Q0, P - P0};
}

}  // namespace cutlearn
