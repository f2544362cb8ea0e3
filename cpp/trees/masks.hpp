// Trees of at most 32 leaves without walks: all nodes are compared, for 16 pixels at a time.
//
// Leaves are numbered from left to right, one bit each. A node whose comparison fails sends a
// pixel to the right, so that the leaves under its left child are out: their bits are cleared. The
// leaf of the pixel is the lowest bit that is left: every leaf to the left of it hangs under the
// left child of a node at which the pixel went right, and none of the nodes above the leaf itself
// clears it. There is no branch and no load that waits for another one, and neighbours are loaded
// together; see docs/decisions/0023 for what it gains.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "trees/trees.hpp"

namespace cutlearn {

class Masks {
 public:
  static constexpr int LANES = 16;
  static constexpr int LEAVES = 32;

  // requires: check passed.
  Masks(const Trees& trees, std::span<const std::int64_t> start)
      : baseline_(trees.baseline), questions_(trees.baseline.size()) {
    for (const auto root : trees.roots) {
      std::uint32_t leaves = 0;
      fits_ = fits_ && number(trees, start, root, leaves);
      if (!fits_) return;
      ends_.push_back(tests_.size());
      values_.resize(ends_.size() * LEAVES * questions_);
    }
  }

  // Whether every tree has few enough leaves.
  bool fits() const { return fits_; }

  // Writes the logits of LANES neighbouring pixels that start at `pixel`; those of a question lie
  // `plane` numbers behind those of the one before. `sums` has room for all of them.
  void add_all(const float* pixel, double* out, std::int64_t plane,
               std::vector<double>& sums) const {
    if (questions_ == 1) return add_one(pixel, out);
    const std::size_t count = questions_;
    for (int i = 0; i < LANES; ++i)
      std::copy(baseline_.begin(), baseline_.end(), sums.begin() + i * count);
    const double* value = values_.data();
    std::size_t begin = 0;
    for (const std::size_t end : ends_) {
      std::uint32_t bits[LANES];
      leaves_of(pixel, begin, end, bits);
      for (int i = 0; i < LANES; ++i) {
        const double* mine = value + std::countr_zero(bits[i]) * count;
        for (std::size_t q = 0; q < count; ++q) sums[i * count + q] += mine[q];
      }
      value += LEAVES * count;
      begin = end;
    }
    for (std::size_t q = 0; q < count; ++q)
      for (int i = 0; i < LANES; ++i) out[q * plane + i] = sums[i * count + q];
  }

 private:
  // Vectors of the compiler (GCC, Clang), as every 64-bit machine has them.
  static constexpr int WIDE = 4, PARTS = LANES / WIDE;
  typedef std::uint32_t Bits __attribute__((vector_size(16)));
  typedef float Floats __attribute__((vector_size(16)));

  struct Test {
    std::int64_t start;
    float threshold;
    std::uint32_t kept;  // leaves that stay if the comparison fails
  };

  // The leaves that no comparison of a tree excludes, for every lane.
  void leaves_of(const float* pixel, std::size_t begin, std::size_t end,
                 std::uint32_t* bits) const {
    Bits left[PARTS];
    for (Bits& part : left) part = ~Bits{};
    for (std::size_t k = begin; k < end; ++k) {
      const Test& test = tests_[k];
      for (int p = 0; p < PARTS; ++p) {
        Floats x;
        std::memcpy(&x, pixel + test.start + p * WIDE, sizeof x);
        left[p] &= reinterpret_cast<Bits>(x <= test.threshold) | test.kept;
      }
    }
    std::memcpy(bits, left, sizeof left);
  }

  // The same as add_all for one question, whose sums stay in registers.
  void add_one(const float* pixel, double* out) const {
    double sum[LANES];
    for (double& s : sum) s = baseline_[0];
    const double* value = values_.data();
    std::size_t begin = 0;
    for (const std::size_t end : ends_) {
      std::uint32_t bits[LANES];
      leaves_of(pixel, begin, end, bits);
      for (int i = 0; i < LANES; ++i) sum[i] += value[std::countr_zero(bits[i])];
      value += LEAVES;
      begin = end;
    }
    std::memcpy(out, sum, sizeof sum);
  }

  // Numbers the leaves below a node; false if there are too many.
  bool number(const Trees& trees, std::span<const std::int64_t> start, std::int32_t at,
              std::uint32_t& leaves) {
    if (trees.feature[at] < 0) {
      if (leaves == LEAVES) return false;
      ++leaves;
      values_.resize((ends_.size() * LEAVES + leaves) * questions_);
      std::copy_n(trees.value.begin() + at * questions_, questions_, values_.end() - questions_);
      return true;
    }
    const std::size_t mine = tests_.size(), first_test = ends_.empty() ? 0 : ends_.back();
    if (mine - first_test == LEAVES - 1) return false;  // so that no chain of nodes goes deep
    tests_.push_back({start[trees.feature[at]], trees.threshold[at], 0});
    const std::uint32_t first = leaves;
    if (!number(trees, start, trees.left[at], leaves)) return false;
    const std::uint32_t below = leaves - first;
    const std::uint32_t bits = below == 32 ? ~0U : ((1U << below) - 1U);
    tests_[mine].kept = ~(bits << first);
    return number(trees, start, trees.right[at], leaves);
  }

  std::span<const double> baseline_;
  std::size_t questions_;
  bool fits_ = true;
  std::vector<Test> tests_;
  std::vector<std::size_t> ends_;
  std::vector<double> values_;
};

}  // namespace cutlearn
