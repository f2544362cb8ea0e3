// The layers of the small net on flat padded planes, forward and back.
//
// A batch of n pictures of h x w pixels and c channels is a matrix (c, length), one plane a row.
// Each row of pixels is followed by one zero, each picture by one row of zeros, and a plane has a
// rim of zeros on both ends, so that a pixel's neighbour in any direction is a fixed number of
// columns away, also at the border. `Layout` has the numbers.
//
// All functions are plain loops over contiguous columns. A sum is always taken in one order, that
// of the loops as they are written, whatever the compiler makes of them: lanes of a vector are
// different pixels or different channels. So any number of threads gives the same result.
//
// Precondition of all: arrays have `Layout::length` columns, and none is written that is read,
// unless said. Postcondition: what lies between the pictures of a written plane is zero.
#pragma once

#include <cstdint>

namespace cutlearn {

struct Layout {
  std::int64_t n, h, w;

  std::int64_t stride() const { return w + 1; }
  std::int64_t rim() const { return stride() + 1; }
  std::int64_t span() const { return n * (h + 1) * stride(); }
  std::int64_t length() const { return span() + 2 * rim(); }
  std::int64_t pixels() const { return n * h * w; }
  // The first column of a row of pixels.
  std::int64_t row(std::int64_t picture, std::int64_t y) const {
    return rim() + (picture * (h + 1) + y) * stride();
  }
  Layout halved() const { return {n, h / 2, w / 2}; }
};

// out[o] = sum over directions k, then channels i, of kernel[o, k c + i] planes[i, shifted by k];
// kernel (outputs, 9 c), out (outputs, length).
template <class T>
void convolve(const Layout& layout, const T* planes, std::int64_t c, const T* kernel,
              std::int64_t outputs, T* out);

// The gradient of `convolve` by its kernel, (outputs, 9 c), from that by its output, `slope`.
template <class T>
void kernel_back(const Layout& layout, const T* slope, std::int64_t outputs, const T* planes,
                 std::int64_t c, T* by_kernel);

// One channel of a unit: mean and variance (+ least) of u over all pixels, and
// z = max(0, gain (u - mean) / deviation + shift).
template <class T>
struct Moments {
  T mean, variance;
};
template <class T>
Moments<T> normalise(const Layout& layout, const T* u, T gain, T shift, T least, T* z);

// Back through `normalise`, in place: slope is the gradient by z, then that by u. With
// v = (u - mean) inverse and d = slope where z > 0, else 0:
// du = gain inverse (d - mean d - v mean(v d)); by_shift = sum d, by_gain = sum v d.
template <class T>
struct ByUnit {
  T by_shift, by_gain;
};
template <class T>
ByUnit<T> normalise_back(const Layout& layout, const T* u, const T* z, T mean, T inverse, T gain,
                         T* slope);

// u = max(0, u + shift), in place, of one channel.
template <class T>
void rectify(const Layout& layout, T shift, T* u);

// The largest of every 2 x 2 pixels, in the halved layout; one channel.
template <class T>
void pool(const Layout& layout, const T* plane, T* pooled);

// slope += the gradient of `pool` by its plane, from that by its output, `low`. All that are
// largest get it: ties are zeros of a rectifier, whose own gradient is zero.
template <class T>
void pool_back(const Layout& layout, const T* plane, const T* pooled, const T* low, T* slope);

// out = skip + every pixel of the halved layout four times; one channel.
template <class T>
void enlarge(const Layout& layout, const T* low, const T* skip, T* out);

// low = the sum of every 2 x 2 pixels, in the halved layout; one channel.
template <class T>
void enlarge_back(const Layout& layout, const T* slope, T* low);

}  // namespace cutlearn
