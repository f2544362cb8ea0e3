#include "energy/networks.hpp"

namespace cutlearn {

template std::unique_ptr<BinaryEngine> make_binary<std::int32_t>(const Input&, const Survey&,
                                                                 double);

}  // namespace cutlearn
