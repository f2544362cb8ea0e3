// An ensemble of binary regression trees, evaluated at every pixel of a stack of planes.
//
// Column f of pixel (r, c) is   buffer[start[f] + (r * step) * stride + c * step]:
// a shifted copy of a padded plane is only another start, so no feature matrix is ever made.
// A plain matrix stored column by column is the case of one row of pixels, start[f] = f * n.
//
// A node t with feature[t] >= 0 sends a row to left[t] if its column <= threshold[t], else to
// right[t]; feature[t] < 0 marks a leaf, whose values count, one for each question. The answers of a
// row are
//   logit = baseline + value(leaf of tree 0) + value(leaf of tree 1) + ...   summed in this order,
// the order of scikit-learn, so both agree.
//
// Invariants, checked once a call by `check` (a broken ensemble throws, never reads outside):
//   T1  all node arrays have one length, `value` that times the questions, of which there is at
//       least one; 0 <= roots[k] < that length.
//   T2  an inner node's children come after it (t < left, right < nodes), so every walk ends.
//   T3  feature[t] < number of columns.
//   T4  every column lies inside the buffer for every pixel.
#pragma once

#include <cstdint>
#include <span>

namespace cutlearn {

struct Trees {
  std::span<const std::int32_t> feature, left, right, roots;
  std::span<const float> threshold;
  std::span<const double> value;     // (nodes, questions)
  std::span<const double> baseline;  // (questions)
};

struct Columns {
  std::span<const float> buffer;
  std::span<const std::int64_t> start;
  std::int64_t rows, cols, stride, step;
};

// ensures: throws std::invalid_argument, naming the broken invariant, or returns with T1-T4 true.
void check(const Trees& trees, const Columns& columns);

// requires: check passed; out.size() == questions * rows * cols.
// ensures: out[(q * rows + r) * cols + c] = logit of question q at pixel (r, c).
void evaluate(const Trees& trees, const Columns& columns, std::span<double> out);

}  // namespace cutlearn
