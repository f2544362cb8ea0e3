// Costs of edges that are linear in their features, looked up by the labels of their ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cutlearn {

// out[k m + e] = sum over g of features[e G + g] tables[(pairs[e] G + g) K + k], in the order of g,
// for m edges of G features and K tables, 1 or 3.
struct Lookup {
  std::size_t n_features, n_tables;
  std::span<const double> tables;
  std::span<const std::int64_t> pairs;
};

// False if a pair lies outside of the tables: then `out` is of no use. T is float or double.
template <class T>
bool look_up(const Lookup& task, const T* features, double* out);

}  // namespace cutlearn
