#include "ordered/dispatch.hpp"

namespace cutlearn {

std::unique_ptr<Ordered> make_narrow_grid(const OrderedInput& input, OrderedTerms& terms,
                                          Id reach) {
  return make_ordered_grid<std::int32_t>(input, terms, reach);
}

}  // namespace cutlearn
