#include "flow/pyramid.hpp"

#include "flow/maxflow.hpp"
#include "flow/sweep.hpp"

namespace cutlearn {

namespace {
constexpr Id kFew = 64;  // pixels that need no coarser network
}

template <int D, bool Arcs>
void solve_coarse(Network<D, Arcs, Cap>& net, const GridShape& grid) {
  using Net = Network<D, Arcs, Cap>;
  if (grid.pixels() > kFew) Pyramid<Net>(net, grid)();
  push_ahead(net);
  Maxflow<Net>(net).solve();
}

#define CUTLEARN_COARSE(D)                                               \
  template void solve_coarse(Network<D, false, Cap>&, const GridShape&); \
  template void solve_coarse(Network<D, true, Cap>&, const GridShape&);
CUTLEARN_CONNECTIVITIES(CUTLEARN_COARSE)

}  // namespace cutlearn
