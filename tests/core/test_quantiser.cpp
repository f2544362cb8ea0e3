// Survey and Quantiser: scales are powers of two that fit, nothing is rounded without being counted.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "energy/input.hpp"
#include "worlds.hpp"

using namespace cutlearn;

TEST_CASE("the scale is the largest power of two with total * scale < 2^61") {
  for (const double total : {1e-300, 1e-9, 0.3, 1.0, 1.5, 2.0, 1e5, 1e18, 0x1p61, 1e30}) {
    const double scale = scale_for(total);
    int exponent;
    CHECK(std::frexp(scale, &exponent) == 0.5);
    CHECK(total * scale < 0x1p61);
    if (scale < 0x1p1023) CHECK(2 * total * scale >= 0x1p61);
  }
  CHECK(scale_for(0) == 1);
}

TEST_CASE("is_multiple tells whole quanta from others") {
  CHECK(is_multiple(0.75, 4));
  CHECK_FALSE(is_multiple(0.75, 2));
  CHECK(is_multiple(-3, 1));
  CHECK(is_multiple(0, 0x1p-60));
  CHECK_FALSE(is_multiple(1e-300, 1));
  CHECK_FALSE(is_multiple(0.1, 0x1p20));
  CHECK(all_multiples(std::vector<double>{}, 1));
  std::vector<double> many(3000, 2.0);
  CHECK(all_multiples(many, 0.5));
  many.back() = 3.0;
  CHECK_FALSE(all_multiples(many, 0.5));
}

TEST_CASE("a number that is not whole is counted, and rounded to the nearest") {
  Quantiser quantise(4);
  CHECK(quantise.quantum() == 0.25);
  CHECK(quantise(1.5) == 6);
  CHECK(quantise.inexact == 0);
  CHECK(quantise(1.6) == 6);
  CHECK(quantise(-1.7) == -7);
  CHECK(quantise.inexact == 2);
  CHECK(quantise.rounded(0.3) == 1);
  CHECK(quantise.inexact == 2);
}

TEST_CASE("a pair below zero is raised to zero, quantum by quantum counted") {
  Quantiser quantise(1);
  Cap p, q;
  quantise.pair(3, -3, p, q);
  CHECK((p == 3 && q == -3 && quantise.inexact == 0));
  quantise.pair(3, -5, p, q);
  CHECK((p == 3 && q == -3));
  CHECK(quantise.inexact == 2);
}

TEST_CASE("exact_sum accounts for all that rounding takes") {
  double lost = 0;
  CHECK(exact_sum(1e16, 1, lost) == 1e16);
  CHECK(lost == 1);
  CHECK(exact_sum(1, 2, lost) == 3);
  CHECK(lost == 1);
}

TEST_CASE("the survey has the sums, the widest arc and the worst edge of every kind of weights") {
  for (const auto kind : {Weights::kScalar, Weights::kSymmetric, Weights::kPair}) {
    const std::vector<double> scalar{2}, symmetric{2, 0.5, 3, 1}, pair{2, 1, -1, 4, 3, 3, 0, 1};
    const std::vector<double> unary{1, -2, 0.5, 4};
    const std::vector<Id> edges{0, 1, 1, 2, 2, 3, 3, 0};
    Input in;
    in.unary = unary;
    in.shape = {4};
    in.edges = edges;
    in.constant = -7;
    in.weights = {{kind, kind == Weights::kScalar      ? scalar.data()
                         : kind == Weights::kSymmetric ? symmetric.data()
                                                       : pair.data()}};
    const Survey s = survey(in);
    CHECK(s.unary == 7.5);
    CHECK(s.largest == 4);
    CHECK(s.constant == 7);
    CHECK(s.edges == (kind == Weights::kScalar ? 16 : kind == Weights::kSymmetric ? 13 : 15));
    CHECK(s.widest == (kind == Weights::kScalar ? 4 : 6));
    CHECK(s.total() == s.unary + s.edges + 7);
    CHECK(s.bad_unary == -1);
    CHECK(s.bad_edge == -1);
    CHECK(s.worst_edge == -1);
    CHECK_FALSE(s.clip());
    CHECK(narrow_scale(in, s) > 0);
  }
}

TEST_CASE("faults are found at their place") {
  Random random(0);
  World world = make_world(random, 8, {3, 4}, 0);
  world.unary[5] = std::numeric_limits<double>::quiet_NaN();
  world.weights[2][3] = std::numeric_limits<double>::infinity();
  world.weights[1][4] = -9;
  world.weights[1][5] = 2;
  const Survey s = survey(world.input());
  CHECK(s.bad_unary == 5);
  CHECK(s.bad_direction == 2);
  CHECK(s.bad_edge == 1);
  CHECK(s.worst_direction == 1);
  CHECK(s.worst_edge == 2);
  CHECK(s.worst == -7);
}

TEST_CASE("a sum below zero by rounding alone is no fault") {
  Random random(0);
  World world = make_world(random, 0, {4}, 0);
  world.weights[0][0] = 1e6;
  world.weights[0][1] = -1e6 - 1e-9;
  CHECK(survey(world.input()).worst_edge == -1);
  world.weights[0][1] = -1e6 - 1;
  CHECK(survey(world.input()).worst_edge == 0);
}

TEST_CASE("regions enter the survey with all that their arcs can carry") {
  World world;
  world.shape = {3};
  world.unary = {0, 0, 0};
  world.weights = {{}};
  world.members = {0, 1, 2};
  world.mass = {1, 2, 3};
  world.member_first = {0, 3};
  world.slope = {-2};
  world.alpha = {0.5, 2};
  world.beta = {1, -4};
  world.hinge_first = {0, 2};
  const Survey s = survey(world.input());
  CHECK(s.rest == 2 * 6 + (2 * 0.5 * 6 + 1) + (2 * 2 * 6 + 4));
  CHECK(s.widest == 6);
}

TEST_CASE("unaries that dwarf the edges are clipped") {
  Survey s;
  s.edges = 1;
  s.unary = 256;
  CHECK_FALSE(s.clip());
  s.unary = 257;
  CHECK(s.clip());
  s.edges = 0;
  CHECK_FALSE(s.clip());
}

TEST_CASE("a narrow scale makes every number whole and every arc less than 2^30") {
  Random random(1);
  for (const double unit : {1.0, 0.25, 0x1p-20, 64.0}) {
    const World world = make_world(random, 4, {3, 4}, 1, unit);
    const Input in = world.input();
    const Survey s = survey(in);
    const double scale = narrow_scale(in, s);
    REQUIRE(scale > 0);
    CHECK(s.widest * scale < 0x1p30);
    CHECK(all_multiples(world.unary, scale));
    for (const auto& w : world.weights) CHECK(all_multiples(w, scale));
  }
  World fine = make_world(random, 4, {3, 4}, 0);
  fine.unary[0] = 0.1;
  CHECK(narrow_scale(fine.input(), survey(fine.input())) == 0);
  World part = make_world(random, 4, {3, 4}, 0);
  part.weights[1][2] = 1.0 / 3;
  CHECK(narrow_scale(part.input(), survey(part.input())) == 0);
  World region = make_world(random, 4, {3, 4}, 1);
  region.beta.push_back(0.3);
  region.alpha.push_back(1);
  region.hinge_first.back() += 1;
  CHECK(narrow_scale(region.input(), survey(region.input())) == 0);
}

TEST_CASE("of edges that are equally bad the first is found") {
  Random random(0);
  World world = make_world(random, 0, {5}, 0);
  auto& w = world.weights[0];
  w[4] = w[8] = -9;
  w[5] = w[9] = 2;
  CHECK(survey(world.input()).worst_edge == 2);
}
