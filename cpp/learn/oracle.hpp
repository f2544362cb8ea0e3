// One image under one model: weights w in; out come the terms of its energy, for prediction, and
// the highest plane of its risk, for training.
//
// What     E(y; w) = sum_i y_i (w_node . f_i) + sum_e [y_i != y_j] (w_edge . g_e) + envelopes of
//          regions (learn/regions.hpp). The loss is given as
//            -Delta(y) = min_k (constant_k + unary_k . y) + sum_c psi_c(s_c) - f(s),
//          psi_c concave in a region's count, f convex in the image's. So
//            max_y  r Delta(y) - s (E(y; w) - E(y_n; w))
//          is the best of one cut for each piece k, with unaries w_node . f_i + r/s unary_ki and
//          the psi_c beside the envelopes, or of several where there is an f (learn/hull.hpp). The
//          plane of the labelling found is b + a . w, b = r Delta(y), a = s (psi(y_n) - psi(y)).
// Sums     a is summed over the nodes and edges where y and y_n disagree, in their order: short
//          near the optimum, without cancellation, and a function of y alone.
// State    None: every call builds its network anew and resumes only from piece to piece. When w
//          changes, every capacity does, and following all of them costs more than building
//          (measured in benchmarks/training.py); nothing is kept for an image between calls.
// So planes depend on w and the image only: the same bits for any number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "energy/input.hpp"
#include "learn/regions.hpp"
#include "run/parallel.hpp"

namespace cutlearn {

// A row-major table of features in single or double precision.
struct Table {
  const void* data = nullptr;
  bool single = false;
  std::size_t rows = 0, columns = 0;
};

// What an oracle works on; views, kept alive by the caller. Terms need no loss.
struct OracleTask {
  Table node, edge;
  std::vector<std::int64_t> shape;     // of the grid, or the number of nodes
  int connectivity = 0;                // 0: a list of edges
  std::span<const Id> ends;            // edges: tail, head, tail, head, ...; empty on a grid
  std::span<const std::int8_t> fixed;  // empty, or -1 free, else the label
  std::span<const std::uint8_t> truth;
  std::span<const double> constant;  // K
  std::span<const double> unary;     // K x n
  OracleRegions regions;
  std::span<const double> table;          // empty, or f(0) .. f(number of counted nodes)
  std::span<const std::uint8_t> counted;  // empty, or 1 where the table counts a node

  std::size_t weights() const { return node.columns + edge.columns + regions.weights(); }
  double loss_scale = 1, energy_scale = 1;
};

// Memory that a thread uses again from image to image.
struct OracleScratch {
  std::vector<double> unary, shifted, tilted, weights, row;
  Hinges hinges;
};

// The unaries and the weights of the edges at w, in scratch.unary and scratch.weights.
// requires w.size() == task.weights()
void energy_terms(const OracleTask& task, std::span<const double> w, OracleScratch& scratch);

// Writes b, a_1 .. a_d to `plane`.
// requires a loss, w_edge >= 0, plane.size() == 1 + w.size(), w.size() == task.weights()
// throws std::overflow_error when w makes energies beyond the range of doubles
void highest_plane(const OracleTask& task, std::span<const double> w, std::span<double> plane,
                   OracleScratch& scratch);

// planes[i] for every task, on so many threads.
// throws TaskFailure
void highest_planes(std::span<const OracleTask* const> tasks, std::span<const double> w,
                    double* planes, int threads);

}  // namespace cutlearn
