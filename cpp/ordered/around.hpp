// The edges around every pixel.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "flow/ids.hpp"

namespace cutlearn {

class Around {
 public:
  struct Edge {
    Id other, edge;
    bool first;  // whether the pixel is the edge's first end
  };

  Around(Id pixels, std::span<const Id> ends) : begin_(pixels + 1, 0), edges_(ends.size()) {
    for (const Id i : ends) ++begin_[i + 1];
    for (Id i = 0; i < pixels; ++i) begin_[i + 1] += begin_[i];
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    for (std::size_t k = 0; k < ends.size(); ++k)
      edges_[next[ends[k]]++] = {ends[k ^ 1], static_cast<Id>(k / 2), k % 2 == 0};
  }

  std::span<const Edge> of(Id i) const {
    return {edges_.data() + begin_[i], edges_.data() + begin_[i + 1]};
  }

 private:
  std::vector<std::size_t> begin_;
  std::vector<Edge> edges_;
};

}  // namespace cutlearn
