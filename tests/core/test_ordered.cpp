// Ordered labels against enumeration: minimum, lowest labels, min-marginals, argmins, proofs.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "energy/engine.hpp"
#include "worlds.hpp"

using namespace cutlearn;

namespace {

// An energy of ordered labels that owns its arrays.
struct OrderedWorld {
  Id L = 2;
  std::vector<std::int64_t> shape;
  int connectivity = 0;
  std::vector<double> unary;
  std::vector<Id> edges;                    // tail, head, ...: of the list, or of the grid
  std::vector<std::size_t> counts;          // of the edges of each direction
  std::vector<std::vector<double>> tables;  // of each direction
  std::vector<char> each;
  std::vector<std::int16_t> fixed;

  std::size_t size() const { return unary.size() / static_cast<std::size_t>(L); }

  OrderedInput input() const {
    OrderedInput in;
    in.labels = L;
    in.unary = unary;
    in.shape = shape;
    in.connectivity = connectivity;
    if (connectivity == 0) in.edges = edges;
    for (std::size_t d = 0; d < tables.size(); ++d)
      in.tables.push_back({tables[d].data(), each[d] != 0});
    in.fixed = fixed;
    return in;
  }

  double value(const std::vector<int>& y) const {
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += unary[i * L + y[i]];
    std::size_t e = 0;
    for (std::size_t d = 0; d < tables.size(); ++d)
      for (std::size_t k = 0; k < counts[d]; ++k, ++e)
        sum += tables[d][((each[d] ? k * L : 0) + y[edges[2 * e]]) * L + y[edges[2 * e + 1]]];
    return sum;
  }

  // Calls f(labels, value) for every labelling that the fixed labels allow.
  template <class F>
  void enumerate(F&& f) const {
    std::vector<int> y(size(), 0);
    for (;;) {
      bool allowed = true;
      for (std::size_t i = 0; i < fixed.size(); ++i)
        allowed = allowed && (fixed[i] < 0 || fixed[i] == y[i]);
      if (allowed) f(y, value(y));
      std::size_t i = 0;
      while (i < y.size() && ++y[i] == L) y[i++] = 0;
      if (i == y.size()) return;
    }
  }
};

// A submodular table whose thresholds k, l are joined where |k - l| <= reach.
std::vector<double> make_table(Random& random, Id L, Id reach, double unit) {
  std::vector<double> V(static_cast<std::size_t>(L * L));
  std::vector<double> a(L), b(L);
  for (Id k = 0; k < L; ++k) a[k] = draw(random, -4, 4), b[k] = draw(random, -4, 4);
  std::vector<double> c(static_cast<std::size_t>(L * L), 0);
  for (Id k = 1; k < L; ++k)
    for (Id l = 1; l < L; ++l)
      if (std::abs(k - l) <= reach) c[k * L + l] = draw(random, 0, 3);
  for (Id i = 0; i < L; ++i)
    for (Id j = 0; j < L; ++j) {
      double sum = a[i] + b[j];
      for (Id k = 1; k <= i; ++k)
        for (Id l = 1; l <= j; ++l) sum -= c[k * L + l];
      V[i * L + j] = sum * unit;
    }
  return V;
}

OrderedWorld make_ordered_world(Random& random, Id L, int connectivity,
                                std::vector<std::int64_t> shape, Id reach, double unit,
                                bool with_fixed) {
  OrderedWorld world;
  world.L = L;
  world.shape = shape;
  world.connectivity = connectivity;
  const GridShape grid = grid_shape(shape, false);
  const Id n = grid.pixels();
  if (connectivity == 0)
    for (Id e = 0; n > 1 && e < n; ++e) {
      const int a = draw(random, 0, n - 1);
      world.edges.insert(world.edges.end(), {a, (a + draw(random, 1, n - 1)) % n});
    }
  world.counts = edge_counts(grid, connectivity, world.edges);
  if (connectivity)
    for_edges(grid, connectivity, {}, [&](std::size_t, std::size_t, Id u, Id v) {
      world.edges.insert(world.edges.end(), {u, v});
    });
  for (const std::size_t count : world.counts) {
    world.each.push_back(static_cast<char>(draw(random, 0, 1)));
    auto& tables = world.tables.emplace_back();
    for (std::size_t e = 0; e < (world.each.back() ? count : 1); ++e) {
      const auto V = make_table(random, L, reach, unit);
      tables.insert(tables.end(), V.begin(), V.end());
    }
  }
  for (Id i = 0; i < n * L; ++i) world.unary.push_back(draw(random, -6, 6) * unit);
  if (with_fixed)
    for (Id i = 0; i < n; ++i)
      world.fixed.push_back(
          static_cast<std::int16_t>(draw(random, 0, 2) ? -1 : draw(random, 0, L - 1)));
  return world;
}

struct Least {
  double energy = std::numeric_limits<double>::infinity();
  std::vector<int> labels;  // the lowest of all minimisers
  std::vector<double> min_marginals;
};

Least enumerate(const OrderedWorld& world) {
  Least least;
  least.min_marginals.assign(world.unary.size(), least.energy);
  world.enumerate([&](const std::vector<int>& y, double value) {
    if (value < least.energy) least.energy = value, least.labels = y;
    for (std::size_t i = 0; i < y.size(); ++i) {
      double& phi = least.min_marginals[i * world.L + y[i]];
      phi = std::min(phi, value);
      if (value == least.energy) least.labels[i] = std::min(least.labels[i], y[i]);
    }
  });
  return least;
}

// Grids of every layout, and lists.
struct OrderedKind {
  Id labels;
  int connectivity;
  std::vector<std::int64_t> shape;
  Id reach;
};
const std::vector<OrderedKind> ordered_kinds{
    {2, 0, {6}, 0},    {3, 0, {6}, 1},    {4, 0, {5}, 2},    {3, 4, {2, 3}, 0},
    {3, 4, {3, 2}, 1}, {4, 4, {2, 3}, 2}, {5, 4, {2, 2}, 1}, {5, 4, {2, 2}, 3},
    {6, 4, {2, 2}, 4}, {3, 8, {2, 3}, 1}, {4, 8, {3, 2}, 2}, {5, 8, {2, 2}, 0},
    {5, 8, {2, 2}, 1}, {5, 8, {2, 2}, 3}, {2, 4, {3, 3}, 0}, {3, 6, {2, 2, 2}, 1}};

template <class F>
void each_world(int seeds, F&& f) {
  for (const OrderedKind& kind : ordered_kinds)
    for (int seed = 0; seed < seeds; ++seed) {
      CAPTURE(kind.labels);
      CAPTURE(kind.connectivity);
      CAPTURE(kind.reach);
      CAPTURE(seed);
      Random random(seed);
      // Whole numbers are narrow; thirds need all bits.
      const double unit = seed % 3 == 2 ? 1.0 / 3 : 1;
      OrderedWorld world = make_ordered_world(random, kind.labels, kind.connectivity, kind.shape,
                                              kind.reach, unit, seed % 4 == 1);
      f(world, random, unit == 1);
    }
}

std::unique_ptr<OrderedEngine> solved(const OrderedWorld& world) {
  OrderedTerms terms(world.input());
  REQUIRE(terms.fault.what == OrderedFault::kNone);
  auto engine = make_ordered(world.input(), std::move(terms));
  engine->solve();
  return engine;
}

}  // namespace

TEST_CASE("ordered labels are minimised exactly in every layout") {
  each_world(9, [](const OrderedWorld& world, Random&, bool whole) {
    const Least least = enumerate(world);
    const auto engine = solved(world);
    const double found = static_cast<double>(engine->minimum()) / engine->scale();
    CHECK(found + engine->clipped() == doctest::Approx(least.energy));
    std::vector<int> labels(engine->labels().begin(), engine->labels().end());
    if (whole) {
      CHECK(engine->inexact() == 0);
      CHECK(labels == least.labels);
    } else {
      CHECK(world.value(labels) == doctest::Approx(least.energy));
    }
    std::vector<double> phi(world.unary.size());
    engine->min_marginals(phi.data(), 1);
    for (std::size_t k = 0; k < phi.size(); ++k) {
      if (std::isinf(least.min_marginals[k]))
        CHECK(phi[k] == least.min_marginals[k]);
      else
        CHECK(phi[k] == doctest::Approx(least.min_marginals[k]));
    }
  });
}

TEST_CASE("sums over argmins are those of labellings that attain the min-marginals") {
  each_world(4, [](const OrderedWorld& world, Random& random, bool) {
    const std::size_t L = world.L, n = world.size();
    const auto engine = solved(world);
    const std::vector<int> cut(engine->labels().begin(), engine->labels().end());
    const auto i = static_cast<std::size_t>(draw(random, 0, static_cast<int>(n) - 1));
    const auto l = static_cast<std::size_t>(draw(random, 0, static_cast<int>(L) - 1));
    if (!world.fixed.empty() && world.fixed[i] >= 0) return;
    std::vector<double> weights(n * L, 0), node(n * L), edge(world.edges.size() / 2 * L * L);
    weights[i * L + l] = 1;
    engine->argmin_sums(weights, world.edges, node.data(), edge.data());
    std::vector<int> y = cut;
    for (std::size_t k = 0; k < n * L; ++k)
      if (node[k] > 0) y[k / L] = static_cast<int>(k % L);
    CHECK(y[i] == static_cast<int>(l));
    std::vector<double> want(edge.size());
    for (std::size_t e = 0; 2 * e < world.edges.size(); ++e) {
      const Id u = world.edges[2 * e], v = world.edges[2 * e + 1];
      want[(e * L + cut[u]) * L + cut[v]] -= 1;
      want[(e * L + y[u]) * L + y[v]] += 1;
    }
    CHECK(edge == want);
    std::vector<double> phi(n * L);
    engine->min_marginals(phi.data(), 1);
    CHECK(world.value(y) == doctest::Approx(phi[i * L + l]));
  });
}

TEST_CASE("a cut of ordered labels is proved, and disproved for another energy") {
  int changed = 0;
  each_world(8, [&](OrderedWorld& world, Random& random, bool) {
    const auto engine = solved(world);
    CHECK(engine->disproof(world.input()) == "");
    std::vector<double> phi(world.unary.size());
    engine->min_marginals(phi.data(), 1);
    CHECK(engine->disproof(world.input()) == "");
    if (!world.fixed.empty()) return;
    const auto k = static_cast<std::size_t>(draw(random, 0, static_cast<int>(phi.size()) - 1));
    world.unary[k] += world.unary[k] > 0 ? -1 : 1;
    CHECK(engine->disproof(world.input()) != "");
    world.unary[k] *= 1e9;
    CHECK(engine->disproof(world.input()) != "");
    ++changed;
  });
  CHECK(changed > 50);
}

TEST_CASE("unaries that dwarf the tables are limited and come back in min-marginals") {
  for (int seed = 0; seed < 20; ++seed) {
    Random random(seed);
    OrderedWorld world = make_ordered_world(random, 3, 4, {2, 3}, 1, 1, false);
    world.unary[draw(random, 0, 17)] = 1e9;
    world.unary[draw(random, 0, 17)] = -1e7;
    const Least least = enumerate(world);
    const auto engine = solved(world);
    REQUIRE(engine->clipped() != 0);
    const std::vector<int> labels(engine->labels().begin(), engine->labels().end());
    CHECK(labels == least.labels);
    const double found = static_cast<double>(engine->minimum()) / engine->scale();
    CHECK(found + engine->clipped() == doctest::Approx(least.energy));
    std::vector<double> phi(18);
    engine->min_marginals(phi.data(), 1);
    for (std::size_t k = 0; k < 18; ++k) CHECK(phi[k] == doctest::Approx(least.min_marginals[k]));
  }
}

TEST_CASE("faults of ordered energies are found at their place") {
  Random random(0);
  const OrderedWorld good = make_ordered_world(random, 3, 8, {2, 3}, 2, 1, false);
  CHECK(OrderedTerms(good.input()).fault.what == OrderedFault::kNone);
  OrderedWorld world = good;
  world.unary[7] = NAN;
  OrderedFault fault = OrderedTerms(world.input()).fault;
  CHECK((fault.what == OrderedFault::kUnary && fault.index == 7));
  world = good;
  world.tables[1][5] = INFINITY;
  fault = OrderedTerms(world.input()).fault;
  CHECK((fault.what == OrderedFault::kTable && fault.direction == 1));
  CHECK((fault.index == 0 && fault.a == 1 && fault.b == 2));
  world = good;
  world.tables[0][8] += 100;
  fault = OrderedTerms(world.input()).fault;
  CHECK((fault.what == OrderedFault::kNotSubmodular && fault.direction == 0));
  CHECK((fault.a == 1 && fault.b == 1 && fault.amount <= -90));
  world = good;
  for (double& u : world.unary) u = 1e308;
  world.unary[0] = -1e308;
  CHECK(OrderedTerms(world.input()).fault.what == OrderedFault::kRange);
}

TEST_CASE("the scale of ordered labels leaves room for all terms, and no more") {
  // u and V of one edge between two nodes, and the sum of all that enters the network.
  struct Numbers {
    Id L;
    std::vector<double> unary, table;
    double nodes, edges;
  };
  const std::vector<Numbers> all{
      {2, {3, 8, 0, 0}, {0, 0, 0, 0}, 8, 0},
      {2, {3, 7, 0, 0}, {0, 0, 0, 0}, 7, 0},
      {2, {3, -1, 0, 0}, {0, 0, 0, 0}, 7, 0},
      {2, {3, -2, 0, 0}, {0, 0, 0, 0}, 8, 0},
      {2, {0, 7, 0, 0}, {1, 2, 4, 3}, 7, 9},
      {2, {0, 6, 0, 0}, {1, 2, 4, 3}, 6, 9},
      {3, {1, 4, 2, 0, 0, 3}, {0, 1, 2, 1, 0, 1, 2, 1, 0}, 9, 12},
      {3, {1, 4, 2, 0, 0, 9}, {0, 1, 4, 1, 0, 1, 4, 1, 0}, 15, 24},
  };
  for (const Numbers& n : all) {
    OrderedWorld world;
    world.L = n.L;
    world.shape = {2};
    world.unary = n.unary;
    world.edges = {0, 1};
    world.tables = {n.table};
    world.each = {1};
    const OrderedTerms terms(world.input());
    CHECK(terms.scale == scale_for(n.nodes + n.edges + (n.L - 2) * (n.nodes + 2 * n.edges)));
  }
}

TEST_CASE("bands of ordered labels give the same cut on several threads") {
  for (int seed = 0; seed < 12; ++seed) {
    Random random(seed);
    const Id L = 2 + seed % 4;
    const OrderedWorld world =
        make_ordered_world(random, L, seed % 2 ? 4 : 8, {11, 6}, 1, 1, false);
    const auto one = solved(world);
    auto many = make_ordered(world.input(), OrderedTerms(world.input()));
    many->solve(3);
    CHECK(many->minimum() == one->minimum());
    CHECK(std::equal(one->labels().begin(), one->labels().end(), many->labels().begin()));
    CHECK(many->disproof(world.input()) == "");
  }
}
