// What the doors of the core share: arrays in as views, arrays out with an owner.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "learn/oracle.hpp"
#include "run/interrupt.hpp"
#include "run/pool.hpp"

namespace cutlearn {

namespace nb = nanobind;

template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<nb::numpy, T, nb::c_contig>;
using AnyTable = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> view(const In<T>& array) {
  return {array.data(), array.size()};
}

template <class T>
Out<T> owned(std::vector<T> values, std::vector<std::size_t> shape) {
  auto* data = new std::vector<T>(std::move(values));
  nb::capsule owner(data, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Out<T>(data->data(), shape.size(), shape.data(), owner);
}

// An array whose numbers are not set, in memory that the next one takes over (run/pool.hpp).
inline Out<double> room(std::vector<std::size_t> shape) {
  std::size_t size = 1;
  for (const std::size_t n : shape) size *= n;
  auto* data = new PooledVector<double>();
  nb::capsule owner(data, [](void* p) noexcept { delete static_cast<PooledVector<double>*>(p); });
  data->reserve(size);
  return Out<double>(data->data(), shape.size(), shape.data(), owner);
}

// Long work that needs no interpreter. Other threads of Python go on meanwhile, and a signal such
// as Ctrl-C ends it with the exception of the signal's handler.
template <class F>
auto without_interpreter(F&& work) {
  const Question signalled = [] {
    const nb::gil_scoped_acquire interpreter;
    return PyErr_CheckSignals() != 0;  // the exception stays pending in this thread
  };
  try {
    const nb::gil_scoped_release release;
    const Asking asking(signalled);
    return work();
  } catch (const Interrupted&) {
    throw nb::python_error();
  }
}

// Features in single or double precision.
inline Table table(const AnyTable& array) {
  const bool single = array.dtype() == nb::dtype<float>();
  if (!single && array.dtype() != nb::dtype<double>())
    throw std::invalid_argument("features must be float32 or float64");
  return {array.data(), single, array.shape(0), array.shape(1)};
}

}  // namespace cutlearn
