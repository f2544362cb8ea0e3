// Filters on stacks of float32 planes, row by row: Gaussians, samples on rings, interpolation.
//
// Every number is rounded where numpy and scipy.ndimage, the slow twins in tests/twins, round it:
// sums of a Gaussian in double in one fixed order, its two passes in float32 each, everything else
// in float32. No fused products (CMakeLists.txt), so that the twins agree.
#pragma once

#include <cstdint>
#include <span>

namespace cutlearn {

struct Stack {
  const float* data;
  std::int64_t planes, rows, cols;
};

// One side of a kernel that is symmetric (sign = 1) or antisymmetric (-1): weights[k] is at k.
struct Kernel {
  std::span<const double> weights;
  double sign;
};

// Filters rows first to last - 1 of all planes along columns, then along rows; borders are mirrored.
// requires: 0 <= first <= last <= rows; out holds planes * (last - first) * cols.
void smooth(const Stack& stack, std::int64_t first, std::int64_t last, const Kernel& down,
            const Kernel& across, float* out);

struct Move {
  std::int64_t down, across;
};

// Sum, sum of squares, least and largest of samples of a padded plane: out[k] for rows x cols.
// requires: every move leads from (pad + r, pad + c) into the plane; out holds 4 * rows * cols.
void rings(const float* plane, std::int64_t stride, std::span<const Move> moves, std::int64_t pad,
           std::int64_t rows, std::int64_t cols, float* out);

// Places of an enlarged line in a reduced one: between `low` and the next number, `part` of the way.
struct Places {
  std::span<const std::int64_t> low;
  std::span<const float> part;
};

// Interpolates all planes, first along rows, then along columns.
// requires: places inside the stack; out holds planes * |down| * |across|.
void enlarge(const Stack& small, const Places& down, const Places& across, float* out);

}  // namespace cutlearn
