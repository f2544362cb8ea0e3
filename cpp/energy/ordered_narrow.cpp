#include "energy/networks.hpp"

namespace cutlearn {

template std::unique_ptr<OrderedEngine> make_ordered_grid<std::int32_t>(const OrderedInput&,
                                                                        OrderedTerms&, Id);

}  // namespace cutlearn
