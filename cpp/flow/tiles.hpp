// The first search of a large grid: tile by tile, on several threads, then over the seams.
//
// What     The arcs between tiles are closed. In each tile flow is pushed ahead (sweep.hpp) and the
//          trees are searched to the end, in memory that the cache holds; most paths are shorter
//          than a tile. Then the seams are opened again, those inside a row of tiles first, and the
//          search goes on from the trees as after any change.
// Threads  A task is a row of tiles. Every second row goes first, then the others: a look at a
//          neighbour never meets a tile that another thread is in.
// Result   The flow depends on the tiles, the minimum and its minimal source side do not.
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

template <class Net>
class Tiles {
 public:
  static constexpr Id D = Net::directions;
  using R = typename Net::Residual;

  Tiles(Net& net, Maxflow<Net>& flow, const GridShape& grid)
      : net_(net), flow_(flow), grid_(grid), size_(tile_size(grid)) {
    const auto forward = forward_offsets(D);
    for (Id d = 0; d < D; ++d)
      for (int k = 0; k < 3; ++k) offset_[d][k] = d % 2 ? -forward[d / 2][k] : forward[d / 2][k];
  }

  // Whether there are enough tiles to gain by.
  static bool pay(const GridShape& grid) {
    const auto size = tile_size(grid);
    Id tiles = 1;
    for (int k = 0; k < 3; ++k) tiles *= (grid.size[k] + size[k] - 1) / size[k];
    return tiles >= kFew;
  }

  // requires a network that was never solved; a search has to follow (Maxflow::solve)
  // started: whether flow was pushed ahead in another way
  void operator()(int threads, bool started) {
    const bool volume = grid_.size[0] > 1;
    // Lines of a volume are far longer than a tile.
    const bool ahead = started || volume || !many_roots();
    if (ahead) {
      if (!started) push_ahead(net_);
      if (!many_roots()) return;
    }
    flow_.make_trees();
    Rooms<R> rooms(ahead ? 0 : net_.slots);
    rooms_ = ahead ? nullptr : &rooms;
    const int axis = volume ? 0 : 1;  // of the rows of tiles
    rows_.resize((grid_.size[axis] + size_[axis] - 1) / size_[axis]);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      make_tiles(rows_[i], axis, static_cast<Id>(i));
      for (const Box& tile : rows_[i].tiles) close(tile, rows_[i]);
    }
    for (const std::size_t first : {0, 1}) {
      if (first >= rows_.size()) break;
      run((rows_.size() - first + 1) / 2, threads,
          [&](Maxflow<Net>& part, std::size_t i) { solve(part, rows_[2 * i + first]); });
    }
    for (Row& row : rows_) open(flow_, row.outer);
  }

 private:
  // Measured on 2-D grids of 512^2 to 2048^2: tiles of 64 to 256 are alike, those of 128 the best.
  // Checked builds have tiny ones, so that every test and attack meets seams.
  static std::array<Id, 3> tile_size(const GridShape& grid) {
    if constexpr (kChecks) return {1, 2, 3};
    return grid.size[0] > 1 ? std::array<Id, 3>{32, 32, 128} : std::array<Id, 3>{1, 128, 128};
  }
  // Networks of fewer fit the last cache; of nine or twelve tiles they are alike or a twentieth slower.
  static constexpr Id kFew = kChecks ? 8 : 16;

  struct Seam {
    Id v, d;
    R capacity;
  };
  struct Row {
    std::vector<Box> tiles;
    std::vector<Seam> inner, outer;  // to tiles of the same row, and of others
  };

  void make_tiles(Row& row, int axis, Id at) {
    std::array<Id, 3> begin{};
    const auto add = [&] {
      std::array<Id, 3> end;
      for (int k = 0; k < 3; ++k) end[k] = std::min(begin[k] + size_[k], grid_.size[k]);
      row.tiles.push_back({grid_, begin, end});
    };
    begin[axis] = at * size_[axis];
    const int across = axis == 0 ? 1 : 0;  // in a plane there is one tile along it
    for (begin[across] = 0; begin[across] < grid_.size[across]; begin[across] += size_[across])
      for (begin[2] = 0; begin[2] < grid_.size[2]; begin[2] += size_[2]) add();
  }

  // Closes the arcs out of a tile.
  void close(const Box& tile, Row& row) {
    const int axis = grid_.size[0] > 1 ? 0 : 1;
    const auto visit = [&](Id z, Id y, Id x) {
      const Id v = grid_.slot(z, y, x);
      for (Id d = 0; d < D; ++d) {
        const Offset& o = offset_[d];
        R& r = net_.at(v, d);
        if (r == 0 || tile.holds(z + o[0], y + o[1], x + o[2])) continue;
        const Id to = (axis ? y : z) + o[axis];
        const bool inside = to >= tile.begin[axis] && to < tile.end[axis];
        (inside ? row.inner : row.outer).push_back({v, d, r});
        r = 0;
      }
    };
    const auto at_border = [&](int k, Id x) { return x == tile.begin[k] || x == tile.end[k] - 1; };
    for (Id z = tile.begin[0]; z < tile.end[0]; ++z)
      for (Id y = tile.begin[1]; y < tile.end[1]; ++y) {
        const bool all = at_border(1, y) || (grid_.size[0] > 1 && at_border(0, z));
        const Id step = all ? 1 : std::max(1, tile.end[2] - tile.begin[2] - 1);
        for (Id x = tile.begin[2]; x < tile.end[2]; x += step) visit(z, y, x);
      }
  }

  void open(Maxflow<Net>& flow, const std::vector<Seam>& seams) {
    for (const auto& [v, d, capacity] : seams) net_.at(v, d) += capacity;
    for (const auto& [v, d, capacity] : seams) flow.wake(v, v + net_.offset[d]);
  }

  // Where few nodes have an excess or a deficit, paths are long and cross the seams: 25 % are left
  // with seeds in a volume, hardly any with strokes alone, else 64 to 86 %.
  bool many_roots() {
    constexpr Id kStep = 17;  // one in so many tells
    std::int64_t roots = 0;
    for (Id v = net_.begin(); v < net_.end() - kStep; v += kStep) roots += net_.excess[v] != 0;
    return 2 * kStep * roots > grid_.pixels();
  }

  void solve(Maxflow<Net>& part, Row& row) {
    for (const Box& tile : row.tiles) {
      if (rooms_) {
        part.add_flow(push_directly<D>(net_, tile));
        part.add_flow(Sweep<Net, Box, 0, kLines<Net>>{net_, tile, *rooms_}());
      }
      part.plant(tile);
      part.search();
    }
    open(part, row.inner);
    part.search();
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
  const GridShape& grid_;
  std::array<Id, 3> size_;
  std::array<Offset, (D ? D : 1)> offset_{};
  std::vector<Row> rows_;
  Rooms<R>* rooms_ = nullptr;
};

}  // namespace cutlearn
