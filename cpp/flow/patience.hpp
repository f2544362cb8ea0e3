// How often a node may sink before it gives up.
//
// A set of nodes cut off from its roots would climb level by level, each one taking another for its
// parent, up to the top. After a few steps in one phase a node goes free instead: if it is still
// reached, its neighbours find it again.
#pragma once

#include <cstddef>
#include <cstdint>

#include "flow/ids.hpp"

namespace cutlearn {

class Patience {
 public:
  // sunk: zeros, one for each node
  void start(std::uint8_t* sunk) { sunk_ = sunk; }
  void next_phase() { phase_ = static_cast<std::uint8_t>(phase_ + kSteps + 2); }

  // Whether v may sink once more in this phase; counts it.
  bool lasts(Id v) {
    // sunk_[v] - phase_ counts the steps of this phase. Other differences are older counts; one
    // that looks recent because bytes wrap only makes a node impatient.
    const auto count = static_cast<std::uint8_t>(sunk_[v] - phase_);
    sunk_[v] = static_cast<std::uint8_t>(phase_ + (count > kSteps ? 1 : count + 1));
    return count != kSteps;
  }

 private:
  static constexpr std::uint8_t kSteps = 2;  // measured: 1 to 4 are alike
  std::uint8_t* sunk_ = nullptr;
  std::uint8_t phase_ = 0;
};

}  // namespace cutlearn
