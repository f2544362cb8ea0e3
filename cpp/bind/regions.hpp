// Regions as a Python object that owns its arrays: copied and checked once, then only read.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "energy/input.hpp"
#include "run/pool.hpp"

namespace cutlearn {

struct OwnedRegions {
  std::vector<std::int64_t> member_first;  // offsets, number of regions + 1
  PooledVector<Id> members;
  PooledVector<double> mass;              // one for each member
  std::vector<double> slope;              // one for each region
  std::vector<std::int64_t> hinge_first;  // offsets, number of regions + 1
  std::vector<double> alpha, beta;        // one for each hinge
  Id last = -1;                           // the largest member

  Regions view() const { return {member_first, hinge_first, members, mass, slope, alpha, beta}; }
};

using RegionsPtr = std::shared_ptr<const OwnedRegions>;

}  // namespace cutlearn
