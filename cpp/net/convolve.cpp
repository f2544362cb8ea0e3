// 3 x 3 convolutions: a tile of columns times a few channels stays in registers while all
// neighbours of all channels in pass by. Nothing is copied out (no im2col).
#include <algorithm>
#include <cstddef>
#include <vector>

#include "net/planes.hpp"
#include "net/wide.hpp"

namespace cutlearn {

namespace {

// Forward: channels and columns of a tile, columns after which all channels have had their turn.
constexpr std::int64_t CHANNELS = 4, COLUMNS = 24, BLOCK = 42 * COLUMNS;
// Back: outputs side by side, channels in at a time (three directions each), columns in cache.
constexpr std::int64_t OUTPUTS = 16, INPUTS = 2, DEEP = 1024;

template <class T>
struct Tiles {
  const T* planes;  // at the first column
  std::int64_t length, c, stride, count;
  const T* packed;    // (9 c, CHANNELS)
  T* out;             // at the first column
  std::int64_t rows;  // channels that are written, at most CHANNELS
};

template <class T, std::int64_t columns>
CUTLEARN_INLINE void tile(const Tiles<T>& job, std::int64_t x) {
  T sum[CHANNELS][columns] = {};
  const T* weight = job.packed;
  for (std::int64_t k = 0; k < 9; ++k) {
    const T* from = job.planes + x + (k / 3 - 1) * job.stride + (k % 3 - 1);
    for (std::int64_t i = 0; i < job.c; ++i, from += job.length, weight += CHANNELS)
      for (std::int64_t r = 0; r < CHANNELS; ++r) {
#pragma omp simd
        for (std::int64_t v = 0; v < columns; ++v) sum[r][v] += weight[r] * from[v];
      }
  }
  for (std::int64_t r = 0; r < job.rows; ++r)
    std::copy(sum[r], sum[r] + columns, job.out + r * job.length + x);
}

// A last tile that would be too short starts earlier: its columns are the same again.
template <class T>
CUTLEARN_INLINE void all_tiles(const Tiles<T>& job) {
  if (job.count < COLUMNS) {
    for (std::int64_t x = 0; x < job.count; ++x) tile<T, 1>(job, x);
    return;
  }
  for (std::int64_t x = 0; x < job.count; x += COLUMNS)
    tile<T, COLUMNS>(job, std::min(x, job.count - COLUMNS));
}

CUTLEARN_WIDE void run(const Tiles<float>& job) { all_tiles(job); }
void run(const Tiles<double>& job) { all_tiles(job); }

template <class T>
struct Products {
  const T* across;  // (count, OUTPUTS): the slopes of a column side by side
  const T* planes;  // at the first column
  std::int64_t length, c, stride, count;
  T* sums;  // (c, 9, OUTPUTS), added to
};

template <class T, std::int64_t inputs>
CUTLEARN_INLINE void products(const Products<T>& job, std::int64_t i, std::int64_t dy) {
  T sum[3 * inputs][OUTPUTS] = {};
  const T* from = job.planes + i * job.length + (dy - 1) * job.stride - 1;
  for (std::int64_t x = 0; x < job.count; ++x) {
    const T* slope = job.across + x * OUTPUTS;
    for (std::int64_t j = 0; j < inputs; ++j)
      for (std::int64_t dx = 0; dx < 3; ++dx) {
        const T value = from[j * job.length + x + dx];
#pragma omp simd
        for (std::int64_t o = 0; o < OUTPUTS; ++o) sum[3 * j + dx][o] += value * slope[o];
      }
  }
  for (std::int64_t j = 0; j < inputs; ++j)
    for (std::int64_t dx = 0; dx < 3; ++dx) {
      T* to = job.sums + ((i + j) * 9 + dy * 3 + dx) * OUTPUTS;
      for (std::int64_t o = 0; o < OUTPUTS; ++o) to[o] += sum[3 * j + dx][o];
    }
}

template <class T>
CUTLEARN_INLINE void all_products(const Products<T>& job) {
  std::int64_t i = 0;
  for (; i + INPUTS <= job.c; i += INPUTS)
    for (std::int64_t dy = 0; dy < 3; ++dy) products<T, INPUTS>(job, i, dy);
  for (; i < job.c; ++i)
    for (std::int64_t dy = 0; dy < 3; ++dy) products<T, 1>(job, i, dy);
}

CUTLEARN_WIDE void run(const Products<float>& job) { all_products(job); }
void run(const Products<double>& job) { all_products(job); }

template <class T>
void clear_between(const Layout& layout, T* plane) {
  std::fill(plane, plane + layout.rim(), T(0));
  for (std::int64_t p = 0; p < layout.n; ++p) {
    for (std::int64_t y = 0; y < layout.h; ++y) plane[layout.row(p, y) + layout.w] = T(0);
    T* below = plane + layout.row(p, layout.h);
    std::fill(below, below + layout.stride(), T(0));
  }
  std::fill(plane + layout.rim() + layout.span(), plane + layout.length(), T(0));
}

}  // namespace

template <class T>
void convolve(const Layout& layout, const T* planes, std::int64_t c, const T* kernel,
              std::int64_t outputs, T* out) {
  const std::int64_t groups = (outputs + CHANNELS - 1) / CHANNELS, length = layout.length();
  std::vector<T> packed(static_cast<std::size_t>(groups * 9 * c * CHANNELS), T(0));
  for (std::int64_t o = 0; o < outputs; ++o)
    for (std::int64_t k = 0; k < 9 * c; ++k)
      packed[((o / CHANNELS) * 9 * c + k) * CHANNELS + o % CHANNELS] = kernel[o * 9 * c + k];
  for (std::int64_t x = 0; x < layout.span(); x += BLOCK) {
    const std::int64_t first = layout.rim() + x, count = std::min(BLOCK, layout.span() - x);
    for (std::int64_t g = 0; g < groups; ++g)
      run(Tiles<T>{planes + first, length, c, layout.stride(), count,
                   packed.data() + g * 9 * c * CHANNELS, out + g * CHANNELS * length + first,
                   std::min(CHANNELS, outputs - g * CHANNELS)});
  }
  for (std::int64_t o = 0; o < outputs; ++o) clear_between(layout, out + o * length);
}

template <class T>
void kernel_back(const Layout& layout, const T* slope, std::int64_t outputs, const T* planes,
                 std::int64_t c, T* by_kernel) {
  const std::int64_t length = layout.length();
  std::vector<T> across(static_cast<std::size_t>(DEEP * OUTPUTS));
  std::vector<T> sums(static_cast<std::size_t>(c * 9 * OUTPUTS));
  for (std::int64_t first = 0; first < outputs; first += OUTPUTS) {
    const std::int64_t some = std::min(OUTPUTS, outputs - first);
    std::fill(across.begin(), across.end(), T(0));
    std::fill(sums.begin(), sums.end(), T(0));
    for (std::int64_t x = 0; x < layout.span(); x += DEEP) {
      const std::int64_t begin = layout.rim() + x, count = std::min(DEEP, layout.span() - x);
      for (std::int64_t o = 0; o < some; ++o)
        for (std::int64_t k = 0; k < count; ++k)
          across[k * OUTPUTS + o] = slope[(first + o) * length + begin + k];
      run(Products<T>{across.data(), planes + begin, length, c, layout.stride(), count,
                      sums.data()});
    }
    for (std::int64_t o = 0; o < some; ++o)
      for (std::int64_t k = 0; k < 9; ++k)
        for (std::int64_t i = 0; i < c; ++i)
          by_kernel[(first + o) * 9 * c + k * c + i] = sums[(i * 9 + k) * OUTPUTS + o];
  }
}

template void convolve(const Layout&, const float*, std::int64_t, const float*, std::int64_t,
                       float*);
template void convolve(const Layout&, const double*, std::int64_t, const double*, std::int64_t,
                       double*);
template void kernel_back(const Layout&, const float*, std::int64_t, const float*, std::int64_t,
                          float*);
template void kernel_back(const Layout&, const double*, std::int64_t, const double*, std::int64_t,
                          double*);

}  // namespace cutlearn
