// A network with its search: what the engines of binary and of ordered labels share.
//
// Force    A node is forced to a label by a bias greater than all that can act on it. The bias
//          depends on the energy alone, not on the flow, and K stays the minimum.
// Checks   With CUTLEARN_CHECKS a twin network follows every change but is never solved, and every
//          solve is proved against it (checks.hpp).
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "flow/checks.hpp"
#include "flow/maxflow.hpp"
#include "flow/network.hpp"

namespace cutlearn {

template <class Net>
class FlowSolver {
 public:
  Net net;
  Maxflow<Net> search{net};

  // To be called once the network has its capacities.
  void check_network() {
    if constexpr (kChecks) {
      throw_if_fault(broken_network(net));
      twin_ = net.clone();
    }
  }

  void solve() {
    search.solve();
    if constexpr (kChecks) throw_if_fault(disproof(twin_));
  }

  // 1 for the nodes of label 1, by slot.
  std::vector<std::uint8_t> source_side() const {
    std::vector<std::uint8_t> on(net.slots);
    for (Id v = net.begin(); v < net.end(); ++v) on[v] = search.on_source_side(v);
    return on;
  }

  // As that of checks.hpp, against the same network before any search.
  std::string disproof(Net& pristine) { return cutlearn::disproof(net, pristine, source_side()); }

  // Changes the stored function; then the search must be notified.
  template <class Change>
  void change(Change&& change) {
    change(net);
    if constexpr (kChecks) change(twin_);
  }

  // Makes the other label than `label` cost more by `amount`; likewise.
  void add_bias(Id v, bool label, Cap amount) {
    change([&](Net& network) {
      network.add_unary(v, label ? -amount : amount);
      if (label) network.K += amount;
    });
  }

  // ensures v has this label in every minimum; returns the bias
  Cap force(Id v, bool label) {
    const Cap amount = net.incident(v) + std::abs(linear_coefficient(net, v)) + 1;
    add_bias(v, label, amount);
    search.excess_changed(v);
    return amount;
  }

  // Undoes a force with this bias.
  void release(Id v, bool label, Cap amount) {
    add_bias(v, label, -amount);
    search.excess_changed(v);
  }

 private:
  Net twin_;
};

}  // namespace cutlearn
