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

template void solve_coarse(Network<4, false, Cap>&, const GridShape&);
template void solve_coarse(Network<4, true, Cap>&, const GridShape&);
template void solve_coarse(Network<8, false, Cap>&, const GridShape&);
template void solve_coarse(Network<8, true, Cap>&, const GridShape&);
template void solve_coarse(Network<6, false, Cap>&, const GridShape&);
template void solve_coarse(Network<6, true, Cap>&, const GridShape&);
template void solve_coarse(Network<10, false, Cap>&, const GridShape&);
template void solve_coarse(Network<10, true, Cap>&, const GridShape&);
template void solve_coarse(Network<18, false, Cap>&, const GridShape&);
template void solve_coarse(Network<18, true, Cap>&, const GridShape&);
template void solve_coarse(Network<26, false, Cap>&, const GridShape&);
template void solve_coarse(Network<26, true, Cap>&, const GridShape&);

}  // namespace cutlearn
