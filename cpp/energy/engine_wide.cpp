#include "energy/dispatch.hpp"

namespace cutlearn {

std::unique_ptr<Engine> make_wide(const Input& input, const Survey& survey) {
  return make_live<std::int64_t>(input, survey, 0);
}

}  // namespace cutlearn
