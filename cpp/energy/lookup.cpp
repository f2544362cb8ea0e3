#include "energy/lookup.hpp"

namespace cutlearn {
namespace {

template <std::size_t K, class T>
bool sums(const Lookup& task, const T* features, double* out) {
  const std::size_t m = task.pairs.size(), G = task.n_features;
  const std::size_t rows = G ? task.tables.size() / (G * K) : 0;
  for (std::size_t e = 0; e < m; ++e) {
    const auto pair = static_cast<std::size_t>(task.pairs[e]);
    if (G && pair >= rows) return false;
    const double* table = task.tables.data() + pair * G * K;
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
bool look_up(const Lookup& task, const T* features, double* out) {
  return task.n_tables == 1 ? sums<1>(task, features, out) : sums<3>(task, features, out);
}

template bool look_up(const Lookup&, const float*, double*);
template bool look_up(const Lookup&, const double*, double*);

}  // namespace cutlearn
