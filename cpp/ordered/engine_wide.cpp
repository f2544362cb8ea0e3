#include "ordered/dispatch.hpp"

namespace cutlearn {

std::unique_ptr<Ordered> make_wide_grid(const OrderedInput& input, OrderedTerms& terms, Id reach) {
  return make_ordered_grid<Cap>(input, terms, reach);
}

}  // namespace cutlearn
