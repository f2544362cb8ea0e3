// The numbers of an energy of ordered labels, checked, limited and rounded to integers.
//
// Numbers  Every u_t(l) and V(a,b) is rounded once to a multiple of 1 / scale, and all else is
//          integer arithmetic on those: a labelling's value is off by half a quantum for each pixel
//          and each edge whose numbers were rounded. c < 0 within rounding counts as 0; `inexact`
//          counts the quanta of both.
// Far      Where unaries dwarf the tables, a label that costs more above the pixel's best than its
//          tables can ever repay is cut to just that: it is never chosen, and the tables keep their
//          precision. Fixed labels are the same: all others cost that much more.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "energy/input.hpp"

namespace cutlearn {

// The tables of one direction of a grid, or of a list of edges: one for all, or one each.
struct Tables {
  const double* data = nullptr;
  bool each = false;
};

struct OrderedInput {
  Id labels = 2;                        // L
  std::span<const double> unary;        // n x L
  std::vector<std::int64_t> shape;      // of the grid, or the number of nodes
  int connectivity = 0;                 // 0: a list of edges
  std::span<const Id> edges;            // tail, head, tail, head, ...; empty on a grid
  std::vector<Tables> tables;           // L x L each, indexed by the labels of tail and head
  std::span<const std::int16_t> fixed;  // empty, or -1 free, else the label
};

// The first fault of an input; `what` is kNone when there is none.
struct OrderedFault {
  enum What { kNone, kUnary, kTable, kNotSubmodular, kRange } what = kNone;
  std::int64_t index = -1;  // of the unary, or of the edge within its direction
  std::int64_t direction = -1;
  Id a = -1, b = -1;  // the table's entry, or the lower labels of the worst square
  double amount = 0;  // of the worst c(a+1, b+1)
};

struct OrderedTerms {
  explicit OrderedTerms(const OrderedInput& input);

  Id L, pixels;
  OrderedFault fault;
  double scale = 1;
  // Likely every number is a whole number of quanta, and every arc less than 2^30. If a network is
  // inexact at such a scale, the terms are widened and it is built again.
  bool narrow = false;
  std::int64_t inexact = 0;
  double clipped = 0;                  // what fixed and best labels cost above their limited unary
  double clipped_error = 0;            // the rounding of that sum, at most
  std::vector<double> limited, taken;  // unaries after limiting and what it took; empty if nothing
  std::vector<std::size_t> edges;      // their number in each direction
  Id reach = 0;                        // the largest |k - l| with c(k,l) != 0, before rounding

  std::size_t edge_count() const {
    return std::accumulate(edges.begin(), edges.end(), std::size_t{0});
  }
  void widen();

 private:
  std::size_t square() const { return static_cast<std::size_t>(L) * L; }
  void survey(const OrderedInput& input);
  template <Id known>
  void survey_tables(const OrderedInput& input);
  template <Id known>
  double survey_table(const double* V, std::size_t direction, std::size_t edge);
  void limit_unaries(const OrderedInput& input);
  void limit_pixel(double* u, double* taken_here, int label, double room);
  bool seems_narrow(const OrderedInput& input, double scale) const;

  double node_sum_ = 0, edge_sum_ = 0;    // of the absolute values that enter the network
  double node_most_ = 0, edge_most_ = 0;  // the largest sums of a pixel and of an edge
  double wide_ = 1;                       // the scale of numbers that need all bits
};

}  // namespace cutlearn
