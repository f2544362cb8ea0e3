#include "network.hpp"

#include <algorithm>
#include <tuple>

namespace cutlearn {

std::vector<Offset> forward_offsets(int connectivity) {
  int dimensions = 3, reach = 0;  // reach: largest squared length
  switch (connectivity) {
    case 4: dimensions = 2; reach = 1; break;
    case 8: dimensions = 2; reach = 2; break;
    case 6: reach = 1; break;
    case 18: reach = 2; break;
    case 26: reach = 3; break;
    default: return {};
  }
  std::vector<Offset> offsets;
  for (int z = dimensions == 3 ? -1 : 0; z <= (dimensions == 3 ? 1 : 0); ++z)
    for (int y = -1; y <= 1; ++y)
      for (int x = -1; x <= 1; ++x) {
        const int first = z ? z : y ? y : x;
        if (first > 0 && z * z + y * y + x * x <= reach) offsets.push_back({z, y, x});
      }
  const auto key = [](const Offset& o) {
    return std::tuple(o[0] * o[0] + o[1] * o[1] + o[2] * o[2], std::abs(o[0]), std::abs(o[1]),
                      std::abs(o[2]), -o[0], -o[1], -o[2]);
  };
  std::sort(offsets.begin(), offsets.end(),
            [&](const Offset& a, const Offset& b) { return key(a) < key(b); });
  return offsets;
}

GridShape grid_shape(std::span<const std::int64_t> shape, bool padded) {
  GridShape grid;
  for (std::size_t k = 0; k < shape.size(); ++k)
    grid.size[3 - shape.size() + k] = static_cast<Id>(shape[k]);
  const Id pad = padded ? 1 : 0;
  grid.stride[1] = grid.size[2] + pad;
  grid.stride[0] = (grid.size[1] + pad) * grid.stride[1];
  grid.guard = padded ? (shape.size() == 3 ? grid.stride[0] : 0) + grid.stride[1] + 1 : 0;
  grid.slots = grid.guard + grid.size[0] * grid.stride[0];
  return grid;
}

}  // namespace cutlearn
