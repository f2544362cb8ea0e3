// The arcs between the auxiliary nodes of regions ("hubs") and their members, without stored ends.
//
// What     A region of n members under H hinges has H hubs and n H pairs of residuals, one table of
//          n rows: the arcs of a member lie side by side, those of a hub one row apart. Neither
//          heads nor sisters are stored: which hub, which member and which pair follow from the
//          row.
// Place    A member arc of a node is named by its place: of a hub, the row of the member; of a
//          member, the column, counted on through all its regions.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "flow/ids.hpp"
#include "run/pool.hpp"

namespace cutlearn {

// Where an arc leads, and its residuals there and back.
template <class R>
struct End {
  Id node;
  R& out;
  R& in;
};

template <class R>
class Members {
 public:
  struct Pair {
    R there = 0, back = 0;  // r(hub -> member), r(member -> hub)
  };
  // A node in a region.
  struct Join {
    Id pair;   // of its row's first column
    Id hub;    // the region's first
    Id count;  // of hubs
    Id row;
    Id place;  // of its first arc, at the node
  };

  // nodes: slots of the members, region by region; hubs: one number a region; first_hub: a slot
  void build(std::span<const Id> nodes, std::span<const std::int64_t> member_first,
             std::span<const std::int64_t> hinge_first, Id first_hub, Id slots) {
    std::int64_t arcs = 0;
    for (std::size_t c = 0; c + 1 < member_first.size(); ++c)
      arcs += (member_first[c + 1] - member_first[c]) * (hinge_first[c + 1] - hinge_first[c]);
    check_size(arcs, "arcs of regions");
    first_hub_ = first_hub;
    nodes_.assign(nodes.begin(), nodes.end());
    place_.resize(nodes.size());
    first_.assign(slots + 1, 0);
    for (const Id v : nodes) ++first_[v + 1];
    for (Id v = 0; v < slots; ++v) first_[v + 1] += first_[v];
    joins_.resize(nodes.size());
    std::vector<Id> next(first_.begin(), first_.end() - 1);
    Id pair = 0;
    for (std::size_t c = 0; c + 1 < member_first.size(); ++c) {
      const auto begin = static_cast<Id>(member_first[c]),
                 end = static_cast<Id>(member_first[c + 1]);
      const auto hub = static_cast<Id>(hinge_first[c]);
      const auto count = static_cast<Id>(hinge_first[c + 1]) - hub;
      tables_.push_back({pair, count, begin, end - begin});
      for (Id k = 0; k < count; ++k) hubs_.push_back({begin, end - begin, pair + k, count, k});
      for (Id q = begin; q < end; ++q, pair += count) {
        const Id v = nodes_[q], at = next[v]++;
        place_[q] = at == first_[v] ? 0 : joins_[at - 1].place + joins_[at - 1].count;
        joins_[at] = {pair, first_hub + hub, count, q - begin, place_[q]};
      }
    }
    pairs_.assign(pair, {});
  }

  // r(hub -> member) of one member of region c, for all hubs
  void set_row(std::size_t c, Id row, std::span<const R> there) {
    Pair* p = pairs_.data() + tables_[c].pair + static_cast<std::size_t>(row) * tables_[c].columns;
    for (std::size_t k = 0; k < there.size(); ++k) p[k].there = there[k];
  }

  // The regions of another, over blocks of its nodes: pairs of a block are the sums of its members'.
  // block: by the nodes there. Returns where the pairs of each member's block begin.
  template <class Q>
  PooledVector<Id> coarsen(const Members<Q>& fine, std::span<const Id> block, Id first_hub,
                           Id slots) {
    PooledVector<Id> place(fine.nodes_.size());
    std::vector<Id> nodes, row_of(slots, -1);
    std::vector<std::int64_t> member_first{0}, hinge_first{0};
    Id pair = 0;
    for (const auto& table : fine.tables_) {
      const std::size_t begin = nodes.size();
      for (Id q = table.member; q < table.member + table.rows; ++q) {
        Id& row = row_of[block[fine.nodes_[q]]];
        if (row < 0) {
          row = static_cast<Id>(nodes.size() - begin);
          nodes.push_back(block[fine.nodes_[q]]);
        }
        place[q] = pair + row * table.columns;
      }
      for (std::size_t k = begin; k < nodes.size(); ++k) row_of[nodes[k]] = -1;
      pair += static_cast<Id>(nodes.size() - begin) * table.columns;
      member_first.push_back(static_cast<std::int64_t>(nodes.size()));
      hinge_first.push_back(hinge_first.back() + table.columns);
    }
    build(nodes, member_first, hinge_first, first_hub, slots);
    const auto* from = fine.pairs_.data();
    for (const auto& table : fine.tables_)
      for (Id q = table.member; q < table.member + table.rows; ++q)
        for (Id k = 0; k < table.columns; ++k, ++from) pairs_[place[q] + k].there += from->there;
    return place;
  }
  PooledVector<Pair>& pairs() { return pairs_; }
  // Calls f(node, first hub, pairs) for every member of every region.
  template <class F>
  void each_row(F&& f) {
    Pair* pair = pairs_.data();
    Id hub = first_hub_;
    for (const RegionTable& table : tables_) {
      for (Id q = table.member; q < table.member + table.rows; ++q, pair += table.columns)
        f(nodes_[q], hub, std::span<Pair>(pair, table.columns));
      hub += table.columns;
    }
  }

  bool empty() const { return pairs_.empty(); }
  bool is_hub(Id v) const { return v >= first_hub_; }
  std::span<const Join> joins(Id v) const {
    return {joins_.data() + first_[v], static_cast<std::size_t>(first_[v + 1] - first_[v])};
  }
  Id neighbour(Id v, Id place) const {
    if (is_hub(v)) return nodes_[hubs_[v - first_hub_].member + place];
    const Join& j = join_at(v, place);
    return j.hub + place - j.place;
  }
  // The place of the same arc at its other end.
  Id reverse(Id v, Id place) const {
    if (!is_hub(v)) return join_at(v, place).row;
    const Hub& h = hubs_[v - first_hub_];
    return place_[h.member + place] + h.column;
  }
  End<R> end(Id v, Id place) {
    if (is_hub(v)) {
      const Hub& h = hubs_[v - first_hub_];
      Pair& p = pairs_[h.pair + static_cast<std::size_t>(place) * h.columns];
      return {nodes_[h.member + place], p.there, p.back};
    }
    const Join& j = join_at(v, place);
    Pair& p = pairs_[j.pair + place - j.place];
    return {j.hub + place - j.place, p.back, p.there};
  }
  R& out(Id v, Id place) { return end(v, place).out; }
  R& in(Id v, Id place) { return end(v, place).in; }

  // Calls f(place, neighbour, out, in, place of the same arc there) for the arcs of v from a place
  // on, until a call returns true.
  template <class F>
  bool any(Id v, Id from, F&& f) {
    if (empty()) return false;
    if (is_hub(v)) {
      if (v - first_hub_ >= static_cast<Id>(hubs_.size())) return false;  // padding
      const Hub& h = hubs_[v - first_hub_];
      const Id* node = nodes_.data() + h.member;
      const Id* place = place_.data() + h.member;
      Pair* p = pairs_.data() + h.pair + static_cast<std::size_t>(from) * h.columns;
      for (Id row = from; row < h.rows; ++row, p += h.columns)
        if (f(row, node[row], p->there, p->back, place[row] + h.column)) return true;
      return false;
    }
    for (const Join& j : joins(v)) {
      Pair* p = pairs_.data() + j.pair;
      for (Id k = from > j.place ? from - j.place : 0; k < j.count; ++k)
        if (f(j.place + k, j.hub + k, p[k].back, p[k].there, j.row)) return true;
    }
    return false;
  }

 private:
  template <class>
  friend class Members;

  struct Hub {
    Id member;   // first of the region
    Id rows;     // members of the region
    Id pair;     // of the first row
    Id columns;  // hubs of the region
    Id column;   // of this one
  };

  struct RegionTable {
    Id pair, columns;  // of the first row; hubs
    Id member, rows;   // the first, and how many
  };

  const Join& join_at(Id v, Id place) const {
    const Join* j = joins_.data() + first_[v];
    while (place >= j->place + j->count) ++j;
    return *j;
  }
  Id first_hub_ = 0;
  PooledVector<Id> nodes_, place_;  // member by member
  std::vector<RegionTable> tables_;
  std::vector<Hub> hubs_;
  PooledVector<Id> first_;  // of the joins of a slot
  PooledVector<Join> joins_;
  PooledVector<Pair> pairs_;
};

}  // namespace cutlearn
