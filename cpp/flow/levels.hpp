// Lists of nodes or arcs by depth, emptied from the lowest: what waits for a search tree to look at
// it.
//
// What     A node is added at a depth; the lowest depth with nodes is taken as a whole. A node that
//          moved since is not taken out: it is listed where it was too, and the taker
//          compares its depth. So adding and taking are O(1), and nothing is searched for.
// Invariants
//   L1  every depth outside lowest_ .. highest_ is empty; highest_ < 0 if all are.
// Why it stops  `lowest` passes every empty depth once between two additions below it.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "flow/ids.hpp"

namespace cutlearn {

template <class Item>
class Levels {
 public:
  void add(Item item, Id depth) {
    if (static_cast<std::size_t>(depth) >= lists_.size()) lists_.resize(depth + 8);
    lists_[depth].push_back(item);
    if (depth < lowest_) lowest_ = depth;
    if (depth > highest_) highest_ = depth;
  }
  // The lowest depth with items, or -1.
  Id lowest() {
    while (lowest_ <= highest_ && lists_[lowest_].empty()) ++lowest_;
    if (lowest_ <= highest_) return lowest_;
    lowest_ = std::numeric_limits<Id>::max();
    highest_ = -1;
    return -1;
  }
  std::vector<Item>& at(Id depth) { return lists_[depth]; }
  // Takes over all that waits in another.
  void add_all(Levels& other) {
    for (Id depth; (depth = other.lowest()) >= 0; other.at(depth).clear())
      for (const Item& item : other.at(depth)) add(item, depth);
  }
  // The items listed at a depth that may never have had any.
  std::span<const Item> waiting(Id depth) const {
    if (static_cast<std::size_t>(depth) >= lists_.size()) return {};
    return lists_[depth];
  }

 private:
  std::vector<std::vector<Item>> lists_;
  Id lowest_ = std::numeric_limits<Id>::max(), highest_ = -1;
};

}  // namespace cutlearn
