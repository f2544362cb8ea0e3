// Boosted trees for several questions at once: one tree structure, a value a question in each leaf.
//
// Question t has answers y_it in {0, 1} and logits f_it, which begin at `first[t]`. A round takes
//   g_it = p_it - y_it,   h_it = p_it (1 - p_it),   p = 1 / (1 + exp(-f)),
// grows one tree on the columns drawn for it, and adds -rate G_t / (H_t + l2) to the logits of each
// leaf's rows, where G and H are sums over the rows of the leaf. A leaf is split where
//   sum_t [G_t^2 / (H_t + l2)] of both sides, less that of the leaf,
// is largest, the best leaf of all first, until there are `leaves` of them or nothing gains.
//
// g and h are rounded to whole multiples of 2^-14 and 2^-16, so that all sums are of integers: they
// are exact, and the same in any order and on any machine. Rows are distinguished by their bins only.
//
// Invariants, checked by `grow` (what breaks them throws):
//   G1  1 <= rows <= MOST_ROWS, so no sum leaves 32 bits; 1 <= questions <= MOST_QUESTIONS.
//   G2  bins < BINS; drawn columns lie within the bins' matrix.
//   G3  an answer is 0 or 1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cutlearn {

constexpr int BINS = 64;
constexpr std::int64_t MOST_ROWS = 131071;
constexpr std::int64_t MOST_QUESTIONS = 256;

struct Growth {
  std::span<const std::uint8_t> bins;     // (columns, rows): of every column, the bin of each row
  std::span<const std::uint8_t> answers;  // (rows, questions)
  std::span<const std::int32_t> drawn;    // (rounds, tried): the columns that a tree may use
  std::span<const double> first;          // (questions)
  std::int64_t columns, rows, questions, rounds, tried;
  std::int64_t leaves, least;  // most leaves of a tree, fewest rows of a leaf
  double rate, l2;
};

// A row goes left if the bin of its column `feature` <= `bin`. feature < 0 marks a leaf. Children
// come after their parent; `value` has a number a node and question, 0 for inner nodes.
struct Grown {
  std::vector<std::int32_t> feature, bin, left, right, roots;
  std::vector<double> value;
};

Grown grow(const Growth& task);

}  // namespace cutlearn
