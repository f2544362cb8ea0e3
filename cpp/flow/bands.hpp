// The first search of a grid whose pixels have several nodes: band by band, then over the seams.
//
// What     As tiles.hpp, with bands of whole rows: their nodes follow each other in memory, so that
//          which arcs lead out of a band is seen from the slots alone.
// Result   The flow depends on the bands, the minimum and its minimal source side do not.
#pragma once

#include <algorithm>
#include <vector>

#include "flow/checks.hpp"
#include "flow/maxflow.hpp"
#include "flow/sweep.hpp"

namespace cutlearn {

// Directions first .. last - 1 are those whose lines are walked.
template <class Net, Id first, Id last>
class Bands {
 public:
  using R = typename Net::Residual;

  // row: the slots of a row of the image, padding included
  Bands(Net& net, Maxflow<Net>& flow, Id row) : net_(net), flow_(flow) {
    const Id height = kChecks ? 2 * row : std::max<Id>(kBytes / (row * kNode), 8) * row;
    for (Id v = net_.begin(); v < net_.end(); v += height)
      bands_.push_back({v, std::min(v + height, net_.end())});
  }

  // requires a network that was never solved; a search has to follow (Maxflow::solve)
  void operator()() {
    flow_.make_trees();
    for (const Run& band : bands_) close(band);
    Rooms<R> rooms(net_.slots);
    for (const Run& band : bands_) {
      flow_.add_flow(push_directly<last>(net_, band));
      flow_.add_flow(Sweep<Net, Run, first, last>{net_, band, rooms}());
      flow_.plant(band);
      flow_.search();
    }
    for (const auto& [v, d, capacity] : seams_) net_.at(v, d) += capacity;
    for (const auto& [v, d, capacity] : seams_) flow_.wake(v, net_.neighbour(v, d));
  }

 private:
  static constexpr Id kNode = Net::directions * sizeof(R) + 14;  // bytes that a search touches
  static constexpr Id kBytes = 1 << 21;

  struct Seam {
    Id v, d;
    R capacity;
  };

  // Closes the arcs out of a band.
  void close(const Run& band) {
    Id most = 0;
    for (const Id offset : net_.offset) most = std::max(most, offset);
    const auto visit = [&](Id v) {
      for (Id d = 0; d < Net::directions; ++d) {
        R& r = net_.at(v, d);
        const Id w = net_.neighbour(v, d);
        if (r == 0 || (w >= band.first && w < band.last)) continue;
        seams_.push_back({v, d, r});
        r = 0;
      }
    };
    const Id top = std::min(band.first + most, band.last);
    for (Id v = band.first; v < top; ++v) visit(v);
    for (Id v = std::max(top, band.last - most); v < band.last; ++v) visit(v);
  }

  Net& net_;
  Maxflow<Net>& flow_;
  std::vector<Run> bands_;
  std::vector<Seam> seams_;
};

}  // namespace cutlearn
