// Engines against enumeration: minimum, minimal labels, min-marginals, changes, proofs.
#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "energy/engine.hpp"
#include "worlds.hpp"

using namespace cutlearn;

namespace {

// An energy against a fixed label is infinite, which Approx does not compare.
void check_equal(double found, double want) {
  CHECK((found == want || found == doctest::Approx(want).epsilon(1e-12)));
}

void check_solved(const World& world, BinaryEngine& engine) {
  const double least = world.least();
  const double found = static_cast<double>(engine.minimum()) / engine.scale() + engine.clipped();
  CHECK(found == doctest::Approx(least).epsilon(1e-12));
  CHECK(engine.inexact() == 0);
  const std::uint64_t minimal = world.minimal();
  for (std::size_t i = 0; i < world.size(); ++i) CHECK(engine.labels()[i] == (minimal >> i & 1));
  if (world.fixed.empty()) CHECK(engine.disproof(world.input()) == "");
}

void check_marginals(const World& world, BinaryEngine& engine) {
  for (const int threads : {1, 2}) {
    std::vector<double> phi(2 * world.size());
    engine.min_marginals(phi.data(), threads);
    for (std::size_t i = 0; i < world.size(); ++i)
      for (int label = 0; label < 2; ++label)
        check_equal(phi[2 * i + label], world.least(static_cast<int>(i), label));
  }
}

}  // namespace

TEST_CASE("every kind of network is minimised exactly, with and without regions and fixed nodes") {
  for (const Kind& kind : kinds)
    for (int seed = 0; seed < 12; ++seed) {
      CAPTURE(kind.connectivity);
      CAPTURE(seed);
      Random random(seed);
      const World world = make_world(random, kind.connectivity, kind.shape, seed % 3,
                                     seed % 2 ? 1 : 0x1p-30, seed % 4 == 3);
      const Input input = world.input();
      const Survey seen = survey(input);
      const auto engine = make_engine(input, seen);
      engine->solve();
      check_solved(world, *engine);
      check_marginals(world, *engine);
      const Solved once = solve_once(input, seen, 1);
      CHECK(once.minimum == engine->minimum());
      CHECK(std::equal(once.labels.begin(), once.labels.end(), engine->labels().begin()));
    }
}

TEST_CASE("wide and narrow residuals agree") {
  for (int seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const World world = make_world(random, 8, {3, 4}, seed % 2);
    const Input input = world.input();
    const Survey seen = survey(input);
    const auto wide = make_engine_at(input, seen, 0);
    wide->solve();
    check_solved(world, *wide);
    const auto narrow = make_engine_at(input, seen, narrow_scale(input, seen));
    narrow->solve();
    check_solved(world, *narrow);
  }
}

TEST_CASE("unaries that dwarf the edges keep their labels and come back in min-marginals") {
  for (int seed = 0; seed < 30; ++seed) {
    Random random(seed);
    World world = make_world(random, 4, {3, 3}, 0, 0.1);
    world.unary[draw(random, 0, 8)] = -1e7;
    world.unary[draw(random, 0, 8)] = 1e9;
    const Input input = world.input();
    const Survey seen = survey(input);
    REQUIRE(seen.clip());
    const auto engine = make_engine(input, seen);
    engine->solve();
    std::uint64_t labels = 0;
    for (std::size_t i = 0; i < 9; ++i)
      labels |= static_cast<std::uint64_t>(engine->labels()[i]) << i;
    CHECK(world.value(labels) == doctest::Approx(world.least()).epsilon(1e-12));
    const double found = static_cast<double>(engine->minimum()) / engine->scale();
    CHECK(found + engine->clipped() == doctest::Approx(world.least()).epsilon(1e-12));
    CHECK(engine->disproof(input) == "");
    std::vector<double> phi(18);
    engine->min_marginals(phi.data(), 1);
    for (int i = 0; i < 9; ++i)
      for (int label = 0; label < 2; ++label)
        CHECK(phi[2 * i + label] == doctest::Approx(world.least(i, label)).epsilon(1e-9));
  }
}

TEST_CASE("changes lead to the same answer as a new engine") {
  for (const Kind& kind : kinds)
    for (int seed = 0; seed < 8; ++seed) {
      CAPTURE(kind.connectivity);
      CAPTURE(seed);
      Random random(seed);
      World world = make_world(random, kind.connectivity, kind.shape, seed % 2, 1, true);
      const Input input = world.input();
      auto engine = make_engine(input, survey(input));
      engine->solve();
      for (int round = 0; round < 6; ++round) {
        const auto n = static_cast<int>(world.size());
        std::vector<std::int64_t> index;
        std::vector<double> values;
        for (int k = draw(random, 0, n - 1); k < n; k += draw(random, 1, 3)) {
          index.push_back(k);
          values.push_back(draw(random, -9, 9));
        }
        engine->change_unary(index, values, world.unary.data());
        std::size_t edges = 0;
        for (const auto& w : world.weights) edges += w.size() / 2;
        if (world.weights.size() == 1 && edges > 0) {
          const std::vector<std::int64_t> which{draw(random, 0, static_cast<int>(edges) - 1)};
          const std::vector<double> pq{1.0 * draw(random, 0, 6), 1.0 * draw(random, 0, 6)};
          engine->change_weights(which, pq, world.weights[0].data());
        }
        const std::vector<std::int64_t> node{draw(random, 0, n - 1)};
        const std::vector<std::int8_t> label{static_cast<std::int8_t>(draw(random, -1, 1))};
        engine->change_fixed(node, label, world.fixed.data());
        const std::vector<std::uint8_t> before(engine->labels().begin(), engine->labels().end());
        if (engine->outgrown()) {
          const Input changed = world.input();
          engine = make_engine(changed, survey(changed));
          engine->solve();
          CHECK_FALSE(engine->resumed());
        } else {
          engine->solve();
          CHECK(engine->resumed());
          std::vector<std::int64_t> turned;
          for (int i = 0; i < n; ++i)
            if (engine->labels()[i] != before[i]) turned.push_back(i);
          std::vector<std::int64_t> listed(engine->changed().begin(), engine->changed().end());
          std::sort(listed.begin(), listed.end());
          CHECK(listed == turned);
        }
        check_solved(world, *engine);
        check_marginals(world, *engine);
      }
    }
}

TEST_CASE("sums over argmins are those of labellings that attain the min-marginals") {
  for (const Kind& kind : kinds)
    for (int seed = 0; seed < 6; ++seed) {
      CAPTURE(kind.connectivity);
      CAPTURE(seed);
      Random random(seed);
      const World world = make_world(random, kind.connectivity, kind.shape, seed % 2, 1);
      const std::size_t n = world.size();
      const Input input = world.input();
      const auto engine = make_engine(input, survey(input));
      engine->solve();
      const std::vector<std::uint8_t> cut(engine->labels().begin(), engine->labels().end());
      std::vector<double> phi(2 * n), weights(n);
      // One region of the even nodes.
      std::vector<Id> members;
      for (Id i = 0; i < static_cast<Id>(n); i += 2) members.push_back(i);
      const std::vector<std::int64_t> first{0, static_cast<std::int64_t>(members.size())};
      for (std::size_t i = 0; i < n; ++i) {
        weights.assign(n, 0);
        weights[i] = 1;
        const ArgminSums sums =
            engine->argmin_sums(phi.data(), {weights, {}, first, members}, 1 + seed % 2);
        std::vector<int> y(cut.begin(), cut.end());
        std::uint64_t labels = 0;
        for (std::size_t k = 0; k < n; ++k) {
          y[k] += static_cast<int>(std::lround(sums.node[k]));
          labels |= static_cast<std::uint64_t>(y[k]) << k;
        }
        CHECK(y[i] != cut[i]);
        CHECK(world.value(labels) == doctest::Approx(world.least(static_cast<int>(i), y[i])));
        for (std::size_t e = 0; e < sums.edge.size(); ++e) {
          const Id u = world.edges[2 * e], v = world.edges[2 * e + 1];
          CHECK(sums.edge[e] == doctest::Approx((y[u] != y[v]) - (cut[u] != cut[v])));
        }
        std::vector<double> region(members.size() + 1, 0);
        std::size_t before = 0, after = 0;
        for (const Id k : members) before += cut[k], after += static_cast<std::size_t>(y[k]);
        region[after] += 1;
        region[before] -= 1;
        for (std::size_t s = 0; s < region.size(); ++s)
          CHECK(sums.region[s] == doctest::Approx(region[s]));
      }
    }
}

TEST_CASE("a region over most nodes of a large list is solved line by line") {
  // One envelope min(0, b - a s) over 4,096 nodes without edges: the least over counts.
  const int n = 4096;
  Random random(3);
  World world;
  world.shape = {n};
  world.weights = {{}};
  for (int i = 0; i < n; ++i) {
    world.unary.push_back(draw(random, 1, 7));
    world.members.push_back(i);
    world.mass.push_back(1);
  }
  world.member_first = {0, n};
  world.slope = {0};
  world.alpha = {2, 3};
  world.beta = {100, 3000};
  world.hinge_first = {0, 2};
  const Input input = world.input();
  REQUIRE(conditioned_region(input) == 0);
  const Solved once = solve_once(input, survey(input), 1);
  CHECK(once.cuts == 3);
  std::vector<double> sorted = world.unary;
  std::sort(sorted.begin(), sorted.end());
  double best = 0, sum = 0;
  for (int s = 1; s <= n; ++s) {
    sum += sorted[s - 1];
    best = std::min(best, sum + std::min(0.0, 100.0 - 2 * s) + std::min(0.0, 3000.0 - 3 * s));
  }
  CHECK(static_cast<double>(once.minimum) / once.scale == best);
  const auto hub = make_engine(input, survey(input));
  hub->solve();
  CHECK(static_cast<double>(hub->minimum()) / hub->scale() == best);
}

TEST_CASE("conditioning on the lines of a region agrees with hubs for all") {
  const int n = 4100;
  for (int seed = 0; seed < 8; ++seed) {
    Random random(seed);
    const double unit = seed % 2 ? 1.0 / 3 : 1;  // thirds need 64 bits
    World world;
    world.shape = {n};
    for (int i = 0; i < n; ++i) world.unary.push_back(draw(random, -9, 30) * unit);
    world.weights.resize(1);
    for (int i = 0; i + 1 < n; ++i) {
      world.edges.insert(world.edges.end(), {i, i + 1});
      add_pair(random, world.weights[0], unit);
    }
    // A few nodes, nearly all, and a few others: the second is conditioned on.
    const int steep = seed % 4 < 2 ? 1 : 30;
    for (const int part : {17, 1, 29}) {
      for (Id i = part; i < n; i += part) {
        world.members.push_back(i);
        world.mass.push_back(1 + i % 3);
      }
      world.member_first.push_back(static_cast<std::int64_t>(world.members.size()));
      world.slope.push_back(draw(random, -2, 2) * unit);
      double break_point = 0;  // rising: the lines of an envelope
      for (int h = 0; h < 3; ++h) {
        break_point += draw(random, 5, 3000);
        world.alpha.push_back(draw(random, 1, 3) * steep * unit);
        world.beta.push_back(world.alpha.back() * break_point);
      }
      world.hinge_first.push_back(static_cast<std::int64_t>(world.alpha.size()));
    }
    const Input input = world.input();
    REQUIRE(conditioned_region(input) == 1);
    const Survey seen = survey(input);
    const auto hubs = make_engine(input, seen);
    hubs->solve();
    const Solved once = solve_once(input, seen, 1);
    const double want = static_cast<double>(hubs->minimum()) / hubs->scale();
    CHECK(static_cast<double>(once.minimum) / once.scale == doctest::Approx(want).epsilon(1e-12));
    CHECK(once.cuts == 4);
  }
}

TEST_CASE("tiles give the same cut on several threads") {
  const std::vector<Kind> large{{4, {13, 11}}, {8, {9, 16}}, {6, {4, 5, 6}}, {26, {3, 5, 7}}};
  for (const Kind& kind : large)
    for (int seed = 0; seed < 8; ++seed) {
      Random random(seed);
      World world = make_world(random, kind.connectivity, kind.shape, 0);
      if (seed % 2)  // few nodes with a unary: paths cross the seams
        for (double& u : world.unary) u *= draw(random, 0, 20) == 0;
      const Input input = world.input();
      const auto one = make_engine(input, survey(input)), many = make_engine(input, survey(input));
      one->solve(1);
      many->solve(3);
      CHECK(one->minimum() == many->minimum());
      CHECK(std::equal(one->labels().begin(), one->labels().end(), many->labels().begin()));
      CHECK(many->disproof(input) == "");
    }
}

TEST_CASE("weights of a grid are changed by the numbers of its edges") {
  int followed = 0;
  for (const Kind& kind : kinds) {
    if (kind.connectivity == 0) continue;
    for (int seed = 0; seed < 6; ++seed) {
      CAPTURE(kind.connectivity);
      CAPTURE(seed);
      Random random(seed);
      World world = make_world(random, kind.connectivity, kind.shape, 0);
      const Input input = world.input();
      const auto engine = make_engine(input, survey(input));
      engine->solve();
      std::vector<double> stored;
      for (const auto& w : world.weights) stored.insert(stored.end(), w.begin(), w.end());
      const auto edges = static_cast<int>(stored.size() / 2);
      std::vector<std::int64_t> index;
      std::vector<double> pq;
      const bool one = seed % 2;  // p = q
      for (int e = draw(random, 0, 2); e < edges; e += draw(random, 1, 4)) {
        index.push_back(e);
        for (int k = 0; k < (one ? 1 : 2); ++k) pq.push_back(draw(random, 0, 6));
      }
      engine->change_weights(index, pq, stored.data());
      auto from = stored.begin();
      for (auto& w : world.weights) {
        std::copy_n(from, w.size(), w.begin());
        from += static_cast<std::ptrdiff_t>(w.size());
      }
      if (engine->outgrown()) continue;
      engine->solve();
      check_solved(world, *engine);
      ++followed;
    }
  }
  CHECK(followed > 8);
}

TEST_CASE("a change beyond the scale outgrows the engine") {
  Random random(2);
  World world = make_world(random, 8, {3, 4}, 0);
  const Input input = world.input();
  const std::vector<std::int64_t> first{0};
  const auto change = [&](double narrow, double value) {
    std::vector<double> stored = world.unary;
    const auto engine = make_engine_at(input, survey(input), narrow);
    engine->solve();
    CHECK_FALSE(engine->outgrown());
    engine->change_unary(first, std::vector<double>{value}, stored.data());
    CHECK(stored[0] == value);
    return engine->outgrown();
  };
  const double narrow = narrow_scale(input, survey(input));
  REQUIRE(narrow > 0);
  CHECK_FALSE(change(narrow, 5));
  CHECK(change(narrow, 0.1));
  CHECK(change(narrow, 1e18));
  CHECK_FALSE(change(0, world.unary[0]));
  CHECK(change(0, 1e5));
  CHECK(change(0, 1e300));
}

TEST_CASE("sums for the likelihood of labels take their weights from the min-marginals") {
  for (int seed = 0; seed < 10; ++seed) {
    Random random(seed);
    const World world = make_world(random, 8, {3, 3}, 1, 0.25);
    const std::size_t n = world.size();
    const Input input = world.input();
    const auto engine = make_engine(input, survey(input));
    engine->solve();
    std::vector<double> phi(2 * n), weights(n, 0);
    engine->min_marginals(phi.data(), 1);
    std::vector<std::uint8_t> truth(n);
    for (std::size_t i = 0; i < n; ++i) {
      truth[i] = static_cast<std::uint8_t>(std::array{0, 1, int{kVoid}}[draw(random, 0, 2)]);
      const std::uint8_t y = engine->labels()[i];
      if (truth[i] == kVoid) continue;
      weights[i] = 1 / (1 + std::exp(phi[2 * i + !y] - phi[2 * i + y])) - (truth[i] != y);
    }
    const ArgminSums one = engine->argmin_sums(phi.data(), {{}, truth, {}, {}}, 1);
    const ArgminSums two = engine->argmin_sums(phi.data(), {weights, {}, {}, {}}, 1);
    for (std::size_t i = 0; i < n; ++i)
      CHECK(one.node[i] == doctest::Approx(two.node[i]).epsilon(1e-9));
    for (std::size_t e = 0; e < one.edge.size(); ++e)
      CHECK(one.edge[e] == doctest::Approx(two.edge[e]).epsilon(1e-9));
  }
}
