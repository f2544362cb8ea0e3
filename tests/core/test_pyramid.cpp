// The coarser start: only pushes, so the stored function stays, and so does the minimum.
#include <doctest/doctest.h>

#include "energy/build.hpp"
#include "flow/maxflow.hpp"
#include "flow/pyramid.hpp"
#include "worlds.hpp"

using namespace cutlearn;

namespace {

// K + sum_v ([excess]+ - excess y) + sum r y_u (1 - y_v), of network.hpp.
template <class Net>
Cap stored(Net& net, const std::vector<std::uint8_t>& y) {
  Cap sum = net.K;
  for (Id v = net.begin(); v < net.end(); ++v) {
    const Cap e = net.excess[v];
    sum += (e > 0 ? e : 0) - e * y[v];
    net.any_code(v, [&](Id code) {
      if (y[v] && !y[net.neighbour(v, code)]) sum += net.out(v, code);
      return false;
    });
  }
  return sum;
}

template <int D, bool Arcs>
void check(std::vector<std::int64_t> shape, int regions) {
  for (int seed = 0; seed < 15; ++seed) {
    CAPTURE(D);
    CAPTURE(seed);
    using Net = Network<D, Arcs, Cap>;
    Random random(seed);
    const World world = make_world(random, D, shape, regions, 1 << 20);
    const GridShape grid = grid_shape(world.shape, true);
    const Input input = world.input();
    Quantiser quantise(1);
    Net net;
    Builder<Net>(net, input, grid, quantise).build(false);
    Net plain = net.clone(), before = net.clone();
    Pyramid<Net>(net, grid)();
    CHECK(broken_network(net) == "");
    for (int draws = 0; draws < 20; ++draws) {
      std::vector<std::uint8_t> y(net.slots, 0);
      for (Id i = 0; i < grid.pixels(); ++i) y[grid.slot(i)] = draw(random, 0, 1);
      for (Id v = grid.slots; v < net.end(); ++v) y[v] = draw(random, 0, 1);
      CHECK(stored(net, y) == stored(before, y));
    }
    Maxflow<Net> warm(net), cold(plain);
    warm.solve();
    cold.solve();
    CHECK(net.K == plain.K);
    for (Id v = net.begin(); v < net.end(); ++v)
      CHECK(warm.on_source_side(v) == cold.on_source_side(v));
  }
}

}  // namespace

TEST_CASE("a coarser start keeps the function and the cut, on every grid") {
  check<4, false>({9, 14}, 0);
  check<4, true>({9, 14}, 2);
  check<8, false>({11, 8}, 0);
  check<8, true>({11, 8}, 2);
  check<4, false>({1, 40}, 0);
  check<6, false>({5, 4, 7}, 0);
  check<6, true>({5, 4, 7}, 1);
  check<10, false>({3, 5, 6}, 0);
  check<18, false>({3, 5, 6}, 0);
  check<26, true>({3, 5, 6}, 1);
}

TEST_CASE("the coarser start carries most of a flow over a long way") {
  // A source on the left, a sink on the right, wide arcs between: nothing is left to search.
  const Id width = 64;
  World world;
  world.shape = {1, width};
  world.connectivity = 4;
  world.unary.assign(width, 0);
  world.unary.front() = -1000;
  world.unary.back() = 1000;
  world.weights.resize(2);
  for (Id x = 0; x + 1 < width; ++x) {
    world.edges.insert(world.edges.end(), {x, x + 1});
    world.weights[0].insert(world.weights[0].end(), {2000.0, 2000.0});
  }
  if (forward_offsets(4)[0][2] == 0) std::swap(world.weights[0], world.weights[1]);
  using Net = Network<4, false, Cap>;
  const GridShape grid = grid_shape(world.shape, true);
  const Input input = world.input();
  Quantiser quantise(1);
  Net net;
  Builder<Net>(net, input, grid, quantise).build(false);
  const Cap before = net.K;
  Pyramid<Net>(net, grid)();
  CHECK(net.K - before == 1000);
}
