// The kind of network that ordered labels need, with residuals of type R.
#pragma once

#include <memory>
#include <utility>

#include "ordered/flow.hpp"

namespace cutlearn {

// requires the largest |k - l| with c(k,l) > 0, or more
template <class R>
std::unique_ptr<Ordered> make_ordered_grid(const OrderedInput& input, OrderedTerms& terms,
                                           Id reach) {
  const auto make = [&]<class Net>(std::type_identity<Net>) -> std::unique_ptr<Ordered> {
    return std::make_unique<OrderedFlow<Net>>(input, std::move(terms));
  };
  const auto layers = [&]<int pixels, int T>() {
    return make(std::type_identity<Network<2 + pixels * T, false, R, T>>{});
  };
  const Id T = terms.L - 1;
  if (input.connectivity == 4) {
    if (reach == 0) return make(std::type_identity<Network<6, false, R>>{});
    if (T == 2) return layers.template operator()<4, 2>();
    if (T == 3) return layers.template operator()<4, 3>();
    if (reach == 1) return make(std::type_identity<Network<14, false, R>>{});
    if (T == 4) return layers.template operator()<4, 4>();
  }
  if (input.connectivity == 8) {
    if (reach == 0) return make(std::type_identity<Network<10, false, R>>{});
    if (T == 2) return layers.template operator()<8, 2>();
    if (T == 3) return layers.template operator()<8, 3>();
    if (reach == 1) return make(std::type_identity<Network<26, false, R>>{});
  }
  return nullptr;
}

}  // namespace cutlearn
