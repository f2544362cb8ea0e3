// Input -> Network: quantises the numbers straight into the solver's layout.
//
// What     Edges first, then the hubs of regions, then unaries: clipping needs what the edges of a
//          node can carry. Every number passes the Quantiser once, in this order, so that `inexact`
//          and the network depend on the input alone.
// Requires a survey without fault, indices in range, and a scale at which the sum of all numbers
//          stays below 2^61: then no sum of residuals or excesses leaves 64 bits.
// Invariants (at the end of build)
//   B1  the stored function of the network (network.hpp) is the quantised energy, with the best
//       labels of the hubs, less `amount` y_v for every node that `clipped` lists.
//   B2  a clipped unary is one quantum beyond all that the edges and hubs of its node can carry:
//       the label stays forced and no tie arises.
//   B3  N1 and N2 of network.hpp; padding has no capacity and no excess.
// Why it stops  One pass over each array of the input.
#pragma once

#include <bit>
#include <utility>

#include "energy/input.hpp"
#include "flow/checks.hpp"
#include "flow/network.hpp"

namespace cutlearn {

template <class Net>
class Builder {
 public:
  static constexpr int D = Net::directions;
  using R = typename Net::Residual;

  Builder(Net& net, const Input& input, const GridShape& grid, Quantiser& quantise)
      : net_(net), input_(input), grid_(grid), q_(quantise) {}

  std::vector<Id> edge_arc;  // for a list of edges: the arc tail -> head
  struct Clipped {
    Id slot;
    double amount;  // the unary less what the network holds of it
    double lost;    // the rounding of that
    bool on;        // the label it forces
  };
  std::vector<Clipped> clipped;
  // The share of the pixels whose unary is more than a tenth of what their edges hold; where it is
  // small, edges decide and flow takes long ways. From a sample.
  double decided = 0;

  void build(bool clip) {
    const Regions& r = input_.regions;
    net_.allocate(grid_.slots + static_cast<std::int64_t>(r.alpha.size()), grid_.guard);
    // Arcs of the list and the places of members together number the arcs of a node.
    check_size(static_cast<std::int64_t>(input_.edges.size() + r.members.size() + r.alpha.size()),
               "arcs");
    net_.K = q_(input_.constant);
    if constexpr (D) add_grid_edges();
    if constexpr (Net::has_arcs) add_arcs();
    add_unaries(clip);
    if constexpr (D) count_decided();
  }

 private:
  static constexpr Id kSample = 61;

  void count_decided() {
    Id seen = 0, some = 0;
    for (Id i = 0; i < grid_.pixels(); i += kSample, ++seen) {
      const Id v = grid_.slot(i);
      double held = 0;
      for (Id d = 0; d < D; ++d) held += static_cast<double>(net_.at(v, d));
      some += 10 * std::abs(input_.unary[i]) * q_.scale() > held;
    }
    decided = static_cast<double>(some) / seen;
  }

  void add_grid_edges() {
    const auto offsets = forward_offsets(D);
    for (int k = 0; k < D / 2; ++k) {
      net_.offset[2 * k] = grid_.step(offsets[k]);
      net_.offset[2 * k + 1] = -net_.offset[2 * k];
    }
    for (int k = 0; k < D / 2; ++k) {
      const Weights& w = input_.weights[k];
      const Id step = net_.offset[2 * k];
      for_runs(grid_, offsets[k], [&](Id slot, std::size_t e, Id n) {
        if (w.kind == Weights::kPair) {
          for (Id j = 0; j < n; ++j) {
            Cap P, Q;
            q_.pair(w.data[2 * (e + j)], w.data[2 * (e + j) + 1], P, Q);
            net_.add_pairwise(slot + j, 2 * k, Q, P);
          }
        } else {  // what rounding left below zero counts as zero
          const double* data = w.kind == Weights::kScalar ? w.data : w.data + e;
          const Id stride = w.kind == Weights::kScalar ? 0 : 1;
          for (Id j = 0; j < n; ++j) {
            const Cap c = std::max<Cap>(q_(data[j * stride]), 0);
            net_.at(slot + j, 2 * k) = static_cast<R>(c);
            net_.at(slot + j + step, 2 * k + 1) = static_cast<R>(c);
          }
        }
      });
    }
  }

  void add_arcs() {
    if constexpr (Net::kListed) add_list();
    if (input_.regions.count()) add_regions();
  }

  void add_list() {
    const std::size_t edges = input_.edges.size() / 2;
    ArcLayout<Net> arcs(net_);
    for (std::size_t e = 0; e < edges; ++e)
      arcs.count(input_.edges[2 * e], input_.edges[2 * e + 1]);
    arcs.make_room();
    edge_arc.reserve(edges);
    for (std::size_t e = 0; e < edges; ++e) {
      edge_arc.push_back(arcs.join(input_.edges[2 * e], input_.edges[2 * e + 1]));
      Cap P, Q;
      q_.pair(input_.weights[0].p(e), input_.weights[0].q(e), P, Q);
      net_.add_pairwise(input_.edges[2 * e], D + edge_arc.back(), Q, P);
    }
  }

  // min(0, beta - alpha s) = min over z of z (beta - alpha M) + sum_i alpha m_i z (1 - y_i)
  void add_regions() {
    const Regions& r = input_.regions;
    std::vector<Id> nodes;
    nodes.reserve(r.members.size());
    for (const Id i : r.members) nodes.push_back(grid_.slot(i));
    net_.members.build(nodes, r.member_first, r.hinge_first, grid_.slots, net_.slots);
    std::vector<R> row;
    std::vector<Cap> all;
    for (std::size_t c = 0; c < r.count(); ++c) {
      const auto hub = static_cast<Id>(r.hinge_first[c]);
      const auto alpha = r.alpha.subspan(hub, r.hinge_first[c + 1] - hub);
      all.assign(alpha.size(), 0);
      double mass = -1;  // rows of equal masses are equal
      std::int64_t inexact = 0;
      Cap linear = 0;
      for (std::int64_t q = r.member_first[c]; q < r.member_first[c + 1]; ++q) {
        if (r.mass[q] != mass) {
          mass = r.mass[q];
          const std::int64_t before = q_.inexact;
          linear = q_(r.slope[c] * mass);
          row.clear();
          for (const double a : alpha) row.push_back(static_cast<R>(q_(a * mass)));
          inexact = q_.inexact - before;
        } else {
          q_.inexact += inexact;
        }
        net_.add_unary(nodes[q], linear);
        net_.members.set_row(c, static_cast<Id>(q - r.member_first[c]), row);
        for (std::size_t k = 0; k < row.size(); ++k) all[k] += row[k];
      }
      for (std::size_t k = 0; k < alpha.size(); ++k)
        net_.add_unary(grid_.slots + hub + static_cast<Id>(k), q_(r.beta[hub + k]) - all[k]);
    }
  }

  void add_unaries(bool clip) {
    grid_.for_pixels([&](Id i, Id slot) {
      if (clip)
        add_clipped(slot, input_.unary[i]);
      else
        net_.add_unary(slot, q_(input_.unary[i]));
    });
  }

  void add_clipped(Id v, double u) {
    const Cap e = net_.excess[v];
    Cap bound = net_.incident(v) + (e < 0 ? -e : e) + 1;
    // Up to a number that a double holds.
    if (const int digits = std::bit_width(static_cast<std::uint64_t>(bound)); digits > 53) {
      const Cap unit = Cap{1} << (digits - 53);
      bound = (bound + unit - 1) / unit * unit;
    }
    // A node without edges needs no more than the sign of its unary.
    if (u == 0 || (bound > 1 && std::abs(u * q_.scale()) <= static_cast<double>(bound))) {
      net_.add_unary(v, q_(u));
      return;
    }
    net_.add_unary(v, u > 0 ? bound : -bound);
    const double left = (u > 0 ? 1 : -1) * static_cast<double>(bound) / q_.scale();
    double lost = 0;
    const double beyond = exact_sum(u, -left, lost);
    clipped.push_back({v, beyond, lost, u < 0});
  }

  Net& net_;
  const Input& input_;
  const GridShape& grid_;
  Quantiser& q_;
};

}  // namespace cutlearn
