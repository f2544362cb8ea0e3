// Levels: every item is taken once, the lowest depth first.
#include <doctest/doctest.h>

#include <map>

#include "flow/levels.hpp"
#include "worlds.hpp"

using namespace cutlearn;

TEST_CASE("nothing waits in new levels") {
  Levels<Id> levels;
  CHECK(levels.lowest() == -1);
  CHECK(levels.waiting(0).empty());
  CHECK(levels.waiting(100).empty());
}

TEST_CASE("levels agree with a sorted map over random additions and removals") {
  for (int seed = 0; seed < 50; ++seed) {
    Random random(seed);
    Levels<Id> levels;
    std::map<Id, std::vector<Id>> twin;
    for (int step = 0; step < 200; ++step) {
      if (draw(random, 0, 2)) {
        const Id item = draw(random, 0, 99), depth = draw(random, 0, 30);
        levels.add(item, depth);
        twin[depth].push_back(item);
      } else if (const Id depth = levels.lowest(); depth >= 0) {
        REQUIRE(depth == twin.begin()->first);
        CHECK(levels.at(depth) == twin.begin()->second);
        levels.at(depth).clear();
        twin.erase(twin.begin());
      }
      CHECK(levels.lowest() == (twin.empty() ? -1 : twin.begin()->first));
      for (const auto& [depth, items] : twin)
        CHECK(std::vector<Id>(levels.waiting(depth).begin(), levels.waiting(depth).end()) == items);
    }
  }
}

TEST_CASE("add_all moves everything and empties the other") {
  Levels<Id> one, other;
  one.add(1, 4);
  other.add(2, 2);
  other.add(3, 4);
  other.add(5, 40);
  one.add_all(other);
  CHECK(other.lowest() == -1);
  REQUIRE(one.lowest() == 2);
  CHECK(one.at(2) == std::vector<Id>{2});
  one.at(2).clear();
  REQUIRE(one.lowest() == 4);
  CHECK(one.at(4) == std::vector<Id>{1, 3});
  one.at(4).clear();
  CHECK(one.lowest() == 40);
}
