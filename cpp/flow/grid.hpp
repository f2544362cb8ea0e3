// Where the pixels of an image or a volume lie among the slots of a network, and in what order its
// edges come.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "flow/ids.hpp"

namespace cutlearn {

using Offset = std::array<int, 3>;

// Where the pixels of a grid lie among the slots. Two dimensions are three with depth 1.
struct GridShape {
  std::array<Id, 3> size{1, 1, 1};    // depth, rows, columns
  std::array<Id, 3> stride{0, 0, 1};  // one padding column a row, one padding row a slice
  Id guard = 0;                       // slots before the first pixel
  Id slots = 0;

  Id pixels() const { return size[0] * size[1] * size[2]; }
  Id slot(Id z, Id y, Id x) const { return guard + z * stride[0] + y * stride[1] + x; }
  Id slot(Id pixel) const {
    const Id x = pixel % size[2], row = pixel / size[2];
    return slot(row / size[1], row % size[1], x);
  }
  Id pixel(Id slot) const {
    const Id at = slot - guard, z = at / stride[0], rest = at % stride[0];
    return (z * size[1] + rest / stride[1]) * size[2] + rest % stride[1];
  }
  // The slot of a neighbour less that of the pixel.
  Id step(const Offset& o) const { return o[0] * stride[0] + o[1] * stride[1] + o[2]; }

  // Calls f(pixel, slot) for every pixel in order.
  template <class F>
  void for_pixels(F&& f) const {
    Id pixel = 0;
    for (Id z = 0; z < size[0]; ++z)
      for (Id y = 0; y < size[1]; ++y)
        for (Id v = slot(z, y, 0), end = v + size[2]; v < end; ++v) f(pixel++, v);
  }
};

// Every connectivity of images (4, 8) and volumes, for code that is made for each of them.
#define CUTLEARN_CONNECTIVITIES(F) F(4) F(8) F(6) F(10) F(18) F(26)
// The forward directions of a connectivity, in the order of the public `grid_edges`; empty for a
// connectivity that does not exist.
std::vector<Offset> forward_offsets(int connectivity);
// All directions as networks number them: each forward one, then its opposite.
std::vector<Offset> all_offsets(int connectivity);
// The edges of every direction of a grid, or of a list (connectivity 0) with these ends.
std::vector<std::size_t> edge_counts(const GridShape& grid, int connectivity,
                                     std::span<const Id> ends);
// throws std::invalid_argument if there are too many, or a length is no length
GridShape grid_shape(std::span<const std::int64_t> shape, bool padded);

// Slots one after the other; walked both ways.
struct Run {
  Id first, last;

  std::int64_t size() const { return last - first; }
  template <class F>
  void forward(F&& f) const {
    for (Id v = first; v < last; ++v) f(v);
  }
  template <class F>
  void backward(F&& f) const {
    for (Id v = last - 1; v >= first; --v) f(v);
  }
};

// The slots of a box of the grid, walked both ways in the order of memory.
struct Box {
  const GridShape& grid;
  std::array<Id, 3> begin, end;

  std::int64_t size() const {
    return std::int64_t{end[0] - begin[0]} * (end[1] - begin[1]) * (end[2] - begin[2]);
  }
  Run row(Id z, Id y) const { return {grid.slot(z, y, begin[2]), grid.slot(z, y, end[2])}; }
  bool holds(Id z, Id y, Id x) const {
    const auto within = [&](int k, Id at) { return at >= begin[k] && at < end[k]; };
    return within(0, z) && within(1, y) && within(2, x);
  }
  template <class F>
  void forward(F&& f) const {
    for (Id z = begin[0]; z < end[0]; ++z)
      for (Id y = begin[1]; y < end[1]; ++y) row(z, y).forward(f);
  }
  template <class F>
  void backward(F&& f) const {
    for (Id z = end[0] - 1; z >= begin[0]; --z)
      for (Id y = end[1] - 1; y >= begin[1]; --y) row(z, y).backward(f);
  }
};

// The slots of pixels that are looked up one after the other: in the order of a row, without a
// division.
class PixelCursor {
 public:
  explicit PixelCursor(const GridShape& grid) : grid_(grid) {}

  Id operator()(std::int64_t pixel) {
    if (pixel < begin_ || pixel >= end_) {
      begin_ = pixel / grid_.size[2] * grid_.size[2];
      end_ = begin_ + grid_.size[2];
      slot_ = grid_.slot(static_cast<Id>(begin_));
    }
    return slot_ + static_cast<Id>(pixel - begin_);
  }

 private:
  const GridShape& grid_;
  std::int64_t begin_ = 0, end_ = 0;  // of the row
  Id slot_ = 0;                       // of its first pixel
};

// The first ends of edges by their numbers, and their directions: likewise.
class EdgeCursor {
 public:
  EdgeCursor(const GridShape& grid, std::span<const Offset> offsets)
      : grid_(grid), offsets_(offsets) {}

  // throws std::out_of_range beyond the last edge
  Arc operator()(std::int64_t edge) {
    if (edge < begin_ || edge >= end_) find(edge);
    return {slot_ + static_cast<Id>(edge - begin_), code_};
  }

 private:
  void find(std::int64_t edge);

  const GridShape& grid_;
  std::span<const Offset> offsets_;
  std::int64_t begin_ = 0, end_ = 0;  // of the run
  Id slot_ = 0, code_ = 0;
};

// Calls f(slot, e, n) for the runs of n edges, numbered e, e + 1, ..., whose first ends are the
// slots slot, slot + 1, ...
template <class F>
void for_runs(const GridShape& grid, const Offset& offset, F&& f) {
  std::array<Id, 3> begin, end;
  for (int k = 0; k < 3; ++k) {
    begin[k] = offset[k] < 0 ? -offset[k] : 0;
    end[k] = grid.size[k] - (offset[k] > 0 ? offset[k] : 0);
  }
  const Id n = end[2] - begin[2];
  if (n <= 0) return;
  std::size_t e = 0;
  for (Id z = begin[0]; z < end[0]; ++z)
    for (Id y = begin[1]; y < end[1]; ++y, e += n) f(grid.slot(z, y, begin[2]), e, n);
}

// Calls f(direction, e, tail, head) for every edge, numbered within its direction, by the slots of
// its ends; ends: tail, head, ... of a list (connectivity 0).
template <class F>
void for_edges(const GridShape& grid, int connectivity, std::span<const Id> ends, F&& f) {
  for (std::size_t e = 0; 2 * e < ends.size(); ++e)
    f(std::size_t{0}, e, ends[2 * e], ends[2 * e + 1]);
  const auto offsets = forward_offsets(connectivity);
  for (std::size_t d = 0; d < offsets.size(); ++d)
    for_runs(grid, offsets[d], [&](Id tail, std::size_t e, Id n) {
      const Id step = grid.step(offsets[d]);
      for (const std::size_t end = e + n; e < end; ++e, ++tail) f(d, e, tail, tail + step);
    });
}

}  // namespace cutlearn
