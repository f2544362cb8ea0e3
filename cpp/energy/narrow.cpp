#include "energy/networks.hpp"

namespace cutlearn {

template std::unique_ptr<BinaryEngine> make_binary<std::int32_t>(const Input&, const Survey&,
                                                                 double);
template std::unique_ptr<OrderedEngine> make_ordered_grid<std::int32_t>(const OrderedInput&,
                                                                        OrderedTerms&, Id);

}  // namespace cutlearn
