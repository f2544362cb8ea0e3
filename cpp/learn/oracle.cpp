#include "learn/oracle.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "energy/engine.hpp"
#include "learn/hull.hpp"

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

template <class T>
void add_difference(const OracleTask& task, std::span<const std::uint8_t> y, double* a) {
  const auto truth = task.truth;
  for (std::size_t i = 0; i < y.size(); ++i)
    if (y[i] != truth[i]) add_row<T>(task.node, i, truth[i] ? 1 : -1, a);
}

template <class T>
void add_edge_difference(const OracleTask& task, std::span<const std::uint8_t> y, double* a) {
  if (!task.edge.rows) return;
  const auto truth = task.truth;
  std::size_t row = 0;
  for_edges(grid_shape(task.shape, false), task.connectivity, task.ends,
            [&](std::size_t, std::size_t, Id u, Id v) {
              const bool wanted = truth[u] != truth[v], found = y[u] != y[v];
              if (wanted != found) add_row<T>(task.edge, row, wanted ? 1 : -1, a);
              ++row;
            });
}

// constant_k + unary_k . y
double piece(const OracleTask& task, std::size_t k, std::span<const std::uint8_t> y) {
  const double* unary = task.unary.data() + k * y.size();
  double sum = task.constant[k];
  for (std::size_t i = 0; i < y.size(); ++i)
    if (y[i]) sum += unary[i];
  return sum;
}

std::int64_t count(const OracleTask& task, std::span<const std::uint8_t> y) {
  std::int64_t s = 0;
  for (std::size_t i = 0; i < y.size(); ++i) s += y[i] && task.counted[i];
  return s;
}

double loss(const OracleTask& task, std::span<const std::uint8_t> y) {
  double least = piece(task, 0, y);
  for (std::size_t k = 1; k < task.constant.size(); ++k) least = std::min(least, piece(task, k, y));
  least += counted_regions(task.regions, y);
  if (!task.table.empty()) least -= task.table[count(task, y)];
  return -least;
}

void write_plane(const OracleTask& task, std::span<const std::uint8_t> y, std::span<double> plane) {
  std::fill(plane.begin(), plane.end(), 0.0);
  double* a = plane.data() + 1;
  task.node.single ? add_difference<float>(task, y, a) : add_difference<double>(task, y, a);
  a += task.node.columns;
  task.edge.single ? add_edge_difference<float>(task, y, a)
                   : add_edge_difference<double>(task, y, a);
  add_region_difference(task.regions, task.truth, y, a + task.edge.columns);
  for (double& x : plane) x *= task.energy_scale;
  plane[0] = task.loss_scale * loss(task, y);
}

double height(std::span<const double> plane, std::span<const double> w) {
  return std::inner_product(w.begin(), w.end(), plane.begin() + 1, plane[0]);
}

Input make_input(const OracleTask& task, std::span<const double> unary, const Regions& regions,
                 const OracleScratch& scratch) {
  Input input;
  input.unary = unary;
  input.regions = regions;
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

// The labels that minimise the energy with these unaries.
std::vector<std::uint8_t> best_labels(const OracleTask& task, std::span<const double> unary,
                                      const Regions& regions, const OracleScratch& scratch) {
  const Input input = make_input(task, unary, regions, scratch);
  Survey s = survey(input);
  // Unaries that dwarf the edges are not clipped: planes compare sums over the whole image, so a
  // quantum of the total is fine enough, and weights w_edge = 0 are common in training.
  s.rest += s.unary;
  if (s.bad_unary >= 0 || s.bad_edge >= 0 || !std::isfinite(s.total()))
    throw std::overflow_error("w makes energies beyond the range of floating point");
  const auto engine = make_engine(input, s);
  engine->solve();
  return {engine->labels().begin(), engine->labels().end()};
}

// Searches the hull of the count for the piece in scratch.shifted; see(y) gives the plane's a . w
// of a labelling, and keeps the labelling when it is the best. `best` is the greatest height so
// far.
template <class See>
void search_counts(const OracleTask& task, std::size_t k, const Regions& regions,
                   OracleScratch& scratch, const double& best, See&& see) {
  const std::size_t n = task.truth.size();
  const double ratio = task.loss_scale / task.energy_scale;
  double lowest = 0;  // best as a value of E - F
  const auto vertex = [&](std::span<const std::uint8_t> y, double mu) -> Vertex {
    const double energy = -see(y) / task.energy_scale +
                          ratio * (piece(task, k, y) + counted_regions(task.regions, y));
    lowest = -best / task.energy_scale;
    return {count(task, y), energy, mu};
  };
  const auto solve = [&](double mu) {
    scratch.tilted = scratch.shifted;
    for (std::size_t i = 0; i < n; ++i)
      if (task.counted[i]) scratch.tilted[i] += mu;
    return vertex(best_labels(task, scratch.tilted, regions, scratch), mu);
  };
  const auto convex = [&](double s) {
    const auto at = std::min(static_cast<std::size_t>(s), task.table.size() - 2);
    const double part = s - static_cast<double>(at);
    return ratio * ((1 - part) * task.table[at] + part * task.table[at + 1]);
  };
  std::vector<std::uint8_t> y(n);
  const auto all = [&](std::uint8_t label, double mu) {
    for (std::size_t i = 0; i < n; ++i)
      y[i] = task.fixed.empty() || task.fixed[i] < 0 ? label
                                                     : static_cast<std::uint8_t>(task.fixed[i]);
    return vertex(y, mu);
  };
  const double infinity = std::numeric_limits<double>::infinity();
  const Vertex none = all(0, infinity), every = all(1, -infinity);
  search_hull(none, every, lowest, convex, solve);
}

}  // namespace

void energy_terms(const OracleTask& task, std::span<const double> w, OracleScratch& scratch) {
  multiply(task.node, w.first(task.node.columns), scratch.unary);
  multiply(task.edge, w.subspan(task.node.columns, task.edge.columns), scratch.weights);
}

void highest_plane(const OracleTask& task, std::span<const double> w, std::span<double> plane,
                   OracleScratch& scratch) {
  energy_terms(task, w, scratch);
  const double ratio = task.loss_scale / task.energy_scale;
  const Regions regions = region_terms(
      task.regions, w.subspan(task.node.columns + task.edge.columns), ratio, scratch.hinges);
  const std::size_t n = scratch.unary.size();
  scratch.shifted.resize(n);
  scratch.row.resize(plane.size());
  double best = -std::numeric_limits<double>::infinity();
  // Keeps the plane of y if it is the highest so far (ties: the first); gives its a . w.
  const auto see = [&](std::span<const std::uint8_t> y) {
    write_plane(task, y, scratch.row);
    const double slope = height(scratch.row, w) - scratch.row[0];
    if (scratch.row[0] + slope > best) {
      best = scratch.row[0] + slope;
      std::copy(scratch.row.begin(), scratch.row.end(), plane.begin());
    }
    return slope;
  };
  for (std::size_t k = 0; k < task.constant.size(); ++k) {
    const double* piece = task.unary.data() + k * n;
    for (std::size_t i = 0; i < n; ++i) scratch.shifted[i] = scratch.unary[i] + ratio * piece[i];
    if (task.table.empty())
      see(best_labels(task, scratch.shifted, regions, scratch));
    else
      search_counts(task, k, regions, scratch, best, see);
  }
}

void highest_planes(std::span<const OracleTask* const> tasks, std::span<const double> w,
                    double* planes, int threads) {
  const std::size_t size = 1 + w.size();
  parallel(
      tasks.size(), threads, [](int) { return OracleScratch(); },
      [&](OracleScratch& scratch, std::size_t i) {
        highest_plane(*tasks[i], w, {planes + i * size, size}, scratch);
      });
}

}  // namespace cutlearn
