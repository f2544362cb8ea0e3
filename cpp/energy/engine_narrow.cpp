#include "energy/dispatch.hpp"

namespace cutlearn {

std::unique_ptr<Engine> make_narrow(const Input& input, const Survey& survey, double scale) {
  return make_live<std::int32_t>(input, survey, scale);
}

}  // namespace cutlearn
