// The certificate: a solved network is proved, and every kind of damage is found.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "energy/build.hpp"
#include "flow/checks.hpp"
#include "flow/maxflow.hpp"
#include "worlds.hpp"

using namespace cutlearn;

namespace {

using Grid = Network<8, true, Cap>;

struct Solution {
  Grid pristine, solved;
  std::vector<std::uint8_t> on;

  explicit Solution(int seed) {
    Random random(seed);
    const World world = make_world(random, 8, {4, 5}, 2);
    const GridShape grid = grid_shape(world.shape, true);
    const Input input = world.input();
    Quantiser quantise(1);
    Builder<Grid>(pristine, input, grid, quantise).build(false);
    solved = pristine.clone();
    Maxflow<Grid> flow(solved);
    flow.solve();
    for (Id v = 0; v < solved.slots; ++v) on.push_back(flow.on_source_side(v));
  }
  std::string fault() { return disproof(solved, pristine, on).substr(0, 2); }
  Id inside(bool side) const {
    for (Id v = solved.begin(); v < solved.end(); ++v)
      if (on[v] == side && !solved.members.is_hub(v)) return v;
    return -1;
  }
};

}  // namespace

TEST_CASE("a maximum flow is proved") {
  for (int seed = 0; seed < 40; ++seed) CHECK(Solution(seed).fault() == "");
}

TEST_CASE("damage is found by the law that it breaks") {
  for (int seed = 0; seed < 40; ++seed) {
    Solution value(seed);
    value.solved.K += 1;
    CHECK(value.fault() == "C4");

    Solution excess(seed);
    const Id v = excess.inside(false);
    if (v >= 0) {
      excess.solved.excess[v] -= 1;
      CHECK(excess.fault() == "C3");
    }

    Solution label(seed);
    for (const bool side : {false, true})
      if (const Id u = label.inside(side); u >= 0) {
        label.on[u] ^= 1;
        CHECK(label.fault() != "");
        label.on[u] ^= 1;
      }
    CHECK(label.fault() == "");
  }
}

TEST_CASE("capacities that grow, shrink or turn negative are found") {
  for (int seed = 0; seed < 40; ++seed) {
    for (const Cap change : {Cap{1}, Cap{-1}, Cap{-1000}}) {
      Solution s(seed);
      const Id v = s.solved.begin() + 7;
      const Id w = s.solved.neighbour(v, 0);
      if (w < s.solved.begin() || w >= s.solved.end()) continue;
      // The node keeps its balance, so only the capacity is wrong, and perhaps a label.
      s.solved.out(v, 0) += change;
      s.solved.excess[v] += change;
      const std::string fault = s.fault();
      CHECK((fault == "C1" || fault == "C2" || fault == "C5"));
    }
  }
}

TEST_CASE("a flow that is not a maximum is no proof") {
  int tried = 0;
  for (int seed = 0; seed < 40; ++seed) {
    Solution s(seed);
    if (s.inside(true) < 0 || s.inside(false) < 0) continue;
    // The network before any search, with the labels of the minimum.
    Solution unsolved(seed);
    unsolved.solved = unsolved.pristine.clone();
    unsolved.on = s.on;
    if (unsolved.solved.K == s.solved.K) continue;
    CHECK(unsolved.fault() != "");
    ++tried;
  }
  CHECK(tried > 20);
}

TEST_CASE("labels of a larger minimum cut are not minimal") {
  // One node whose labels cost the same: only 0 is minimal.
  World world;
  world.shape = {2};
  world.unary = {0, -1};
  world.edges = {0, 1};
  world.weights = {{0, 0}};
  using List = Network<0, true, Cap>;
  List pristine;
  Quantiser quantise(1);
  const Input input = world.input();
  const GridShape grid = grid_shape(world.shape, false);
  Builder<List>(pristine, input, grid, quantise).build(false);
  List solved = pristine.clone();
  Maxflow<List>(solved).solve();
  CHECK(disproof(solved, pristine, {0, 1}) == "");
  CHECK(disproof(solved, pristine, {1, 1}).substr(0, 2) == "C6");
}

TEST_CASE("arcs outside the grid are walked round from any of them, until a call returns true") {
  for (int seed = 0; seed < 10; ++seed) {
    Solution s(seed);
    for (Id v = s.solved.begin(); v < s.solved.end(); ++v) {
      std::vector<Id> codes;
      s.solved.any_code(v, [&](Id code) { return codes.push_back(code), false; });
      for (const Id from : codes) {
        std::vector<Id> round;
        CHECK_FALSE(
            s.solved.any_code_from(v, from, [&](Id code) { return round.push_back(code), false; }));
        if (from >= Grid::directions) CHECK(round[Grid::directions] == from);
        std::sort(round.begin(), round.end());
        CHECK(round == codes);
        for (std::size_t stop = 0; stop < codes.size(); ++stop) {
          std::size_t visited = 0;
          CHECK(s.solved.any_code_from(v, from, [&](Id) { return visited++ == stop; }));
          CHECK(visited == stop + 1);
        }
      }
    }
  }
}
