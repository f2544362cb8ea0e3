// Nodes and arcs are counted in 32 bits; before any are made, their number is checked in 64.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace cutlearn {

using Id = std::int32_t;

// An arc by its tail and its code there (network.hpp).
struct Arc {
  Id from, code;
};

// A few of the largest numbers have a meaning of their own.
constexpr std::int64_t kMostIds = (std::int64_t{1} << 31) - 64;

// throws std::invalid_argument if a network would need more than that
inline void check_size(std::int64_t count, const char* what) {
  if (count > kMostIds)
    throw std::invalid_argument(std::to_string(count) + " " + what +
                                " are needed, borders included; one network can have " +
                                std::to_string(kMostIds));
}

}  // namespace cutlearn
