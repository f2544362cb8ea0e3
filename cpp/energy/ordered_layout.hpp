// Where the nodes and arcs of ordered labels lie in a network, and their capacities.
//
// Parts    The part of a table V is L x L integers: V(0,0); what x_k and x'_l cost besides the arcs
//          (first column, first row); c(k,l) (engine.hpp). One that all edges of a direction share is
//          made once, one of an edge's own when it is read: nothing of their size is stored.
// Grid     The nodes of a pixel lie side by side. Directions 0 and 1 lead up and down the
//          thresholds of a pixel. Where the network has layers, one a threshold, the others lead to
//          every threshold of a neighbour (network.hpp); else to the same one, then to the next
//          higher, then to the next lower, as far as the network has directions.
// List     Arcs by tail; a zero capacity makes no arc. The first arc of a node k > 1 keeps the order.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <type_traits>
#include <utility>
#include <vector>

#include "energy/ordered_terms.hpp"
#include "flow/network.hpp"

namespace cutlearn {

// Capacities of the arcs of c(k,l): tail's x_k -> head's x_l, and back.
struct ArcPair {
  Cap there, back;
};
constexpr ArcPair arcs_of(Cap c, Id k, Id l) {
  if (k == l) return {c - c / 2, c / 2};
  return k > l ? ArcPair{c, 0} : ArcPair{0, c};
}

// A number of labels that is known beforehand, not 0, unrolls the loops; small numbers have less
// than 2^51 quanta.
template <Id known, bool small>
class Parts {
 public:
  std::int64_t inexact = 0;  // quanta, of all edges that were read

  Parts(const OrderedInput& input, const OrderedTerms& terms)
      : tables_(input.tables), labels_(terms.L), scale_(terms.scale), quantum_(1 / terms.scale) {
    part_.resize((tables_.size() + 1) * square());
    off_.resize(tables_.size());
    for (std::size_t d = 0; d < tables_.size(); ++d)
      if (!tables_[d].each && terms.edges[d])
        off_[d] = make(tables_[d].data, part_.data() + (d + 1) * square());
  }

  const Cap* operator()(std::size_t direction, std::size_t edge) {
    const Tables& tables = tables_[direction];
    if (tables.each) {
      inexact += make(tables.data + edge * square(), part_.data());
      return part_.data();
    }
    inexact += off_[direction];
    return part_.data() + (direction + 1) * square();
  }

 private:
  Id L() const { return known ? known : labels_; }
  std::size_t square() const { return static_cast<std::size_t>(L()) * L(); }

  // The part of a table V; returns the quanta that an edge with it is inexact by.
  std::int64_t make(const double* V, Cap* part) {
    const Id L = this->L();
    bool off = false;
#pragma GCC unroll 32
    for (Id i = 0; i < L * L; ++i) off |= !round(V[i], part[i]);
    Cap clamped = 0;
#pragma GCC unroll 8
    for (Id k = L - 1; k > 0; --k)
#pragma GCC unroll 8
      for (Id l = L - 1; l > 0; --l) {
        Cap* at = part + k * L + l;
        const Cap c = at[-L] + at[-1] - at[-L - 1] - at[0];
        clamped -= std::min<Cap>(c, 0);
        at[0] = std::max<Cap>(c, 0);
      }
#pragma GCC unroll 8
    for (Id k = L - 1; k > 0; --k) {
      part[k * L] -= part[(k - 1) * L];
      part[k] -= part[k - 1];
    }
#pragma GCC unroll 8
    for (Id k = 1; k < L; ++k)
#pragma GCC unroll 8
      for (Id l = 1; l < L; ++l) {
        const ArcPair arcs = arcs_of(part[k * L + l], k, l);
        part[k * L] -= arcs.there;
        part[l] -= arcs.back;
      }
    return off + clamped;
  }

  // Whether x is a whole number of quanta.
  bool round(double x, Cap& quanta) const {
    if constexpr (small) {
      constexpr double kRounder = 0x1.8p52;  // its last digit is one: adding it rounds
      const double shifted = x * scale_ + kRounder;
      quanta = std::bit_cast<Cap>(shifted) - std::bit_cast<Cap>(kRounder);
      return (shifted - kRounder) * quantum_ == x;
    } else {
      quanta = std::llrint(x * scale_);
      return static_cast<double>(quanta) * quantum_ == x;
    }
  }

  const std::vector<Tables>& tables_;
  Id labels_;
  double scale_, quantum_;
  std::vector<Cap> part_;          // the last one of an edge's own, then those of the directions
  std::vector<std::int64_t> off_;  // inexact by so much, each of these
};

// The largest |k - l| with c(k,l) > 0 after rounding.
inline Id rounded_reach(const OrderedInput& input, const OrderedTerms& terms) {
  const Id L = terms.L;
  Parts<0, false> parts(input, terms);
  Id reach = 0;
  for (std::size_t d = 0; d < input.tables.size(); ++d)
    for (std::size_t e = 0; e < (input.tables[d].each ? terms.edges[d] : terms.edges[d] > 0); ++e) {
      const Cap* part = parts(d, e);
      for (Id k = 1; k < L; ++k)
        for (Id l = 1; l < L; ++l)
          if (part[k * L + l]) reach = std::max(reach, std::abs(k - l));
      if (reach == L - 2) return reach;
    }
  return reach;
}

template <class Net>
class OrderedLayout {
 public:
  static constexpr bool kGrid = !Net::has_arcs;
  static constexpr Id D = Net::directions, T = Net::layers;
  // Of a grid: directions of the pixels, forward only, and all that keep or cross thresholds alone.
  // Those that do both hardly ever carry flow: they are left to the search.
  static constexpr Id kForward = T > 1 ? (D - 2) / T / 2 : D == 6 || D == 14 ? 2 : 4;
  static constexpr Id kStraight = kGrid ? 2 + 2 * kForward : 0;
  static constexpr Id kReach = T > 1 ? T - 1 : D == kStraight ? 0 : 1;  // the largest |k - l|

  OrderedLayout(const OrderedInput& input, OrderedTerms& terms, Net& net)
      : grid(roomy(grid_shape(input.shape, kGrid))), L_(terms.L), net_(net), terms_(terms) {
    const std::int64_t thresholds = L_ - 1;
    check_size((grid.slots + grid.guard) * thresholds, "nodes");
    net_.allocate(grid.slots * thresholds, static_cast<Id>(grid.guard * thresholds));
    carried_.assign(grid.slots, 1);
    if constexpr (T > 1) {
      add_edges<T + 1>(input);
    } else {
      switch (kGrid ? L_ : 0) {
        case 3: add_edges<3>(input); break;
        case 4: add_edges<4>(input); break;
        case 5: add_edges<5>(input); break;
        default: add_edges<0>(input);
      }
    }
    add_unaries(terms_.limited.empty() ? input.unary : terms_.limited);
    carried_ = {};
  }

  Id node(Id slot, Id k) const { return slot * (L_ - 1) + k - 1; }

  const GridShape grid;

 private:
  using R = typename Net::Residual;
  static constexpr bool kSmall = sizeof(R) == 4;

  // A neighbour lies up to a threshold further than its pixel: one more slot of padding.
  static GridShape roomy(GridShape shape) {
    shape.guard += kGrid;
    shape.slots += kGrid;
    return shape;
  }
  static R narrowed(Cap c) { return static_cast<R>(c); }

  template <Id known>
  void add_edges(const OrderedInput& input) {
    Parts<known, kSmall> parts(input, terms_);
    if constexpr (kGrid) {
      set_offsets(input);
      for (std::size_t d = 0; d < input.tables.size(); ++d) add_rows<known>(input, d, parts);
    } else {
      ArcLayout<Net> arcs(net_);
      make_room(input, arcs, Parts<known, kSmall>(input, terms_));
      add_list(input, arcs, parts);
    }
    terms_.inexact += parts.inexact;
  }

  // --- a grid ---

  // The code of the arc from threshold k to threshold l of the next pixel.
  static Id code(std::size_t direction, Id k, Id l) {
    const Id turn = T > 1 ? (l - k + T) % T : l == k ? 0 : l > k ? 1 : 2;
    return 2 + 2 * (turn * kForward + static_cast<Id>(direction));
  }

  void set_offsets(const OrderedInput& input) {
    for (Id layer = 0; layer < T; ++layer) {
      net_.offset[layer * D] = 1;
      net_.offset[layer * D + 1] = -1;
    }
    const auto offsets = forward_offsets(input.connectivity);
    for (std::size_t d = 0; d < offsets.size(); ++d) {
      const Id step = (L_ - 1) * grid.step(offsets[d]);
      for (Id k = 1; k < L_; ++k)
        for (Id l = std::max(1, k - kReach); l <= std::min(L_ - 1, k + kReach); ++l) {
          const Id there = code(d, k, l), from = T > 1 ? k - 1 : 0, to = T > 1 ? l - 1 : 0;
          net_.offset[from * D + there] = step + l - k;
          net_.offset[to * D + Net::opposite(there)] = k - l - step;
        }
    }
  }

  // The residuals of a pixel's nodes lie together: all of an edge's are written at once, at the same
  // places for every edge of a direction.
  template <Id known>
  void add_rows(const OrderedInput& input, std::size_t d, Parts<known, kSmall>& parts) {
    const Id L = known ? known : L_;
    struct Place {
      std::size_t there, back;  // from the first residual of the tail's pixel, of the head's
    };
    std::vector<Place> places;
    for (Id k = 1; k < L; ++k)
      for (Id l = std::max(1, k - kReach); l <= std::min(L - 1, k + kReach); ++l) {
        const std::size_t c = code(d, k, l), o = Net::opposite(code(d, k, l));
        places.push_back({(k - 1) * std::size_t{D} + c, (l - 1) * std::size_t{D} + o});
      }
    const Offset offset = forward_offsets(input.connectivity)[d];
    const Id step = grid.step(offset);
    Cap constant = 0;
    for_runs(grid, offset, [&](Id first, std::size_t e, Id n) {
      for (Id tail = first, end = first + n; tail < end; ++tail, ++e) {
        const Id head = tail + step;
        const Cap* part = parts(d, e);
        constant += part[0];
        Cap *at_tail = &net_.excess[node(tail, 1)], *at_head = &net_.excess[node(head, 1)];
        R *from_tail = &net_.at(node(tail, 1), 0), *from_head = &net_.at(node(head, 1), 0);
        const Place* place = places.data();
        Cap carried = 0;
#pragma GCC unroll 8
        for (Id k = 1; k < L; ++k) {
          at_tail[k - 1] -= part[k * L];
          at_head[k - 1] -= part[k];
#pragma GCC unroll 8
          for (Id l = 1; l < L; ++l) {
            if (std::abs(k - l) > kReach) continue;
            const Cap c = part[k * L + l];
            const ArcPair arcs = arcs_of(c, k, l);
            from_tail[place->there] = narrowed(arcs.there);
            from_head[place++->back] = narrowed(arcs.back);
            carried += c;
          }
        }
        carried_[tail] += carried;
        carried_[head] += carried;
      }
    });
    net_.K += constant;
  }

  // --- a list ---

  // Counts the arcs of every node and lays those that keep the order, without capacities yet.
  template <class Reader>
  void make_room(const OrderedInput& input, ArcLayout<Net>& arcs, Reader&& parts) {
    const std::int64_t thresholds = L_ - 1, edges = static_cast<std::int64_t>(terms_.edge_count());
    check_size(2 * thresholds * (terms_.pixels + edges * thresholds), "arcs");
    for (Id t = 0; t < terms_.pixels; ++t)
      for (Id k = 2; k < L_; ++k) arcs.count(node(t, k), node(t, k - 1));
    for_edges(grid, input.connectivity, input.edges,
              [&](std::size_t d, std::size_t e, Id tail, Id head) {
                const Cap* part = parts(d, e);
                for (Id k = 1; k < L_; ++k)
                  for (Id l = 1; l < L_; ++l)
                    if (part[k * L_ + l]) arcs.count(node(tail, k), node(head, l));
              });
    arcs.make_room();
    for (Id t = 0; t < terms_.pixels; ++t)
      for (Id k = 2; k < L_; ++k) arcs.join(node(t, k), node(t, k - 1));
  }

  template <class Reader>
  void add_list(const OrderedInput& input, ArcLayout<Net>& arcs, Reader& parts) {
    for_edges(grid, input.connectivity, input.edges,
              [&](std::size_t d, std::size_t e, Id tail, Id head) {
                const Cap* part = parts(d, e);
                net_.K += part[0];
                Cap carried = 0;
                for (Id k = 1; k < L_; ++k) {
                  net_.excess[node(tail, k)] -= part[k * L_];
                  net_.excess[node(head, k)] -= part[k];
                  for (Id l = 1; l < L_; ++l) {
                    const Cap c = part[k * L_ + l];
                    carried += c;
                    if (c) join(arcs, node(tail, k), node(head, l), arcs_of(c, k, l));
                  }
                }
                carried_[tail] += carried;
                carried_[head] += carried;
              });
  }

  void join(ArcLayout<Net>& arcs, Id u, Id v, ArcPair pair) {
    const Id a = arcs.join(u, v);
    net_.arc[a] = pair.there;
    net_.arc[net_.sister[a]] = pair.back;
  }

  // --- both: unaries, and the arcs that keep the order ---

  void add_unaries(std::span<const double> unary) {
    Quantiser q(terms_.scale);
    const double* u = unary.data();
    Cap constant = 0;
    grid.for_pixels([&](Id, Id slot) {
      q.inexact = 0;
      Cap below = q(*u++), all = carried_[slot];
      constant += below;
      for (Id k = 1; k < L_; ++k) {
        const Cap here = q(*u++);
        Cap& excess = net_.excess[node(slot, k)];
        excess -= here - std::exchange(below, here);
        all += std::abs(excess);
        constant -= std::max<Cap>(excess, 0);
      }
      terms_.inexact += q.inexact != 0;
      for (Id k = 2; k < L_; ++k) keep_order(node(slot, k), all);
    });
    net_.K += constant;
  }

  void keep_order(Id v, Cap capacity) {
    if constexpr (kGrid)
      net_.at(v, 1) = narrowed(capacity);
    else
      net_.arc[net_.first[v]] = capacity;
  }

  Id L_;
  Net& net_;
  OrderedTerms& terms_;
  std::vector<Cap> carried_;  // one more than the sum of the arcs at each pixel
};

}  // namespace cutlearn
