// The least of E(y) - F(s(y)) for a convex F of a count s, by nested cuts.
//
// Let h(s) = min { E(y) : s(y) = s }. Between two neighbouring vertices of the lower hull of h, the
// hull is straight and -F concave, so h - F is least at a vertex; and vertices are what cuts of
// E + mu s find. `search_hull` finds them by bisection: the chord between two vertices gives the mu
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

// At most any value of h(s) - F(s) with a.s < s < b.s.
// requires b.s - a.s >= 2, and F of any real number between
template <class F>
double bound_between(const Vertex& a, const Vertex& b, F&& convex) {
  const auto line = [](const Vertex& v, double s) {
    return std::isfinite(v.mu) ? v.energy - v.mu * (s - static_cast<double>(v.s))
                               : -std::numeric_limits<double>::infinity();
  };
  const auto value = [&](double s) { return std::max(line(a, s), line(b, s)) - convex(s); };
  const auto first = static_cast<double>(a.s + 1), last = static_cast<double>(b.s - 1);
  double lowest = std::min(value(first), value(last));
  // The higher of both lines, less F, is concave on either side of where they cross.
  if (std::isfinite(a.mu) && std::isfinite(b.mu) && a.mu > b.mu) {
    const double cross = (line(a, 0) - line(b, 0)) / (a.mu - b.mu);
    lowest = std::min(lowest, value(std::clamp(cross, first, last)));
  }
  return lowest;
}

// Calls solve(mu), which gives the minimum of E + mu s as a vertex and lowers `best`, until no
// vertex between a and b can lie below `best`.
template <class F, class Solve>
void search_hull(const Vertex& a, const Vertex& b, const double& best, F&& convex, Solve&& solve) {
  std::vector<std::pair<Vertex, Vertex>> open{{a, b}};
  while (!open.empty()) {
    const auto [from, to] = open.back();
    open.pop_back();
    if (to.s - from.s <= 1 || bound_between(from, to, convex) >= best) continue;
    const Vertex v = solve((from.energy - to.energy) / static_cast<double>(to.s - from.s));
    if (v.s <= from.s || v.s >= to.s) continue;  // the chord is an edge of the hull
    open.push_back({from, v});
    open.push_back({v, to});
    // The side with the better end first: what it finds may exclude the other.
    if (from.energy - convex(static_cast<double>(from.s)) <
        to.energy - convex(static_cast<double>(to.s)))
      std::swap(open.back(), open[open.size() - 2]);
  }
}

}  // namespace cutlearn
