// The first search of a large grid: part by part, on several threads, then over the seams.
//
// What     The arcs between parts are closed. In each part flow is pushed ahead (sweep.hpp) and the
//          trees are searched to the end, in memory that the cache holds; most paths are shorter
//          than a part. Then the seams are opened again, those inside a row of parts first, and the
//          search resumes from the trees as after any change.
// Parts    Tiles of an image or a volume whose pixels have one node each (`search_tiles`). Bands of
//          whole rows where they have several (`search_bands`): their nodes follow each other in
//          memory, so the slots alone show which arcs lead out of a band.
// Threads  A task is a row of parts. Every second row goes first, then the others: a search that
//          reads a neighbour never meets a part that another thread is in.
// Result   The flow depends on the parts, the minimum and its minimal source side do not.
#pragma once

#include <algorithm>
#include <array>
#include <exception>
#include <vector>

#include "flow/checks.hpp"
#include "flow/grid.hpp"
#include "flow/maxflow.hpp"
#include "flow/sweep.hpp"
#include "run/parallel.hpp"

namespace cutlearn {

// Parts are ranges of slots (Run or Box). Flow is pushed over the directions below `direct`, and
// along the lines of first .. last - 1.
template <class Net, class Range, Id direct, Id first, Id last>
class Partition {
 public:
  using R = typename Net::Residual;

  Partition(Net& net, Maxflow<Net>& flow) : net_(net), flow_(flow) {}

  // Adds a row of parts. `each_exit(part, exit)` calls exit(v, d, inner) for the arcs that lead out
  // of the part, to one of the same row where `inner`; they are closed.
  template <class EachExit>
  void add(std::vector<Range> parts, EachExit&& each_exit) {
    Row& row = rows_.emplace_back();
    row.parts = std::move(parts);
    for (const Range& part : row.parts)
      each_exit(part, [&](Id v, Id d, bool inner) {
        R& r = net_.at(v, d);
        if (r == 0) return;
        (inner ? row.inner : row.outer).push_back({v, d, r});
        r = 0;
      });
  }

  // requires a network that was never solved; a search has to follow (Maxflow::solve)
  // pushed: whether flow was pushed ahead already
  void search(int threads, bool pushed) {
    flow_.make_trees();
    Rooms<R> rooms(pushed ? 0 : net_.slots);
    for (const std::size_t offset : {0, 1})
      run((rows_.size() + 1 - offset) / 2, threads, [&](Maxflow<Net>& part, std::size_t i) {
        search_row(part, rows_[2 * i + offset], pushed ? nullptr : &rooms);
      });
    for (const Row& row : rows_) open(flow_, row.outer);
  }

 private:
  struct Seam {
    Id v, d;
    R capacity;
  };
  struct Row {
    std::vector<Range> parts;
    std::vector<Seam> inner, outer;
  };

  void search_row(Maxflow<Net>& search, const Row& row, Rooms<R>* rooms) {
    for (const Range& part : row.parts) {
      if (rooms) {
        search.add_flow(push_directly<direct>(net_, part));
        search.add_flow(Sweep<Net, Range, first, last>{net_, part, *rooms}());
      }
      search.plant(part);
      search.search();
    }
    open(search, row.inner);
    search.search();
  }

  void open(Maxflow<Net>& search, const std::vector<Seam>& seams) {
    for (const auto& [v, d, capacity] : seams) net_.at(v, d) += capacity;
    for (const auto& [v, d, capacity] : seams) search.wake(v, net_.neighbour(v, d));
  }

  // Each thread has a search of its own; in the end all are absorbed.
  template <class Work>
  void run(std::size_t tasks, int threads, Work&& work) {
    std::vector<Maxflow<Net>> parts;
    const int most = useful_threads(threads, tasks);
    for (int t = 0; t < most; ++t) parts.push_back(flow_.part());
    try {
      parallel(
          tasks, most, [&](int thread) { return &parts[thread]; },
          [&](Maxflow<Net>* part, std::size_t i) { work(*part, i); });
    } catch (const TaskFailure& failure) {
      std::rethrow_exception(failure.cause);
    }
    for (Maxflow<Net>& part : parts) flow_.absorb(part);
  }

  Net& net_;
  Maxflow<Net>& flow_;
  std::vector<Row> rows_;
};

// Measured on 2-D grids of 512^2 to 2048^2: tiles of 64 to 256 are alike, those of 128 the best.
// Checked builds have tiny ones, so that every test and attack meets seams.
inline std::array<Id, 3> tile_size(const GridShape& grid) {
  if constexpr (kChecks) return {1, 2, 3};
  return grid.size[0] > 1 ? std::array<Id, 3>{32, 32, 128} : std::array<Id, 3>{1, 128, 128};
}

// Whether there are enough tiles to gain by: networks of fewer than 16 fit the last cache; of nine
// or twelve tiles they are alike or a twentieth slower.
inline bool tiles_pay(const GridShape& grid) {
  const auto size = tile_size(grid);
  Id tiles = 1;
  for (int k = 0; k < 3; ++k) tiles *= (grid.size[k] + size[k] - 1) / size[k];
  return tiles >= (kChecks ? 8 : 16);
}

// Where few nodes have an excess or a deficit, paths are long and cross the seams: 25 % are left
// with seeds in a volume, hardly any with strokes alone, else 64 to 86 %.
template <class Net>
bool has_many_roots(const Net& net, const GridShape& grid) {
  constexpr Id kStep = 17;  // a sample
  std::int64_t roots = 0;
  for (Id v = net.begin(); v < net.end() - kStep; v += kStep) roots += net.excess[v] != 0;
  return 2 * kStep * roots > grid.pixels();
}

// requires a network that was never solved; a search has to follow (Maxflow::solve)
// pushed: whether flow was pushed ahead in another way
template <class Net>
void search_tiles(Net& net, Maxflow<Net>& flow, const GridShape& grid, int threads, bool pushed) {
  const bool volume = grid.size[0] > 1;
  if (!pushed && (volume || !has_many_roots(net, grid))) {
    push_ahead(net);  // lines of a volume are far longer than a tile
    pushed = true;
  }
  if (pushed && !has_many_roots(net, grid)) return;
  const std::vector<Offset> offsets = all_offsets(Net::directions);
  const auto size = tile_size(grid);
  const int axis = volume ? 0 : 1, across = volume ? 1 : 0;  // of the rows of tiles, within a row
  const auto each_exit = [&](const Box& tile, auto&& exit) {
    const auto visit = [&](Id z, Id y, Id x) {
      const Id v = grid.slot(z, y, x);
      for (Id d = 0; d < Net::directions; ++d) {
        const Offset& o = offsets[d];
        if (tile.holds(z + o[0], y + o[1], x + o[2])) continue;
        const Id to = (volume ? z : y) + o[axis];
        exit(v, d, to >= tile.begin[axis] && to < tile.end[axis]);
      }
    };
    const auto at_border = [&](int k, Id x) { return x == tile.begin[k] || x == tile.end[k] - 1; };
    for (Id z = tile.begin[0]; z < tile.end[0]; ++z)
      for (Id y = tile.begin[1]; y < tile.end[1]; ++y) {
        const bool all = at_border(1, y) || (volume && at_border(0, z));
        const Id step = all ? 1 : std::max(1, tile.end[2] - tile.begin[2] - 1);
        for (Id x = tile.begin[2]; x < tile.end[2]; x += step) visit(z, y, x);
      }
  };
  Partition<Net, Box, Net::directions, 0, kLines<Net>> partition(net, flow);
  std::array<Id, 3> begin{};
  for (begin[axis] = 0; begin[axis] < grid.size[axis]; begin[axis] += size[axis]) {
    std::vector<Box> tiles;
    for (begin[across] = 0; begin[across] < grid.size[across]; begin[across] += size[across])
      for (begin[2] = 0; begin[2] < grid.size[2]; begin[2] += size[2]) {
        std::array<Id, 3> end;
        for (int k = 0; k < 3; ++k) end[k] = std::min(begin[k] + size[k], grid.size[k]);
        tiles.push_back({grid, begin, end});
      }
    partition.add(std::move(tiles), each_exit);
  }
  partition.search(threads, pushed);
}

// Likewise; row: the slots of a row of the image, padding included. Flow is pushed along the
// directions first .. last - 1.
template <Id first, Id last, class Net>
void search_bands(Net& net, Maxflow<Net>& flow, Id row, int threads) {
  constexpr Id kNode = Net::directions * sizeof(typename Net::Residual) + 14;  // bytes it touches
  const Id height = kChecks ? 2 * row : std::max<Id>((1 << 21) / (row * kNode), 8) * row;
  Id reach = 0;
  for (const Id offset : net.offset) reach = std::max(reach, offset);
  const auto each_exit = [&](const Run& band, auto&& exit) {
    const auto visit = [&](Id v) {
      for (Id d = 0; d < Net::directions; ++d)
        if (const Id w = net.neighbour(v, d); w < band.first || w >= band.last) exit(v, d, false);
    };
    const Id top = std::min(band.first + reach, band.last);
    for (Id v = band.first; v < top; ++v) visit(v);
    for (Id v = std::max(top, band.last - reach); v < band.last; ++v) visit(v);
  };
  Partition<Net, Run, last, first, last> partition(net, flow);
  for (Id v = net.begin(); v < net.end(); v += height)
    partition.add({{v, std::min(v + height, net.end())}}, each_exit);
  partition.search(threads, false);
}

}  // namespace cutlearn
