#include "oracle.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "engine.hpp"

namespace cutlearn {

namespace {

// out_i = w . row_i, each sum in the order of the columns
template <class T>
void multiply(const Table& table, std::span<const double> w, std::vector<double>& out) {
  out.resize(table.rows);
  const T* row = static_cast<const T*>(table.data);
  for (std::size_t i = 0; i < table.rows; ++i, row += table.columns) {
    double sum = 0;
    for (std::size_t c = 0; c < table.columns; ++c) sum += static_cast<double>(row[c]) * w[c];
    out[i] = sum;
  }
}

void multiply(const Table& table, std::span<const double> w, std::vector<double>& out) {
  table.single ? multiply<float>(table, w, out) : multiply<double>(table, w, out);
}

// sum += sign * row_i
template <class T>
void add_row(const Table& table, std::size_t i, double sign, double* sum) {
  const T* row = static_cast<const T*>(table.data) + i * table.columns;
  for (std::size_t c = 0; c < table.columns; ++c) sum[c] += sign * static_cast<double>(row[c]);
}

// Calls f(e, tail, head) for every edge in the order of the features.
template <class F>
void for_edges(const OracleTask& task, F&& f) {
  if (!task.connectivity) {
    for (std::size_t e = 0; 2 * e < task.ends.size(); ++e)
      f(e, task.ends[2 * e], task.ends[2 * e + 1]);
    return;
  }
  if (!task.edge.rows) return;
  const GridShape grid = grid_shape(task.shape, false);  // slots are pixels
  std::size_t before = 0;
  for (const Offset& o : forward_offsets(task.connectivity)) {
    const Id step = o[0] * grid.stride[0] + o[1] * grid.stride[1] + o[2];
    std::size_t last = before;
    for_runs(grid, o, [&](Id slot, std::size_t e, Id n) {
      for (Id j = 0; j < n; ++j) f(before + e + j, slot + j, slot + j + step);
      last = before + e + n;
    });
    before = last;
  }
}

template <class T>
void add_difference(const OracleTask& task, std::span<const std::uint8_t> y, double* a) {
  const auto truth = task.truth;
  for (std::size_t i = 0; i < y.size(); ++i)
    if (y[i] != truth[i]) add_row<T>(task.node, i, truth[i] ? 1 : -1, a);
}

template <class T>
void add_edge_difference(const OracleTask& task, std::span<const std::uint8_t> y, double* a) {
  const auto truth = task.truth;
  for_edges(task, [&](std::size_t e, Id u, Id v) {
    const bool wanted = truth[u] != truth[v], found = y[u] != y[v];
    if (wanted != found) add_row<T>(task.edge, e, wanted ? 1 : -1, a);
  });
}

double loss(const OracleTask& task, std::span<const std::uint8_t> y) {
  double least = 0;
  for (std::size_t k = 0; k < task.constant.size(); ++k) {
    const double* unary = task.unary.data() + k * y.size();
    double sum = task.constant[k];
    for (std::size_t i = 0; i < y.size(); ++i)
      if (y[i]) sum += unary[i];
    least = k ? std::min(least, sum) : sum;
  }
  return -least;
}

void write_plane(const OracleTask& task, std::span<const std::uint8_t> y, std::span<double> plane) {
  std::fill(plane.begin(), plane.end(), 0.0);
  double* a = plane.data() + 1;
  task.node.single ? add_difference<float>(task, y, a) : add_difference<double>(task, y, a);
  double* edge = a + task.node.columns;
  task.edge.single ? add_edge_difference<float>(task, y, edge)
                   : add_edge_difference<double>(task, y, edge);
  for (double& x : plane) x *= task.energy_scale;
  plane[0] = task.loss_scale * loss(task, y);
}

double height(std::span<const double> plane, std::span<const double> w) {
  return std::inner_product(w.begin(), w.end(), plane.begin() + 1, plane[0]);
}

Input make_input(const OracleTask& task, const OracleScratch& scratch) {
  Input input;
  input.unary = scratch.shifted;
  input.shape = task.shape;
  input.connectivity = task.connectivity;
  input.edges = task.ends;
  input.fixed = task.fixed;
  static constexpr double kNothing = 0;
  if (!task.connectivity) {
    input.weights.push_back({Weights::kSymmetric, scratch.weights.data()});
    return input;
  }
  const GridShape grid = grid_shape(task.shape, false);
  std::size_t before = 0;
  for (const Offset& o : forward_offsets(task.connectivity)) {
    if (task.edge.rows)
      input.weights.push_back({Weights::kSymmetric, scratch.weights.data() + before});
    else
      input.weights.push_back({Weights::kScalar, &kNothing});
    for_runs(grid, o, [&](Id, std::size_t, Id n) { before += n; });
  }
  return input;
}

std::unique_ptr<Engine> build(const OracleTask& task, const OracleScratch& scratch) {
  const Input input = make_input(task, scratch);
  Survey s = survey(input);
  // Unaries that dwarf the edges are not clipped: planes compare sums over the whole image, so a
  // quantum of the total is fine enough, and weights w_edge = 0 are common in training.
  s.rest += s.unary;
  if (s.bad_unary >= 0 || s.bad_edge >= 0 || !std::isfinite(s.total()))
    throw std::overflow_error("w makes energies beyond the range of floating point");
  return make_engine(input, s);
}

}  // namespace

void highest_plane(const OracleTask& task, std::span<const double> w, std::span<double> plane,
                   OracleScratch& scratch) {
  multiply(task.node, w.first(task.node.columns), scratch.unary);
  multiply(task.edge, w.subspan(task.node.columns), scratch.weights);
  const std::size_t n = scratch.unary.size();
  const double ratio = task.loss_scale / task.energy_scale;
  scratch.shifted.resize(n);
  scratch.row.resize(plane.size());
  for (std::size_t k = 0; k < task.constant.size(); ++k) {
    const double* piece = task.unary.data() + k * n;
    for (std::size_t i = 0; i < n; ++i) scratch.shifted[i] = scratch.unary[i] + ratio * piece[i];
    const auto engine = build(task, scratch);
    engine->solve();
    // Ties between pieces: the lowest index.
    if (k == 0) {
      write_plane(task, engine->labels(), plane);
      continue;
    }
    write_plane(task, engine->labels(), scratch.row);
    if (height(scratch.row, w) > height(plane, w))
      std::copy(scratch.row.begin(), scratch.row.end(), plane.begin());
  }
}

void oracle_round(std::span<const OracleTask* const> tasks, std::span<const double> w,
                  double* planes, int threads) {
  const std::size_t size = 1 + w.size();
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex lock;
  const auto work = [&] {
    OracleScratch scratch;
    for (std::size_t i; (i = next++) < tasks.size();) {
      try {
        highest_plane(*tasks[i], w, {planes + i * size, size}, scratch);
      } catch (...) {
        const std::lock_guard guard(lock);
        if (!failure) failure = std::current_exception();
        next = tasks.size();
      }
    }
  };
  std::vector<std::thread> others;
  const auto wanted = std::min<std::size_t>(static_cast<std::size_t>(threads), tasks.size());
  for (std::size_t t = 1; t < wanted; ++t) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace cutlearn
