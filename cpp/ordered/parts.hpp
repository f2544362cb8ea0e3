// The tables of ordered labels as integers, read one after the other while a network is laid out.
//
// What     The part of a table V is L x L numbers: V(0,0); what x_k and x'_l cost beside the arcs
//          (first column, first row); c(k,l) (engine.hpp). One that all edges of a direction share is
//          made once, one of an edge's own when it is asked for: nothing of their size is stored.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "ordered/terms.hpp"

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
  std::int64_t inexact = 0;  // quanta, of all edges that were asked for
  bool rounded = false;      // whether a number of one was

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

  // The part of a table V; gives the quanta that an edge with it is inexact by.
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
    rounded |= off;
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

}  // namespace cutlearn
