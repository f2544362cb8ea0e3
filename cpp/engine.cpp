#include "engine.hpp"

#include <stdexcept>

#include "live.hpp"

namespace cutlearn {

namespace {

template <int D>
std::unique_ptr<Engine> grid_engine(const Input& input, const Survey& survey) {
  if (input.regions.count()) return std::make_unique<Live<Network<D, true>>>(input, survey);
  return std::make_unique<Live<Network<D, false>>>(input, survey);
}

}  // namespace

std::unique_ptr<Engine> make_engine(const Input& input, const Survey& survey) {
  switch (input.connectivity) {
    case 0: return std::make_unique<Live<Network<0, true>>>(input, survey);
    case 4: return grid_engine<4>(input, survey);
    case 8: return grid_engine<8>(input, survey);
    case 6: return grid_engine<6>(input, survey);
    case 18: return grid_engine<18>(input, survey);
    case 26: return grid_engine<26>(input, survey);
    default: throw std::invalid_argument("connectivity must be 0, 4, 8, 6, 18 or 26");
  }
}

}  // namespace cutlearn
