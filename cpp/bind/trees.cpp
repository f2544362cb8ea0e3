// Python's door to trees/trees.hpp: one function on arrays, the GIL released while it works.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>

#include "trees/trees.hpp"

namespace nb = nanobind;

namespace {

template <typename T>
using Line = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Logits = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <typename T>
std::span<const T> view(const Line<T>& line) {
  return {line.data(), line.shape(0)};
}

void evaluate_trees(Line<std::int32_t> feature, Line<float> threshold, Line<std::int32_t> left,
                    Line<std::int32_t> right, Line<double> value, Line<std::int32_t> roots,
                    double baseline, Line<float> buffer, Line<std::int64_t> start,
                    std::int64_t stride, std::int64_t step, Logits out) {
  const cutlearn::Trees trees{view(feature),   view(left),  view(right), view(roots),
                              view(threshold), view(value), baseline};
  const cutlearn::Columns columns{view(buffer),
                                  view(start),
                                  static_cast<std::int64_t>(out.shape(0)),
                                  static_cast<std::int64_t>(out.shape(1)),
                                  stride,
                                  step};
  const std::span<double> target{out.data(), out.size()};
  nb::gil_scoped_release released;
  cutlearn::check(trees, columns);
  cutlearn::evaluate(trees, columns, target);
}

}  // namespace

void bind_trees(nb::module_& m) {
  m.def("evaluate_trees", &evaluate_trees, nb::arg("feature").noconvert(),
        nb::arg("threshold").noconvert(), nb::arg("left").noconvert(), nb::arg("right").noconvert(),
        nb::arg("value").noconvert(), nb::arg("roots").noconvert(), nb::arg("baseline"),
        nb::arg("buffer").noconvert(), nb::arg("start").noconvert(), nb::arg("stride"),
        nb::arg("step"), nb::arg("out").noconvert(),
        "Write baseline + the sum of the trees' values into out, one logit a pixel.");
}
