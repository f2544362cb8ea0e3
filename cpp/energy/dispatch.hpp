// The kind of network that an input needs, with residuals of type R.
#pragma once

#include <stdexcept>

#include "energy/live.hpp"

namespace cutlearn {

template <int D, class R>
std::unique_ptr<Engine> make_grid(const Input& input, const Survey& survey, double narrow) {
  if (input.regions.count())
    return std::make_unique<Live<Network<D, true, R>>>(input, survey, narrow);
  return std::make_unique<Live<Network<D, false, R>>>(input, survey, narrow);
}

template <class R>
std::unique_ptr<Engine> make_live(const Input& input, const Survey& survey, double narrow) {
  switch (input.connectivity) {
    case 0: return std::make_unique<Live<Network<0, true, R>>>(input, survey, narrow);
#define CUTLEARN_MAKE(D) \
  case D: return make_grid<D, R>(input, survey, narrow);
      CUTLEARN_CONNECTIVITIES(CUTLEARN_MAKE)
#undef CUTLEARN_MAKE
    default: throw std::invalid_argument("connectivity must be 0, 4, 8, 6, 10, 18 or 26");
  }
}

}  // namespace cutlearn
