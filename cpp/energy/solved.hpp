// The answer of one solve: all that is left when the network is gone.
#pragma once

#include <cstdint>
#include <vector>

#include "energy/input.hpp"

namespace cutlearn {

struct Solved {
  std::vector<std::uint8_t> labels;  // one for each node, in the caller's order
  // The minimum of the quantised energy is minimum / scale + clipped.
  Cap minimum = 0;
  double scale = 1;
  std::int64_t inexact = 0;
  double clipped = 0;
  double clipped_error = 0;  // the rounding of that sum, at most
  std::int64_t cuts = 1;     // how many it took
};

}  // namespace cutlearn
