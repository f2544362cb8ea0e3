#include "learn/ordered_oracle.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace cutlearn {

namespace {

// Calls f with the rows of a table as pointers of their type.
template <class F>
void with_rows(const Table& table, F&& f) {
  table.single ? f(static_cast<const float*>(table.data))
               : f(static_cast<const double*>(table.data));
}

OrderedInput make_input(const OrderedTask& task) {
  OrderedInput input;
  input.labels = task.labels;
  input.shape = task.shape;
  input.connectivity = task.connectivity;
  input.edges = task.ends;
  input.fixed = task.fixed;
  return input;
}

// unary[i L + l] = w_node[l] . f_i
void add_nodes(const OrderedTask& task, std::span<const double> w, std::vector<double>& unary) {
  const std::size_t L = task.labels, F = task.node.columns;
  unary.assign(task.node.rows * L, 0);
  with_rows(task.node, [&](const auto* f) {
    for (std::size_t i = 0; i < task.node.rows; ++i, f += F)
      for (std::size_t l = 0; l < L; ++l)
        for (std::size_t c = 0; c < F; ++c)
          unary[i * L + l] += static_cast<double>(f[c]) * w[l * F + c];
  });
}

// The table of every edge, sum_g g_eg T_g; one for a direction whose edges are alike.
void mix_tables(const OrderedTask& task, std::span<const double> w, OrderedScratch& scratch) {
  const std::size_t square = static_cast<std::size_t>(task.labels) * task.labels;
  const double* T = w.data() + task.labels * task.node.columns;
  const std::size_t G = task.edge.columns;
  scratch.tables.resize(task.edges.size());
  std::size_t before = 0;
  for (std::size_t d = 0; d < task.edges.size(); ++d) {
    const std::size_t count = task.alike[d] ? 1 : task.edges[d];
    scratch.tables[d].assign(count * square, 0);
    double* out = scratch.tables[d].data();
    if (task.edge.rows && task.edges[d])
      with_rows(task.edge, [&](const auto* rows) {
        for (std::size_t e = 0; e < count; ++e)
          for (std::size_t g = 0; g < G; ++g)
            if (const auto weight = static_cast<double>(rows[(before + e) * G + g]); weight != 0)
              for (std::size_t i = 0; i < square; ++i)
                out[e * square + i] += weight * T[g * square + i];
      });
    before += task.edges[d];
  }
}

double loss(const OrderedTask& task, std::span<const std::uint8_t> y) {
  double least = 0;
  for (std::size_t k = 0; k < task.constant.size(); ++k) {
    const double* cost = task.cost.data() + k * y.size() * task.labels;
    double sum = task.constant[k];
    for (std::size_t i = 0; i < y.size(); ++i) sum += cost[i * task.labels + y[i]];
    least = k ? std::min(least, sum) : sum;
  }
  return 0.0 - least;  // never -0
}

void write_plane(const OrderedTask& task, std::span<const std::uint8_t> y,
                 std::span<double> plane) {
  const auto truth = task.truth;
  const std::size_t L = task.labels, F = task.node.columns, G = task.edge.columns;
  std::fill(plane.begin(), plane.end(), 0.0);
  double* node = plane.data() + 1;
  with_rows(task.node, [&](const auto* f) {
    for (std::size_t i = 0; i < y.size(); ++i, f += F)
      if (y[i] != truth[i])
        for (std::size_t c = 0; c < F; ++c) {
          node[truth[i] * F + c] += static_cast<double>(f[c]);
          node[y[i] * F + c] -= static_cast<double>(f[c]);
        }
  });
  double* table = node + L * F;
  if (task.edge.rows)
    with_rows(task.edge, [&](const auto* g) {
      const auto add = [&](std::size_t, std::size_t, Id u, Id v) {
        const std::size_t wanted = truth[u] * L + truth[v], found = y[u] * L + y[v];
        if (wanted != found)
          for (std::size_t c = 0; c < G; ++c) {
            table[c * L * L + wanted] += static_cast<double>(g[c]);
            table[c * L * L + found] -= static_cast<double>(g[c]);
          }
        g += G;
      };
      for_edges(grid_shape(task.shape, false), task.connectivity, task.ends, add);
    });
  for (double& x : plane) x *= task.energy_scale;
  plane[0] = task.loss_scale * loss(task, y);
}

double height(std::span<const double> plane, std::span<const double> w) {
  return std::inner_product(w.begin(), w.end(), plane.begin() + 1, plane[0]);
}

}  // namespace

void OrderedTask::survey() {
  alike.clear();
  edges = edge_counts(grid_shape(shape, false), connectivity, ends);
  std::size_t before = 0;
  for (const std::size_t count : edges) {
    bool same = true;
    if (edge.rows)
      with_rows(edge, [&](const auto* rows) {
        const auto* first = rows + before * edge.columns;
        for (std::size_t e = 1; e < count && same; ++e)
          same = std::equal(first, first + edge.columns, first + e * edge.columns);
      });
    alike.push_back(same);
    before += count;
  }
}

void energy_terms(const OrderedTask& task, std::span<const double> w, OrderedScratch& scratch) {
  add_nodes(task, w, scratch.unary);
  mix_tables(task, w, scratch);
}

void highest_plane(const OrderedTask& task, std::span<const double> w, std::span<double> plane,
                   OrderedScratch& scratch) {
  energy_terms(task, w, scratch);
  OrderedInput input = make_input(task);
  for (std::size_t d = 0; d < task.edges.size(); ++d)
    input.tables.push_back({scratch.tables[d].data(), !task.alike[d]});
  const std::size_t size = scratch.unary.size();
  const double ratio = task.loss_scale / task.energy_scale;
  scratch.shifted.resize(size);
  scratch.row.resize(plane.size());
  for (std::size_t k = 0; k < task.constant.size(); ++k) {
    const double* piece = task.cost.data() + k * size;
    for (std::size_t i = 0; i < size; ++i) scratch.shifted[i] = scratch.unary[i] + ratio * piece[i];
    input.unary = scratch.shifted;
    OrderedTerms terms(input);
    if (terms.fault.what == OrderedFault::kNotSubmodular)
      throw std::invalid_argument("w makes tables that are not submodular");
    if (terms.fault.what != OrderedFault::kNone)
      throw std::overflow_error("w makes energies beyond the range of floating point");
    const auto flow = make_ordered(input, std::move(terms));
    flow->solve();
    // Ties between pieces: the lowest index.
    const std::span<double> out = k ? std::span<double>(scratch.row) : plane;
    write_plane(task, flow->labels(), out);
    if (k && height(scratch.row, w) > height(plane, w))
      std::copy(scratch.row.begin(), scratch.row.end(), plane.begin());
  }
}

}  // namespace cutlearn
