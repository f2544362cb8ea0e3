// Where the nodes and arcs of ordered labels lie in a network, and their capacities.
//
// Grid     The nodes of a pixel lie side by side. Directions 0 and 1 lead up and down the
//          thresholds of a pixel. Where the network has layers, one a threshold, the others lead to
//          every threshold of a neighbour (network.hpp); else to the same one, then to the next
//          higher, then to the next lower, as far as the network has directions.
// List     Arcs by tail; a zero capacity makes no arc. The first arc of a node k > 1 keeps the order.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <type_traits>
#include <utility>
#include <vector>

#include "flow/arcs.hpp"
#include "flow/network.hpp"
#include "ordered/parts.hpp"

namespace cutlearn {

template <class Net>
class OrderedLayout {
 public:
  static constexpr bool kGrid = !Net::has_arcs;
  static constexpr Id D = Net::directions, T = Net::layers;
  // Of a grid: directions of the pixels, forward only, and all that keep or cross thresholds alone.
  // Those that do both hardly ever carry flow: they are left to the search.
  static constexpr Id kForward = T > 1 ? (D - 2) / T / 2 : D == 6 || D == 14 ? 2 : 4;
  static constexpr Id kStraight = kGrid ? 2 + 2 * kForward : 0;

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
  // Whether nothing was rounded.
  bool exact() const { return !rounded_; }

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
    rounded_ |= parts.rounded;
  }

  // --- a grid ---

  // The code of the arc from threshold k to threshold l of the next pixel.
  static Id code(std::size_t direction, Id k, Id l) {
    const Id turn = T > 1 ? (l - k + T) % T : l == k ? 0 : l > k ? 1 : 2;
    return 2 + 2 * (turn * kForward + static_cast<Id>(direction));
  }
  static constexpr Id kReach = T > 1 ? T - 1 : D == kStraight ? 0 : 1;

  void set_offsets(const OrderedInput& input) {
    for (Id layer = 0; layer < T; ++layer) {
      net_.offset[layer * D] = 1;
      net_.offset[layer * D + 1] = -1;
    }
    const auto offsets = forward_offsets(input.connectivity);
    for (std::size_t d = 0; d < offsets.size(); ++d) {
      const Id step = (L_ - 1) * pixel_step(offsets[d]);
      for (Id k = 1; k < L_; ++k)
        for (Id l = std::max(1, k - kReach); l <= std::min(L_ - 1, k + kReach); ++l) {
          const Id there = code(d, k, l), from = T > 1 ? k - 1 : 0, to = T > 1 ? l - 1 : 0;
          net_.offset[from * D + there] = step + l - k;
          net_.offset[to * D + Net::opposite(there)] = k - l - step;
        }
    }
  }
  Id pixel_step(const Offset& o) const {
    return o[0] * grid.stride[0] + o[1] * grid.stride[1] + o[2];
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
    const Id step = pixel_step(offset);
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
    for_edges(input, grid, [&](std::size_t d, std::size_t e, Id tail, Id head) {
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
    for_edges(input, grid, [&](std::size_t d, std::size_t e, Id tail, Id head) {
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
    for (Id z = 0; z < grid.size[0]; ++z)
      for (Id y = 0; y < grid.size[1]; ++y)
        for (Id slot = grid.slot(z, y, 0), end = slot + grid.size[2]; slot < end; ++slot) {
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
          rounded_ |= q.inexact != 0;
          for (Id k = 2; k < L_; ++k) keep_order(node(slot, k), all);
        }
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
  bool rounded_ = false;
};

}  // namespace cutlearn
