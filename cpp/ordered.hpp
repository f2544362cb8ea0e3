// Ordered labels as one cut: y_t in 0..L-1 as L - 1 binary nodes x_tk = [y_t >= k], k = 1..L-1.
//
//   E(y) = sum_t u_t(y_t) + sum_e V_e(y_i, y_j)
//
// Tables   With c(k,l) = V(k-1,l) + V(k,l-1) - V(k-1,l-1) - V(k,l) >= 0 (submodular),
//            V(a,b) = V(0,0) + sum_{k<=a} [V(k,0) - V(k-1,0)] + sum_{l<=b} [V(0,l) - V(0,l-1)]
//                   - sum_{k<=a, l<=b} c(k,l),
//          and -c x_k x'_l is an arc plus a unary, in either direction. Arcs of k != l point from
//          the higher to the lower threshold: they are cut only where labels jump, so hardly any
//          flow needs them (2.5 times faster than arcs of half the size both ways). Arcs of k = l
//          are split in halves. A zero capacity makes no arc.
// Order    x_t(k+1) <= x_tk by an arc from k+1 to k that carries more than all terms of the pixel:
//          never cut, also when some nodes of the pixel are forced.
// Numbers  Every u_t(l) and V(a,b) is rounded once to a multiple of 1 / scale, and all else is integer
//          arithmetic on those: a labelling's value is off by half a quantum for each pixel and
//          each edge whose numbers were rounded. c < 0 within rounding counts as 0; `inexact` counts
//          the quanta of both.
// Far      Where unaries dwarf the tables, a label that costs more above the pixel's best than its
//          tables can ever repay is cut to just that: it is never chosen, and the tables keep their
//          precision. Fixed labels are the same: all others cost that much more.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "maxflow.hpp"
#include "network.hpp"

namespace cutlearn {

// The tables of one direction of a grid, or of a list of edges: one for all, or one each.
struct Tables {
  const double* data = nullptr;
  bool each = false;
};

struct OrderedInput {
  Id labels = 2;                       // L
  std::span<const double> unary;       // n x L
  std::vector<std::int64_t> shape;     // of the grid, or the number of nodes
  int connectivity = 0;                // 0: a list of edges
  std::span<const Id> edges;           // tail, head, tail, head, ...; empty on a grid
  std::vector<Tables> tables;          // L x L each, indexed by the labels of tail and head
  std::span<const std::int16_t> fixed; // empty, or -1 free, else the label
};

// The first fault of an input; `what` is kNone when there is none.
struct OrderedFault {
  enum What { kNone, kUnary, kTable, kNotSubmodular, kRange } what = kNone;
  std::int64_t index = -1;      // of the unary, or of the edge within its direction
  std::int64_t direction = -1;
  Id a = -1, b = -1;            // the table's entry, or the lower labels of the worst square
  double amount = 0;            // of the worst c(a+1, b+1)
};

class Ordered {
 public:
  // requires shapes that fit each other, and fewer than 2^31 binary nodes and arcs
  explicit Ordered(const OrderedInput& input);
  Ordered(const Ordered&) = delete;

  const OrderedFault& fault() const { return fault_; }
  // The rest requires that there is no fault.
  void solve();
  std::span<const std::uint8_t> labels() const { return labels_; }
  Cap minimum() const { return net_.K; }
  double scale() const { return scale_; }
  std::int64_t inexact() const { return inexact_; }
  double beyond() const { return beyond_; }  // what fixed labels cost beyond the cut
  bool beyond_exactly() const { return beyond_exactly_; }
  // least[t L + l] = least energy with pixel t at label l, infinite against a fixed label
  void min_marginals(double* least);

 private:
  using Net = Network<0, true>;

  void survey(const OrderedInput& input);
  void survey_table(const double* V, std::size_t direction, std::size_t edge, double count);
  void limit_unaries(const OrderedInput& input);
  void quantise_tables(const OrderedInput& input);
  void quantise_table(const double* V, Cap* part, double count);
  void lay_arcs(const OrderedInput& input);
  void add_unaries(std::span<const double> unary);
  void push_directly();
  void join(Id u, Id v, Cap there, Cap back);
  void favour(Id v, bool on, Cap amount);
  Cap force(Id v, bool on);

  Id node(Id pixel, Id k) const { return pixel * (L_ - 1) + k - 1; }
  std::size_t square() const { return static_cast<std::size_t>(L_) * L_; }

  Id L_, pixels_;
  OrderedFault fault_;
  double node_sum_ = 0, edge_sum_ = 0;  // of the absolute values that enter the network
  double scale_ = 1;
  std::int64_t inexact_ = 0;
  double beyond_ = 0;
  bool beyond_exactly_ = true;
  std::vector<double> limited_, taken_;  // unaries as the network has them, and what is missing
  std::vector<std::int16_t> fixed_;
  // Tables in integers, L x L each: V(0,0); what x_k and x'_l cost (first column, first row); c(k,l).
  std::vector<Cap> parts_;
  std::vector<std::size_t> first_part_;  // of each direction
  std::vector<Id> next_;                 // where the next arc of a node goes
  std::vector<Cap> carried_;             // sum of the arcs at each pixel
  Net net_;
  Maxflow<Net> flow_;
  std::vector<std::uint8_t> labels_;
};

}  // namespace cutlearn
