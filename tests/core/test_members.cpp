// Members: the implicit arcs between hubs and members lead back, and hold what was set.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "flow/members.hpp"
#include "worlds.hpp"

using namespace cutlearn;

namespace {

struct Table {
  std::vector<Id> nodes;
  std::vector<std::int64_t> member_first{0}, hinge_first{0};
  std::map<std::pair<Id, Id>, std::int64_t> there;  // hub, member -> capacity
};

constexpr Id kNodes = 9;

// Random regions over slots 0 .. kNodes - 1; hubs follow.
Table make_table(Random& random, Members<Cap>& members) {
  Table t;
  const int regions = draw(random, 1, 4);
  for (int c = 0; c < regions; ++c) {
    for (Id v = 0; v < kNodes; ++v)
      if (draw(random, 0, 1)) t.nodes.push_back(v);
    t.member_first.push_back(static_cast<std::int64_t>(t.nodes.size()));
    t.hinge_first.push_back(t.hinge_first.back() + draw(random, 0, 3));
  }
  members.build(t.nodes, t.member_first, t.hinge_first, kNodes,
                kNodes + static_cast<Id>(t.hinge_first.back()));
  for (int c = 0; c < regions; ++c)
    for (std::int64_t q = t.member_first[c]; q < t.member_first[c + 1]; ++q) {
      std::vector<Cap> row;
      for (std::int64_t h = t.hinge_first[c]; h < t.hinge_first[c + 1]; ++h) {
        row.push_back(draw(random, 0, 50));
        t.there[{kNodes + static_cast<Id>(h), t.nodes[q]}] = row.back();
      }
      members.set_row(c, static_cast<Id>(q - t.member_first[c]), row);
    }
  return t;
}

}  // namespace

TEST_CASE("every arc of a member or hub leads back to itself and holds its capacity") {
  for (int seed = 0; seed < 100; ++seed) {
    Random random(seed);
    Members<Cap> members;
    const Table t = make_table(random, members);
    const Id slots = kNodes + static_cast<Id>(t.hinge_first.back());
    std::map<std::pair<Id, Id>, std::int64_t> seen;
    for (Id v = 0; v < slots; ++v) {
      CHECK(members.is_hub(v) == (v >= kNodes));
      Id count = 0;
      members.any(v, 0, [&](Id place, Id w, Cap& out, Cap& in, Id back) {
        CHECK(place == count++);
        CHECK(members.neighbour(v, place) == w);
        CHECK(members.reverse(v, place) == back);
        CHECK(members.neighbour(w, back) == v);
        CHECK(members.reverse(w, back) == place);
        CHECK(&members.out(v, place) == &out);
        CHECK(&members.in(v, place) == &in);
        CHECK(&members.in(w, back) == &out);
        const auto end = members.end(v, place);
        CHECK(end.node == w);
        CHECK(&end.out == &out);
        CHECK(&end.in == &in);
        if (members.is_hub(v)) {
          seen[{v, w}] = out;
          CHECK(in == 0);
        }
        return false;
      });
      CHECK(count == std::count_if(t.there.begin(), t.there.end(), [&](const auto& arc) {
              return arc.first.first == v || arc.first.second == v;
            }));
      for (Id from = 0; from <= count; ++from) {
        Id rest = 0;
        members.any(v, from, [&](Id place, Id, Cap&, Cap&, Id) {
          CHECK(place == from + rest++);
          return false;
        });
        CHECK(rest == count - from);
      }
      for (Id stop = 0; stop < count; ++stop) {
        Id visited = 0;
        CHECK(members.any(v, 0, [&](Id place, Id, Cap&, Cap&, Id) {
          ++visited;
          return place == stop;
        }));
        CHECK(visited == stop + 1);
      }
    }
    CHECK(seen == t.there);
  }
}

TEST_CASE("coarsened regions hold the sums of their blocks") {
  for (int seed = 0; seed < 100; ++seed) {
    Random random(seed);
    Members<Cap> fine;
    const Table t = make_table(random, fine);
    constexpr Id blocks = 3;
    const auto hubs = static_cast<Id>(t.hinge_first.back());
    std::vector<Id> block(kNodes + hubs);
    for (Id v = 0; v < kNodes; ++v) block[v] = draw(random, 0, blocks - 1);
    Members<Cap> coarse;
    coarse.coarsen(fine, block, blocks, blocks + hubs);
    std::map<std::pair<Id, Id>, std::int64_t> want, found;
    for (const auto& [ends, capacity] : t.there)
      want[{ends.first - kNodes + blocks, block[ends.second]}] += capacity;
    for (Id h = blocks; h < blocks + hubs; ++h)
      coarse.any(h, 0, [&](Id, Id w, Cap& out, Cap&, Id) {
        found[{h, w}] += out;
        return false;
      });
    CHECK(found == want);
  }
}
