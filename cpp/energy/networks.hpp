// The kind of network that an input needs, with residuals of type R.
#pragma once

#include <memory>
#include <stdexcept>
#include <utility>

#include "energy/binary.hpp"
#include "energy/ordered.hpp"

namespace cutlearn {

template <class R>
std::unique_ptr<BinaryEngine> make_binary(const Input& input, const Survey& survey, double narrow) {
  const auto make = [&]<class Net>(std::type_identity<Net>) -> std::unique_ptr<BinaryEngine> {
    return std::make_unique<BinaryCut<Net>>(input, survey, narrow);
  };
  const bool regions = input.regions.count() > 0;
  switch (input.connectivity) {
    case 0: return make(std::type_identity<Network<0, true, R>>{});
#define CUTLEARN_MAKE(D)                                             \
  case D:                                                            \
    return regions ? make(std::type_identity<Network<D, true, R>>{}) \
                   : make(std::type_identity<Network<D, false, R>>{});
      CUTLEARN_CONNECTIVITIES(CUTLEARN_MAKE)
#undef CUTLEARN_MAKE
    default: throw std::invalid_argument("connectivity must be 0, 4, 8, 6, 10, 18 or 26");
  }
}

// Null if no layout of a grid serves; then the terms stay.
// requires the largest |k - l| with c(k,l) > 0, or more
template <class R>
std::unique_ptr<OrderedEngine> make_ordered_grid(const OrderedInput& input, OrderedTerms& terms,
                                                 Id reach) {
  const auto make = [&]<class Net>(std::type_identity<Net>) -> std::unique_ptr<OrderedEngine> {
    return std::make_unique<OrderedCut<Net>>(input, std::move(terms));
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
