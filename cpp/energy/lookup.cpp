#include "energy/lookup.hpp"

namespace cutlearn {
namespace {

template <std::size_t K, class T>
bool sums(const Lookup& asked, const T* features, double* out) {
  const std::size_t m = asked.pairs.size(), G = asked.n_features;
  const std::size_t known = G ? asked.tables.size() / (G * K) : 0;
  for (std::size_t e = 0; e < m; ++e) {
    const auto pair = static_cast<std::size_t>(asked.pairs[e]);
    if (G && pair >= known) return false;
    const double* table = asked.tables.data() + pair * G * K;
    double total[K] = {};
    for (std::size_t g = 0; g < G; ++g)
      for (std::size_t k = 0; k < K; ++k)
        total[k] += table[g * K + k] * static_cast<double>(features[e * G + g]);
    for (std::size_t k = 0; k < K; ++k) out[k * m + e] = total[k];
  }
  return true;
}

}  // namespace

template <class T>
bool look_up(const Lookup& asked, const T* features, double* out) {
  return asked.n_tables == 1 ? sums<1>(asked, features, out) : sums<3>(asked, features, out);
}

template bool look_up(const Lookup&, const float*, double*);
template bool look_up(const Lookup&, const double*, double*);

}  // namespace cutlearn
