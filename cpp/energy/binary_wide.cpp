#include "energy/networks.hpp"

namespace cutlearn {

template std::unique_ptr<BinaryEngine> make_binary<Cap>(const Input&, const Survey&, double);

}  // namespace cutlearn
