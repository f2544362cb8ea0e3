// The binding of net/planes.hpp: layers on matrices (channels, length), in float32 or float64,
// written into arrays that the caller brings; the GIL is released while they work.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <tuple>

#include "net/planes.hpp"

namespace nb = nanobind;
using cutlearn::Layout;

namespace {

template <class T>
using Planes = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Written = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Line = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using WrittenLine = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Size = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

Layout layout_of(const Size& size) {
  const auto [n, h, w] = size;
  if (n < 1 || h < 1 || w < 1 || n > 1 << 20 || h > 1 << 20 || w > 1 << 20)
    throw std::invalid_argument("net: pictures of no or too many pixels");
  return {n, h, w};
}

void agree(bool holds) {
  if (!holds) throw std::invalid_argument("net: arrays of different numbers of channels");
}

// The number of channels, the same in all arrays: planes of the layout's length, or one number each.
template <class First, class... Rest>
std::int64_t channels(const Layout& layout, const First& first, const Rest&... rest) {
  const auto check = [&](const auto& array) {
    if (array.ndim() == 2 && static_cast<std::int64_t>(array.shape(1)) != layout.length())
      throw std::invalid_argument("net: planes of another length than the pictures need");
    agree(array.shape(0) == first.shape(0));
  };
  check(first);
  (check(rest), ...);
  return static_cast<std::int64_t>(first.shape(0));
}

// Calls f(channel, its first column) for every channel, the GIL released.
template <class F>
void each_channel(const Layout& layout, std::int64_t count, F&& f) {
  const nb::gil_scoped_release released;
  for (std::int64_t i = 0; i < count; ++i) f(i, i * layout.length());
}

// Likewise, with the first column in the halved layout.
template <class F>
void each_pair(const Layout& layout, std::int64_t count, F&& f) {
  const nb::gil_scoped_release released;
  for (std::int64_t i = 0; i < count; ++i) f(i * layout.length(), i * layout.halved().length());
}

template <class T>
void bind_convolutions(nb::module_& m) {
  m.def(
      "net_convolve",
      [](Planes<T> planes, Planes<T> kernel, Size size, Written<T> out) {
        const Layout layout = layout_of(size);
        const std::int64_t c = channels(layout, planes), o = channels(layout, out);
        agree(static_cast<std::int64_t>(kernel.shape(0)) == o &&
              static_cast<std::int64_t>(kernel.shape(1)) == 9 * c);
        const nb::gil_scoped_release released;
        cutlearn::convolve(layout, planes.data(), c, kernel.data(), o, out.data());
      },
      nb::arg("planes").noconvert(), nb::arg("kernel").noconvert(), nb::arg("size"),
      nb::arg("out").noconvert(), "Convolve planes by 3 x 3.");
  m.def(
      "net_kernel_back",
      [](Planes<T> slope, Planes<T> planes, Size size, Written<T> by_kernel) {
        const Layout layout = layout_of(size);
        const std::int64_t o = channels(layout, slope), c = channels(layout, planes);
        agree(static_cast<std::int64_t>(by_kernel.shape(0)) == o &&
              static_cast<std::int64_t>(by_kernel.shape(1)) == 9 * c);
        const nb::gil_scoped_release released;
        cutlearn::kernel_back(layout, slope.data(), o, planes.data(), c, by_kernel.data());
      },
      nb::arg("slope").noconvert(), nb::arg("planes").noconvert(), nb::arg("size"),
      nb::arg("by_kernel").noconvert(), "Write the gradient of net_convolve by its kernel.");
}

template <class T>
void bind_units(nb::module_& m) {
  m.def(
      "net_normalise",
      [](Planes<T> u, Line<T> gain, Line<T> shift, double least, Size size, Written<T> z,
         WrittenLine<T> mean, WrittenLine<T> variance) {
        const Layout layout = layout_of(size);
        const std::int64_t c = channels(layout, u, z, gain, shift, mean, variance);
        each_channel(layout, c, [&](std::int64_t i, std::int64_t at) {
          const auto found =
              cutlearn::normalise<T>(layout, u.data() + at, gain.data()[i], shift.data()[i],
                                     static_cast<T>(least), z.data() + at);
          mean.data()[i] = found.mean;
          variance.data()[i] = found.variance;
        });
      },
      nb::arg("u").noconvert(), nb::arg("gain").noconvert(), nb::arg("shift").noconvert(),
      nb::arg("least"), nb::arg("size"), nb::arg("z").noconvert(), nb::arg("mean").noconvert(),
      nb::arg("variance").noconvert(), "Normalise every channel, scale, shift and rectify it.");
  m.def(
      "net_normalise_back",
      [](Planes<T> u, Planes<T> z, Line<T> mean, Line<T> inverse, Line<T> gain, Size size,
         Written<T> slope, WrittenLine<T> by_shift, WrittenLine<T> by_gain) {
        const Layout layout = layout_of(size);
        const std::int64_t c =
            channels(layout, u, z, slope, mean, inverse, gain, by_shift, by_gain);
        each_channel(layout, c, [&](std::int64_t i, std::int64_t at) {
          const auto found =
              cutlearn::normalise_back<T>(layout, u.data() + at, z.data() + at, mean.data()[i],
                                          inverse.data()[i], gain.data()[i], slope.data() + at);
          by_shift.data()[i] = found.by_shift;
          by_gain.data()[i] = found.by_gain;
        });
      },
      nb::arg("u").noconvert(), nb::arg("z").noconvert(), nb::arg("mean").noconvert(),
      nb::arg("inverse").noconvert(), nb::arg("gain").noconvert(), nb::arg("size"),
      nb::arg("slope").noconvert(), nb::arg("by_shift").noconvert(), nb::arg("by_gain").noconvert(),
      "Go back through net_normalise: slope, by z, becomes the gradient by u.");
  m.def(
      "net_rectify",
      [](Written<T> u, Line<T> shift, Size size) {
        const Layout layout = layout_of(size);
        each_channel(layout, channels(layout, u, shift), [&](std::int64_t i, std::int64_t at) {
          cutlearn::rectify<T>(layout, shift.data()[i], u.data() + at);
        });
      },
      nb::arg("u").noconvert(), nb::arg("shift").noconvert(), nb::arg("size"),
      "Shift and rectify every channel, in place.");
}

template <class T>
void bind_levels(nb::module_& m) {
  m.def(
      "net_pool",
      [](Planes<T> planes, Size size, Written<T> pooled) {
        const Layout layout = layout_of(size);
        const std::int64_t c = channels(layout, planes);
        agree(channels(layout.halved(), pooled) == c);
        each_pair(layout, c, [&](std::int64_t at, std::int64_t low) {
          cutlearn::pool(layout, planes.data() + at, pooled.data() + low);
        });
      },
      nb::arg("planes").noconvert(), nb::arg("size"), nb::arg("pooled").noconvert(),
      "Write the largest of every 2 x 2 pixels.");
  m.def(
      "net_pool_back",
      [](Planes<T> planes, Planes<T> pooled, Planes<T> low, Size size, Written<T> slope) {
        const Layout layout = layout_of(size);
        const std::int64_t c = channels(layout, planes, slope);
        agree(channels(layout.halved(), pooled, low) == c);
        each_pair(layout, c, [&](std::int64_t at, std::int64_t half) {
          cutlearn::pool_back(layout, planes.data() + at, pooled.data() + half, low.data() + half,
                              slope.data() + at);
        });
      },
      nb::arg("planes").noconvert(), nb::arg("pooled").noconvert(), nb::arg("low").noconvert(),
      nb::arg("size"), nb::arg("slope").noconvert(),
      "Add the gradient of net_pool by its planes to slope.");
  m.def(
      "net_enlarge",
      [](Planes<T> low, Planes<T> skip, Size size, Written<T> out) {
        const Layout layout = layout_of(size);
        const std::int64_t c = channels(layout, skip, out);
        agree(channels(layout.halved(), low) == c);
        each_pair(layout, c, [&](std::int64_t at, std::int64_t half) {
          cutlearn::enlarge(layout, low.data() + half, skip.data() + at, out.data() + at);
        });
      },
      nb::arg("low").noconvert(), nb::arg("skip").noconvert(), nb::arg("size"),
      nb::arg("out").noconvert(), "Write every pixel four times, plus skip.");
  m.def(
      "net_enlarge_back",
      [](Planes<T> slope, Size size, Written<T> low) {
        const Layout layout = layout_of(size);
        const std::int64_t c = channels(layout, slope);
        agree(channels(layout.halved(), low) == c);
        each_pair(layout, c, [&](std::int64_t at, std::int64_t half) {
          cutlearn::enlarge_back(layout, slope.data() + at, low.data() + half);
        });
      },
      nb::arg("slope").noconvert(), nb::arg("size"), nb::arg("low").noconvert(),
      "Write the gradient of net_enlarge by its small planes.");
}

}  // namespace

void bind_net(nb::module_& m) {
  bind_convolutions<float>(m);
  bind_convolutions<double>(m);
  bind_units<float>(m);
  bind_units<double>(m);
  bind_levels<float>(m);
  bind_levels<double>(m);
}
