// The least of E(y) - F(s(y)) for a convex F of a count s, by nested cuts.
//
// Let h(s) = min { E(y) : s(y) = s }. Between two neighbouring vertices of the lower hull of h, the
// hull is straight and -F concave, so h - F is least at a vertex; and vertices are what cuts of
// E + mu s find. `scan_hull` finds them by bisection: the chord between two vertices gives the mu
// at which the next one lies below it (Eisner and Severance). Since a vertex found at mu bounds
// h(s) >= E - mu (s - s_vertex), a stretch of the hull is left out where these bounds show that it
// holds nothing below the best so far.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace cutlearn {

struct Vertex {
  std::int64_t s;
  double energy;
  double mu;  // at which it was found; infinite at the ends of the range
};

// Less than no value of h(s) - F(s) with a.s < s < b.s.
// requires F of any real number between
template <class F>
double bound_between(const Vertex& a, const Vertex& b, F&& convex) {
  const bool left = std::isfinite(a.mu), right = std::isfinite(b.mu);
  if (!left && !right) return -std::numeric_limits<double>::infinity();
  const auto from_a = [&](double s) { return a.energy - a.mu * (s - static_cast<double>(a.s)); };
  const auto from_b = [&](double s) { return b.energy - b.mu * (s - static_cast<double>(b.s)); };
  const auto first = static_cast<double>(a.s), last = static_cast<double>(b.s);
  // The higher of both lines, less F, is concave on either side of where they cross.
  double at = left ? last : first;
  if (left && right) at = a.mu > b.mu ? (from_a(0) - from_b(0)) / (a.mu - b.mu) : first;
  at = std::clamp(at, first, last);
  const double lower = left && right ? std::max(from_a(at), from_b(at))
                       : left        ? from_a(at)
                                     : from_b(at);
  return std::min({lower - convex(at), a.energy - convex(first), b.energy - convex(last)});
}

// Calls solve(mu), which gives the minimum of E + mu s as a vertex and lowers `best`, until no
// vertex between a and b can lie below `best`.
template <class F, class Solve>
void scan_hull(const Vertex& a, const Vertex& b, const double& best, F&& convex, Solve&& solve) {
  std::vector<std::pair<Vertex, Vertex>> open{{a, b}};
  while (!open.empty()) {
    const auto [from, to] = open.back();
    open.pop_back();
    if (to.s - from.s <= 1 || bound_between(from, to, convex) >= best) continue;
    const Vertex v = solve((from.energy - to.energy) / static_cast<double>(to.s - from.s));
    if (v.s <= from.s || v.s >= to.s) continue;  // the chord is an edge of the hull
    open.push_back({from, v});
    open.push_back({v, to});
    // The more promising side first, so that the other may be left out.
    if (bound_between(from, v, convex) < bound_between(v, to, convex))
      std::swap(open.back(), open[open.size() - 2]);
  }
}

}  // namespace cutlearn
