// Random energies, as the arrays that the core takes, and their minimum by enumeration.
#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "energy/input.hpp"

namespace cutlearn {

using Random = std::mt19937_64;

inline int draw(Random& random, int from, int to) {
  return std::uniform_int_distribution<int>(from, to)(random);
}

// An energy that owns its arrays. Numbers are whole times `unit`.
struct World {
  std::vector<std::int64_t> shape;
  int connectivity = 0;
  double constant = 0;
  std::vector<double> unary;
  std::vector<Id> edges;                     // tail, head, ...: of the list, or of the grid
  std::vector<std::vector<double>> weights;  // p, q, ... of the list, or of each direction
  std::vector<std::int64_t> member_first{0}, hinge_first{0};
  std::vector<Id> members;
  std::vector<double> mass, slope, alpha, beta;
  std::vector<std::int8_t> fixed;

  std::size_t size() const { return unary.size(); }

  Input input() const {
    Input in;
    in.constant = constant;
    in.unary = unary;
    in.shape = shape;
    in.connectivity = connectivity;
    if (connectivity == 0) in.edges = edges;
    for (const auto& w : weights) in.weights.push_back({Weights::kPair, w.data()});
    if (!slope.empty()) in.regions = {member_first, hinge_first, members, mass, slope, alpha, beta};
    in.fixed = fixed;
    return in;
  }

  double value(std::uint64_t labels) const {
    const auto y = [&](std::size_t i) { return static_cast<double>(labels >> i & 1); };
    double sum = constant;
    for (std::size_t i = 0; i < size(); ++i) sum += unary[i] * y(i);
    std::size_t e = 0;
    for (const auto& w : weights)
      for (std::size_t k = 0; 2 * k < w.size(); ++k, ++e) {
        const double a = y(edges[2 * e]), b = y(edges[2 * e + 1]);
        sum += w[2 * k] * (1 - a) * b + w[2 * k + 1] * a * (1 - b);
      }
    for (std::size_t c = 0; c < slope.size(); ++c) {
      double s = 0;
      for (std::int64_t q = member_first[c]; q < member_first[c + 1]; ++q)
        s += mass[q] * y(members[q]);
      sum += slope[c] * s;
      for (std::int64_t h = hinge_first[c]; h < hinge_first[c + 1]; ++h)
        sum += std::min(0.0, beta[h] - alpha[h] * s);
    }
    return sum;
  }

  bool allowed(std::uint64_t labels) const {
    for (std::size_t i = 0; i < fixed.size(); ++i)
      if (fixed[i] >= 0 && (labels >> i & 1) != static_cast<std::uint64_t>(fixed[i])) return false;
    return true;
  }

  // The least energy, with one node at a label where node >= 0; infinite where nothing is allowed.
  double least(int node = -1, int label = 0) const {
    double best = std::numeric_limits<double>::infinity();
    for (std::uint64_t labels = 0; labels < std::uint64_t{1} << size(); ++labels)
      if (allowed(labels) && (node < 0 || static_cast<int>(labels >> node & 1) == label))
        best = std::min(best, value(labels));
    return best;
  }

  // The nodes that are 1 in every minimum: the minimal minimum cut.
  std::uint64_t minimal() const {
    const double best = least();
    std::uint64_t common = ~std::uint64_t{0};
    for (std::uint64_t labels = 0; labels < std::uint64_t{1} << size(); ++labels)
      if (allowed(labels) && value(labels) == best) common &= labels;
    return common;
  }
};

// p, q with p + q >= 0; one of them may be negative.
inline void add_pair(Random& random, std::vector<double>& weights, double unit) {
  int p = draw(random, 0, 6), q = draw(random, 0, 6);
  if (draw(random, 0, 3) == 0) p = -draw(random, 0, q);
  if (draw(random, 0, 1)) std::swap(p, q);
  weights.insert(weights.end(), {p * unit, q * unit});
}

inline void add_region(World& world, Random& random, double unit) {
  const auto n = static_cast<Id>(world.size());
  for (Id i = 0; i < n; ++i)
    if (draw(random, 0, 2)) {
      world.members.push_back(i);
      world.mass.push_back(draw(random, 1, 3));
    }
  world.member_first.push_back(static_cast<std::int64_t>(world.members.size()));
  world.slope.push_back(draw(random, -3, 4) * unit);
  const int hinges = draw(random, 0, 3);
  for (int h = 0; h < hinges; ++h) {
    world.alpha.push_back(draw(random, 1, 3) * unit);
    world.beta.push_back(draw(random, 0, 9) * unit);
  }
  world.hinge_first.push_back(static_cast<std::int64_t>(world.alpha.size()));
}

// connectivity 0: a list of edges; else a grid of this shape.
inline World make_world(Random& random, int connectivity, std::vector<std::int64_t> shape,
                        int regions, double unit = 1, bool with_fixed = false) {
  World world;
  world.shape = shape;
  world.connectivity = connectivity;
  std::int64_t n = 1;
  for (const auto s : shape) n *= s;
  world.constant = draw(random, -3, 3) * unit;
  for (std::int64_t i = 0; i < n; ++i) world.unary.push_back(draw(random, -8, 8) * unit);
  if (connectivity == 0) {
    std::vector<double> w;
    for (std::int64_t e = 0; n > 1 && e < 2 * n; ++e) {
      const int a = draw(random, 0, static_cast<int>(n) - 1);
      const int b = (a + draw(random, 1, static_cast<int>(n) - 1)) % static_cast<int>(n);
      world.edges.insert(world.edges.end(), {a, b});
      add_pair(random, w, unit);
    }
    world.weights.push_back(w);
  } else {
    const GridShape grid = grid_shape(shape, true);
    for (const Offset& o : forward_offsets(connectivity)) {
      std::vector<double> w;
      for_runs(grid, o, [&](Id slot, std::size_t, Id count) {
        for (Id k = 0; k < count; ++k) {
          const Id step = o[0] * grid.stride[0] + o[1] * grid.stride[1] + o[2];
          world.edges.insert(world.edges.end(),
                             {grid.pixel(slot + k), grid.pixel(slot + k + step)});
          add_pair(random, w, unit);
        }
      });
      world.weights.push_back(w);
    }
  }
  for (int c = 0; c < regions; ++c) add_region(world, random, unit);
  if (with_fixed)
    for (std::int64_t i = 0; i < n; ++i)
      world.fixed.push_back(static_cast<std::int8_t>(draw(random, 0, 3) ? -1 : draw(random, 0, 1)));
  return world;
}

struct Kind {
  int connectivity;
  std::vector<std::int64_t> shape;
};
// Every kind of network, small enough to enumerate.
inline const std::vector<Kind> kinds{{0, {1}},        {0, {7}},        {4, {3, 4}},
                                     {8, {3, 4}},     {4, {1, 9}},     {6, {2, 2, 3}},
                                     {10, {2, 2, 3}}, {18, {2, 2, 3}}, {26, {2, 2, 3}}};

}  // namespace cutlearn
