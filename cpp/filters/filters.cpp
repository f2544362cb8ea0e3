#include "filters/filters.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace cutlearn {

namespace {

// Where a place beyond the border lies when the line is mirrored there, its end twice: dcba|abcd.
std::int64_t mirrored(std::int64_t at, std::int64_t size) {
  const std::int64_t turn = 2 * size;
  at %= turn;
  if (at < 0) at += turn;
  return at < size ? at : turn - 1 - at;
}

// sum[c] = w0 here[c] + sum over k = reach .. 1 of w_k (before_k[c] + sign after_k[c])
template <typename Before, typename After>
void add_pairs(const Kernel& kernel, const float* here, Before before, After after,
               std::int64_t size, double* sum) {
  const auto reach = static_cast<std::int64_t>(kernel.weights.size()) - 1;
  for (std::int64_t c = 0; c < size; ++c) sum[c] = here[c] * kernel.weights[0];
  for (std::int64_t k = reach; k > 0; --k) {
    const float *a = before(k), *b = after(k);
    const double w = kernel.weights[k];
    if (kernel.sign > 0)
      for (std::int64_t c = 0; c < size; ++c)
        sum[c] += (static_cast<double>(a[c]) + static_cast<double>(b[c])) * w;
    else
      for (std::int64_t c = 0; c < size; ++c)
        sum[c] += (static_cast<double>(a[c]) - static_cast<double>(b[c])) * w;
  }
}

constexpr std::int64_t CHUNK = 256;  // sums that stay in the nearest cache

}  // namespace

void smooth(const Stack& stack, std::int64_t first, std::int64_t last, const Kernel& down,
            const Kernel& across, float* out) {
  const std::int64_t cols = stack.cols;
  const auto reach = static_cast<std::int64_t>(across.weights.size()) - 1;
  std::vector<float> line(static_cast<std::size_t>(cols + 2 * reach));
  double sum[CHUNK];
  for (std::int64_t p = 0; p < stack.planes; ++p) {
    const float* plane = stack.data + p * stack.rows * cols;
    for (std::int64_t r = first; r < last; ++r, out += cols) {
      for (std::int64_t c = 0; c < cols; c += CHUNK) {
        const std::int64_t size = std::min(CHUNK, cols - c);
        const auto row = [&](std::int64_t at) {
          return plane + mirrored(at, stack.rows) * cols + c;
        };
        add_pairs(
            down, row(r), [&](std::int64_t k) { return row(r - k); },
            [&](std::int64_t k) { return row(r + k); }, size, sum);
        for (std::int64_t i = 0; i < size; ++i) line[reach + c + i] = static_cast<float>(sum[i]);
      }
      for (std::int64_t k = 1; k <= reach; ++k) {
        line[reach - k] = line[reach + mirrored(-k, cols)];
        line[reach + cols - 1 + k] = line[reach + mirrored(cols - 1 + k, cols)];
      }
      for (std::int64_t c = 0; c < cols; c += CHUNK) {
        const std::int64_t size = std::min(CHUNK, cols - c);
        const float* here = line.data() + reach + c;
        add_pairs(
            across, here, [&](std::int64_t k) { return here - k; },
            [&](std::int64_t k) { return here + k; }, size, sum);
        for (std::int64_t i = 0; i < size; ++i) out[c + i] = static_cast<float>(sum[i]);
      }
    }
  }
}

void rings(const float* plane, std::int64_t stride, std::span<const Move> moves, std::int64_t pad,
           std::int64_t rows, std::int64_t cols, float* out) {
  const std::int64_t size = rows * cols;
  for (std::int64_t r = 0; r < rows; ++r) {
    float *total = out + r * cols, *square = total + size, *low = square + size, *high = low + size;
    std::fill_n(total, cols, 0.0F);
    std::fill_n(square, cols, 0.0F);
    std::fill_n(low, cols, std::numeric_limits<float>::infinity());
    std::fill_n(high, cols, -std::numeric_limits<float>::infinity());
    for (const Move& move : moves) {
      const float* from = plane + (pad + r + move.down) * stride + pad + move.across;
      for (std::int64_t c = 0; c < cols; ++c) {
        const float x = from[c];
        total[c] += x;
        square[c] += x * x;
        low[c] = x < low[c] ? x : low[c];
        high[c] = x > high[c] ? x : high[c];
      }
    }
  }
}

void enlarge(const Stack& small, const Places& down, const Places& across, float* out) {
  const auto rows = static_cast<std::int64_t>(down.low.size());
  const auto cols = static_cast<std::int64_t>(across.low.size());
  std::vector<float> lines[2];
  for (auto& line : lines) line.resize(static_cast<std::size_t>(cols));
  for (std::int64_t p = 0; p < small.planes; ++p) {
    std::int64_t held[2] = {-1, -1};  // the row that each of the lines holds
    const auto widened = [&](std::int64_t row, int k) {
      if (held[k] == row) return;
      if (held[1 - k] == row) {
        std::swap(lines[0], lines[1]);
        std::swap(held[0], held[1]);
        return;
      }
      const float* from = small.data + (p * small.rows + row) * small.cols;
      for (std::int64_t c = 0; c < cols; ++c) {
        const std::int64_t a = across.low[c], b = std::min(a + 1, small.cols - 1);
        lines[k][c] = from[a] + across.part[c] * (from[b] - from[a]);
      }
      held[k] = row;
    };
    for (std::int64_t r = 0; r < rows; ++r, out += cols) {
      const std::int64_t low = down.low[r], next = std::min(low + 1, small.rows - 1);
      widened(low, 0);
      if (next != low) widened(next, 1);
      const float *above = lines[0].data(), *below = lines[next == low ? 0 : 1].data();
      const float part = down.part[r];
      for (std::int64_t c = 0; c < cols; ++c) out[c] = above[c] + part * (below[c] - above[c]);
    }
  }
}

}  // namespace cutlearn
