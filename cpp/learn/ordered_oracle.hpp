// The oracle of one image with ordered labels: weights w in, the highest plane of its risk at w
// out.
//
// What     E(y; w) = sum_i w_node[y_i] . f_i + sum_e sum_g g_eg T_g[y_i, y_j]; w holds w_node (L x
//          F) and then one table T_g (L x L) for each edge feature. The loss is given as pieces,
//          -Delta(y) = min_k (constant_k + sum_i cost_k[i, y_i]): one cut each
//          (energy/engine.hpp).
// Plane    b + a . w of the labelling found, b = r Delta(y), a = s (psi(y_n) - psi(y)); psi sums f
//          at each label and g at each pair of labels, here over nodes and edges that disagree.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "energy/engine.hpp"
#include "learn/oracle.hpp"

namespace cutlearn {

// What an oracle works on; views, kept alive by the caller.
struct OrderedTask {
  Table node, edge;
  Id labels = 2;
  std::vector<std::int64_t> shape;      // of the grid, or the number of nodes
  int connectivity = 0;                 // 0: a list of edges
  std::span<const Id> ends;             // edges: tail, head, ...; empty on a grid
  std::span<const std::int16_t> fixed;  // empty, or -1 free, else the label
  std::span<const std::uint8_t> truth;
  std::span<const double> constant;  // K
  std::span<const double> cost;      // K x n x L
  double loss_scale = 1, energy_scale = 1;
  std::vector<std::size_t> edges;  // their number in each direction
  std::vector<char> alike;         // directions whose edges all have the same features

  std::size_t weights() const { return labels * node.columns + edge.columns * labels * labels; }
  // Sets `edges` and `alike` from the rest.
  void survey();
};

// Memory that a thread uses again from image to image.
struct OrderedScratch {
  std::vector<double> unary, shifted, row;
  std::vector<std::vector<double>> tables;
};

// The cost of every label at every node and the tables of the edges at w, in scratch.unary and
// scratch.tables.
// requires w.size() == task.weights()
void energy_terms(const OrderedTask& task, std::span<const double> w, OrderedScratch& scratch);

// Writes b, a_1 .. a_d to `plane`.
// requires submodular tables in w, plane.size() == 1 + w.size(), w.size() == task.weights()
// throws std::overflow_error when w makes energies beyond the range of doubles
void highest_plane(const OrderedTask& task, std::span<const double> w, std::span<double> plane,
                   OrderedScratch& scratch);

}  // namespace cutlearn
