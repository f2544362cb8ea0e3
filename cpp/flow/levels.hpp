#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "flow/network.hpp"

namespace cutlearn {

// Lists of nodes by depth, emptied from the lowest.
class Levels {
 public:
  void add(Id v, Id depth) {
    if (static_cast<std::size_t>(depth) >= lists_.size()) lists_.resize(depth + 8);
    lists_[depth].push_back(v);
    if (depth < lowest_) lowest_ = depth;
    if (depth > highest_) highest_ = depth;
  }
  // The lowest depth with nodes, or -1.
  Id lowest() {
    while (lowest_ <= highest_ && lists_[lowest_].empty()) ++lowest_;
    if (lowest_ <= highest_) return lowest_;
    lowest_ = std::numeric_limits<Id>::max();
    highest_ = -1;
    return -1;
  }
  std::vector<Id>& at(Id depth) { return lists_[depth]; }

 private:
  std::vector<std::vector<Id>> lists_;
  Id lowest_ = std::numeric_limits<Id>::max(), highest_ = -1;
};

}  // namespace cutlearn
