// What the bindings of the core share: arrays in as views, arrays out with an owner, and the checks
// that keep every index and length within them. Whatever Python passes is checked here or in the
// function that takes it, once; the folders behind trust it.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "flow/grid.hpp"
#include "learn/oracle.hpp"
#include "run/interrupt.hpp"
#include "run/pool.hpp"

namespace cutlearn {

namespace nb = nanobind;

template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<nb::numpy, T, nb::c_contig>;
using AnyTable = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> view(const In<T>& array) {
  return {array.data(), array.size()};
}

// throws std::invalid_argument unless it holds
inline void need(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

// The number of entries of an array of this shape.
template <class T>
std::size_t entries(const std::vector<T>& shape) {
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()) / 8;
  std::size_t count = 1;
  for (const T n : shape) {
    need(n >= 0, "a shape has a negative length");
    const auto size = static_cast<std::size_t>(n);
    need(size == 0 || count <= kMost / size, "a shape has too many entries");
    count *= size;
  }
  return count;
}

// Whether low <= values <= high.
template <class T>
bool all_within(std::span<const T> values, std::int64_t low, std::int64_t high) {
  std::int64_t least = high, most = low;
  for (const T x : values) {  // no branch: it is walked many numbers at a time
    least = std::min<std::int64_t>(least, x);
    most = std::max<std::int64_t>(most, x);
  }
  return values.empty() || (least >= low && most <= high);
}

// Whether these are the offsets of lists that have `size` entries together.
inline bool are_offsets(std::span<const std::int64_t> first, std::size_t size) {
  return !first.empty() && first.front() == 0 && first.back() == static_cast<std::int64_t>(size) &&
         std::is_sorted(first.begin(), first.end());
}

// The nodes of a grid, or of a list of edges, and the edges of every direction, or of the list.
struct Graph {
  std::size_t nodes = 0;
  std::vector<std::size_t> edges;

  std::size_t edge_count() const {
    return std::accumulate(edges.begin(), edges.end(), std::size_t{0});
  }
};

// connectivity: 0 for a list, whose shape is the number of nodes; ends: tail, head, ... of the list
// throws std::invalid_argument unless the shape has that connectivity and all ends are nodes
inline Graph graph_of(const std::vector<std::int64_t>& shape, int connectivity,
                      std::span<const Id> ends) {
  const std::size_t nodes = entries(shape);
  const GridShape grid = grid_shape(shape, true);
  if (connectivity == 0) {
    need(shape.size() == 1, "a list of edges needs the number of nodes as its shape");
    need(ends.size() % 2 == 0 && all_within(ends, 0, static_cast<std::int64_t>(nodes) - 1),
         "edges must be pairs of nodes");
  } else {
    need(!forward_offsets(connectivity).empty() &&
             shape.size() == (connectivity == 4 || connectivity == 8 ? 2 : 3),
         "connectivity must be 4 or 8 for two dimensions, 6, 10, 18 or 26 for three");
    need(ends.empty(), "a grid takes no list of edges");
  }
  return {nodes, edge_counts(grid, connectivity, ends)};
}

inline void check_labels(Id labels) {
  need(labels >= 2 && labels <= 255, "labels must be 2 to 255");  // a label is a byte
}

template <class T>
Out<T> owned(std::vector<T> values, std::vector<std::size_t> shape) {
  need(entries(shape) == values.size(), "shape has another number of entries than the answer");
  auto* data = new std::vector<T>(std::move(values));
  nb::capsule owner(data, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Out<T>(data->data(), shape.size(), shape.data(), owner);
}

// An array whose numbers are not set, in memory that the next one takes over (run/pool.hpp).
inline Out<double> room(std::vector<std::size_t> shape) {
  const std::size_t size = entries(shape);
  auto* data = new PooledVector<double>();
  nb::capsule owner(data, [](void* p) noexcept { delete static_cast<PooledVector<double>*>(p); });
  data->reserve(size);
  return Out<double>(data->data(), shape.size(), shape.data(), owner);
}

// Long work that needs no interpreter. Other threads of Python run meanwhile, and a signal such
// as Ctrl-C ends it with the exception of the signal's handler.
template <class F>
auto without_interpreter(F&& work) {
  const StopCheck signalled = [] {
    const nb::gil_scoped_acquire interpreter;
    return PyErr_CheckSignals() != 0;  // the exception stays pending in this thread
  };
  try {
    const nb::gil_scoped_release release;
    const StopScope scope(signalled);
    return work();
  } catch (const Interrupted&) {
    throw nb::python_error();
  }
}

// Features in single or double precision.
inline Table table(const AnyTable& array) {
  const bool single = array.dtype() == nb::dtype<float>();
  if (!single && array.dtype() != nb::dtype<double>())
    throw std::invalid_argument("features must be float32 or float64");
  return {array.data(), single, array.shape(0), array.shape(1)};
}

// A row of features for each node, and for each edge; a grid may come without those.
inline void check_features(const Graph& graph, int connectivity, const Table& node,
                           const Table& edge) {
  need(node.rows == graph.nodes, "node features must have a row for each node");
  need(edge.rows == graph.edge_count() || (connectivity && edge.rows == 0 && edge.columns == 0),
       "edge features must have a row for each edge");
}

}  // namespace cutlearn
