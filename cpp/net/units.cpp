// What lies between the convolutions: normalising, rectifying, pooling and enlarging, row by row.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "net/planes.hpp"
#include "net/wide.hpp"

namespace cutlearn {

namespace {

constexpr std::int64_t LANES = 8;

// The sum of term(x) over a row, in lanes that are added in order: pixel x is in lane x mod LANES.
template <class T, class Term>
CUTLEARN_INLINE double row_sum(std::int64_t w, const Term& term) {
  T lane[LANES] = {};
  std::int64_t x = 0;
  for (; x + LANES <= w; x += LANES) {
#pragma omp simd
    for (std::int64_t l = 0; l < LANES; ++l) lane[l] += term(x + l);
  }
  for (std::int64_t l = 0; x < w; ++x, ++l) lane[l] += term(x);
  double sum = 0;
  for (std::int64_t l = 0; l < LANES; ++l) sum += static_cast<double>(lane[l]);
  return sum;
}

// visit(first column) for every row of pixels.
template <class Visit>
CUTLEARN_INLINE void each_row(const Layout& layout, const Visit& visit) {
  for (std::int64_t p = 0; p < layout.n; ++p)
    for (std::int64_t y = 0; y < layout.h; ++y) visit(layout.row(p, y));
}

// plane = what(x, column) at pixels, zero elsewhere.
template <class T, class What>
CUTLEARN_INLINE void write(const Layout& layout, T* plane, const What& what) {
  const std::int64_t w = layout.w;
  std::fill(plane, plane + layout.rim(), T(0));
  for (std::int64_t p = 0; p < layout.n; ++p) {
    for (std::int64_t y = 0; y < layout.h; ++y) {
      const std::int64_t at = layout.row(p, y);
#pragma omp simd
      for (std::int64_t x = 0; x < w; ++x) plane[at + x] = what(at + x);
      plane[at + w] = T(0);
    }
    T* below = plane + layout.row(p, layout.h);
    std::fill(below, below + layout.stride(), T(0));
  }
  std::fill(plane + layout.rim() + layout.span(), plane + layout.length(), T(0));
}

template <class T>
CUTLEARN_INLINE Moments<T> normalised(const Layout& layout, const T* u, T gain, T shift, T least,
                                      T* z) {
  const auto count = static_cast<double>(layout.pixels());
  double total = 0, squares = 0;
  each_row(layout, [&](std::int64_t at) {
    total += row_sum<T>(layout.w, [&](std::int64_t x) { return u[at + x]; });
  });
  const T mean = static_cast<T>(total / count);
  each_row(layout, [&](std::int64_t at) {
    squares += row_sum<T>(layout.w, [&](std::int64_t x) {
      const T away = u[at + x] - mean;
      return away * away;
    });
  });
  const T variance = static_cast<T>(squares / count);
  const T scale = gain / std::sqrt(variance + least);
  write(layout, z, [&](std::int64_t x) {
    const T value = (u[x] - mean) * scale + shift;
    return value > T(0) ? value : T(0);
  });
  return {mean, variance};
}

template <class T>
CUTLEARN_INLINE ByUnit<T> normalised_back(const Layout& layout, const T* u, const T* z, T mean,
                                          T inverse, T gain, T* slope) {
  const auto count = static_cast<double>(layout.pixels());
  double shifts = 0, gains = 0;
  each_row(layout, [&](std::int64_t at) {
    shifts += row_sum<T>(layout.w,
                         [&](std::int64_t x) { return z[at + x] > T(0) ? slope[at + x] : T(0); });
    gains += row_sum<T>(layout.w, [&](std::int64_t x) {
      return (z[at + x] > T(0) ? slope[at + x] : T(0)) * ((u[at + x] - mean) * inverse);
    });
  });
  const T by_shift = static_cast<T>(shifts / count), by_gain = static_cast<T>(gains / count);
  const T scale = gain * inverse;
  write(layout, slope, [&](std::int64_t x) {
    const T steep = z[x] > T(0) ? slope[x] : T(0);
    return scale * (steep - by_shift - (u[x] - mean) * inverse * by_gain);
  });
  return {static_cast<T>(shifts), static_cast<T>(gains)};
}

// Two translations for single precision, one for double, which only tests use.
CUTLEARN_WIDE void run(const Layout& layout, const float* u, float gain, float shift, float least,
                       float* z, Moments<float>& found) {
  found = normalised(layout, u, gain, shift, least, z);
}
void run(const Layout& layout, const double* u, double gain, double shift, double least, double* z,
         Moments<double>& found) {
  found = normalised(layout, u, gain, shift, least, z);
}
CUTLEARN_WIDE void run(const Layout& layout, const float* u, const float* z, float mean,
                       float inverse, float gain, float* slope, ByUnit<float>& found) {
  found = normalised_back(layout, u, z, mean, inverse, gain, slope);
}
void run(const Layout& layout, const double* u, const double* z, double mean, double inverse,
         double gain, double* slope, ByUnit<double>& found) {
  found = normalised_back(layout, u, z, mean, inverse, gain, slope);
}

// visit(first column of a row, of the row below it, of their row in the halved layout)
template <class Visit>
void each_pair(const Layout& layout, const Visit& visit) {
  const Layout half = layout.halved();
  for (std::int64_t p = 0; p < half.n; ++p)
    for (std::int64_t y = 0; y < half.h; ++y)
      visit(layout.row(p, 2 * y), layout.row(p, 2 * y + 1), half.row(p, y));
}

}  // namespace

template <class T>
Moments<T> normalise(const Layout& layout, const T* u, T gain, T shift, T least, T* z) {
  Moments<T> found{};
  run(layout, u, gain, shift, least, z, found);
  return found;
}

template <class T>
ByUnit<T> normalise_back(const Layout& layout, const T* u, const T* z, T mean, T inverse, T gain,
                         T* slope) {
  ByUnit<T> found{};
  run(layout, u, z, mean, inverse, gain, slope, found);
  return found;
}

template <class T>
void rectify(const Layout& layout, T shift, T* u) {
  each_row(layout, [&](std::int64_t at) {
#pragma omp simd
    for (std::int64_t x = at; x < at + layout.w; ++x) {
      const T value = u[x] + shift;
      u[x] = value > T(0) ? value : T(0);
    }
  });
}

template <class T>
void pool(const Layout& layout, const T* plane, T* pooled) {
  const Layout half = layout.halved();
  write(half, pooled, [](std::int64_t) { return T(0); });
  each_pair(layout, [&](std::int64_t upper, std::int64_t lower, std::int64_t to) {
    for (std::int64_t x = 0; x < half.w; ++x)
      pooled[to + x] = std::max(std::max(plane[upper + 2 * x], plane[upper + 2 * x + 1]),
                                std::max(plane[lower + 2 * x], plane[lower + 2 * x + 1]));
  });
}

template <class T>
void pool_back(const Layout& layout, const T* plane, const T* pooled, const T* low, T* slope) {
  const std::int64_t w = layout.w / 2;
  each_pair(layout, [&](std::int64_t upper, std::int64_t lower, std::int64_t from) {
    for (const std::int64_t row : {upper, lower}) {
#pragma omp simd
      for (std::int64_t x = 0; x < w; ++x) {
        const T top = pooled[from + x], steep = low[from + x];
        const T left = plane[row + 2 * x] == top ? steep : T(0);
        const T right = plane[row + 2 * x + 1] == top ? steep : T(0);
        slope[row + 2 * x] += left;
        slope[row + 2 * x + 1] += right;
      }
    }
  });
}

template <class T>
void enlarge(const Layout& layout, const T* low, const T* skip, T* out) {
  std::copy(skip, skip + layout.length(), out);
  const std::int64_t w = layout.w / 2;
  each_pair(layout, [&](std::int64_t upper, std::int64_t lower, std::int64_t from) {
    for (const std::int64_t row : {upper, lower}) {
#pragma omp simd
      for (std::int64_t x = 0; x < w; ++x) {
        out[row + 2 * x] = skip[row + 2 * x] + low[from + x];
        out[row + 2 * x + 1] = skip[row + 2 * x + 1] + low[from + x];
      }
    }
  });
}

template <class T>
void enlarge_back(const Layout& layout, const T* slope, T* low) {
  const Layout half = layout.halved();
  write(half, low, [](std::int64_t) { return T(0); });
  each_pair(layout, [&](std::int64_t upper, std::int64_t lower, std::int64_t to) {
    for (std::int64_t x = 0; x < half.w; ++x)
      low[to + x] = (slope[upper + 2 * x] + slope[lower + 2 * x]) +
                    (slope[upper + 2 * x + 1] + slope[lower + 2 * x + 1]);
  });
}

#define CUTLEARN_FOR(T)                                                              \
  template Moments<T> normalise(const Layout&, const T*, T, T, T, T*);               \
  template ByUnit<T> normalise_back(const Layout&, const T*, const T*, T, T, T, T*); \
  template void rectify(const Layout&, T, T*);                                       \
  template void pool(const Layout&, const T*, T*);                                   \
  template void pool_back(const Layout&, const T*, const T*, const T*, T*);          \
  template void enlarge(const Layout&, const T*, const T*, T*);                      \
  template void enlarge_back(const Layout&, const T*, T*);
CUTLEARN_FOR(float)
CUTLEARN_FOR(double)
#undef CUTLEARN_FOR

}  // namespace cutlearn
