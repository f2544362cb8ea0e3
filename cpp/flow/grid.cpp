#include "flow/grid.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <tuple>

namespace cutlearn {

std::vector<Offset> forward_offsets(int connectivity) {
  int dimensions = 3, reach = 0;  // reach: largest squared length
  const bool slices =
      connectivity == 10;  // those of an image within slices, one to each adjacent slice
  switch (connectivity) {
    case 4:
      dimensions = 2;
      reach = 1;
      break;
    case 8:
      dimensions = 2;
      reach = 2;
      break;
    case 6: reach = 1; break;
    case 10:
    case 18: reach = 2; break;
    case 26: reach = 3; break;
    default: return {};
  }
  std::vector<Offset> offsets;
  for (int z = dimensions == 3 ? -1 : 0; z <= (dimensions == 3 ? 1 : 0); ++z)
    for (int y = -1; y <= 1; ++y)
      for (int x = -1; x <= 1; ++x) {
        const int first = z ? z : y ? y : x;
        if (slices && z && (y || x)) continue;
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

std::vector<Offset> all_offsets(int connectivity) {
  std::vector<Offset> offsets;
  for (const Offset& o : forward_offsets(connectivity))
    offsets.insert(offsets.end(), {o, {-o[0], -o[1], -o[2]}});
  return offsets;
}

std::vector<std::size_t> edge_counts(const GridShape& grid, int connectivity,
                                     std::span<const Id> ends) {
  if (!connectivity) return {ends.size() / 2};
  std::vector<std::size_t> counts;
  for (const Offset& o : forward_offsets(connectivity)) {
    counts.push_back(1);
    for (int k = 0; k < 3; ++k) counts.back() *= std::max(0, grid.size[k] - std::abs(o[k]));
  }
  return counts;
}

GridShape grid_shape(std::span<const std::int64_t> shape, bool padded) {
  GridShape grid;
  std::array<std::int64_t, 3> size{1, 1, 1};
  if (shape.size() > size.size() ||
      std::any_of(shape.begin(), shape.end(), [](std::int64_t n) { return n < 0; }))
    throw std::invalid_argument("a grid has one to three lengths, none of them negative");
  for (std::size_t k = 0; k < shape.size(); ++k) {
    check_size(shape[k], "nodes");  // so that no product below leaves 64 bits
    size[3 - shape.size() + k] = shape[k];
  }
  const std::int64_t pad = padded ? 1 : 0;
  const std::int64_t row = size[2] + pad;
  check_size((size[1] + pad) * row, "nodes");
  const std::int64_t slice = (size[1] + pad) * row;
  const std::int64_t guard = padded ? (shape.size() == 3 ? slice : 0) + row + 1 : 0;
  check_size(2 * guard + size[0] * slice, "nodes");
  for (int k = 0; k < 3; ++k) grid.size[k] = static_cast<Id>(size[k]);
  grid.stride = {static_cast<Id>(slice), static_cast<Id>(row), 1};
  grid.guard = static_cast<Id>(guard);
  grid.slots = static_cast<Id>(guard + size[0] * slice);
  return grid;
}

void EdgeCursor::find(std::int64_t edge) {
  std::int64_t before = 0;
  for (std::size_t k = 0; k < offsets_.size(); ++k) {
    const Offset& o = offsets_[k];
    std::array<Id, 3> begin, size;
    for (int j = 0; j < 3; ++j) {
      begin[j] = o[j] < 0 ? 1 : 0;
      size[j] = std::max(0, grid_.size[j] - std::abs(o[j]));
    }
    const std::int64_t count = std::int64_t{size[0]} * size[1] * size[2];
    if (edge < before + count) {
      const auto run = static_cast<Id>((edge - before) / size[2]);
      begin_ = before + std::int64_t{run} * size[2];
      end_ = begin_ + size[2];
      slot_ = grid_.slot(begin[0] + run / size[1], begin[1] + run % size[1], begin[2]);
      code_ = static_cast<Id>(2 * k);
      return;
    }
    before += count;
  }
  throw std::out_of_range("edge index beyond the last edge");
}

}  // namespace cutlearn
