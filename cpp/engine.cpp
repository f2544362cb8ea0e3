#include "engine.hpp"

namespace cutlearn {

// Each in a file of its own: these are what takes long to compile.
std::unique_ptr<Engine> make_narrow(const Input& input, const Survey& survey, double scale);
std::unique_ptr<Engine> make_wide(const Input& input, const Survey& survey);

std::unique_ptr<Engine> make_engine(const Input& input, const Survey& survey) {
  const double scale = narrow_scale(input, survey);
  return scale > 0 ? make_narrow(input, survey, scale) : make_wide(input, survey);
}

}  // namespace cutlearn
