#include "energy/engine.hpp"

namespace cutlearn {

// Each in a file of its own: these are what takes long to compile.
std::unique_ptr<Engine> make_narrow(const Input& input, const Survey& survey, double scale);
std::unique_ptr<Engine> make_wide(const Input& input, const Survey& survey);

std::unique_ptr<Engine> make_engine_at(const Input& input, const Survey& survey, double narrow) {
  return narrow > 0 ? make_narrow(input, survey, narrow) : make_wide(input, survey);
}

std::unique_ptr<Engine> make_engine(const Input& input, const Survey& survey) {
  return make_engine_at(input, survey, narrow_scale(input, survey));
}

}  // namespace cutlearn
