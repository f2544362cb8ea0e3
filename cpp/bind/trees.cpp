// The binding of trees/: growing and evaluating, the GIL released meanwhile.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <stdexcept>
#include <tuple>

#include "bind/arrays.hpp"
#include "trees/grow.hpp"
#include "trees/trees.hpp"

namespace nb = nanobind;
using cutlearn::In;
using cutlearn::view;

namespace {

template <typename T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Logits = nb::ndarray<double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

template <typename T>
std::span<const T> flat(const Matrix<T>& matrix) {
  return {matrix.data(), matrix.size()};
}

template <typename T>
std::int64_t size_of(const Matrix<T>& matrix, std::size_t axis) {
  return static_cast<std::int64_t>(matrix.shape(axis));
}

void evaluate_trees(In<std::int32_t> feature, In<float> threshold, In<std::int32_t> left,
                    In<std::int32_t> right, Matrix<double> value, In<std::int32_t> roots,
                    In<double> baseline, In<float> buffer, In<std::int64_t> start,
                    std::int64_t stride, std::int64_t step, Logits out) {
  if (out.shape(0) != baseline.size())
    throw std::invalid_argument("trees: out must have a plane for each question");
  const cutlearn::Trees trees{view(feature),   view(left),  view(right),   view(roots),
                              view(threshold), flat(value), view(baseline)};
  const cutlearn::Columns columns{view(buffer),
                                  view(start),
                                  static_cast<std::int64_t>(out.shape(1)),
                                  static_cast<std::int64_t>(out.shape(2)),
                                  stride,
                                  step};
  const std::span<double> target{out.data(), out.size()};
  nb::gil_scoped_release released;
  cutlearn::check(trees, columns);
  cutlearn::evaluate(trees, columns, target);
}

using cutlearn::Out;
using Grown = std::tuple<Out<std::int32_t>, Out<std::int32_t>, Out<std::int32_t>, Out<std::int32_t>,
                         Out<double>, Out<std::int32_t>>;

Grown grow_trees(Matrix<std::uint8_t> bins, Matrix<std::uint8_t> answers,
                 Matrix<std::int32_t> drawn, In<double> first, std::int64_t leaves,
                 std::int64_t least, double rate, double l2) {
  if (bins.shape(1) != answers.shape(0) || answers.shape(1) != first.size())
    throw std::invalid_argument("grow: arrays of different lengths");
  const cutlearn::Growth task{flat(bins),
                              flat(answers),
                              flat(drawn),
                              view(first),
                              size_of(bins, 0),
                              size_of(bins, 1),
                              size_of(answers, 1),
                              size_of(drawn, 0),
                              size_of(drawn, 1),
                              leaves,
                              least,
                              rate,
                              l2};
  cutlearn::Grown grown = cutlearn::without_interpreter([&] { return cutlearn::grow(task); });
  const std::size_t nodes = grown.feature.size(), trees = grown.roots.size();
  return Grown(cutlearn::owned(std::move(grown.feature), {nodes}),
               cutlearn::owned(std::move(grown.bin), {nodes}),
               cutlearn::owned(std::move(grown.left), {nodes}),
               cutlearn::owned(std::move(grown.right), {nodes}),
               cutlearn::owned(std::move(grown.value), {nodes, answers.shape(1)}),
               cutlearn::owned(std::move(grown.roots), {trees}));
}

}  // namespace

void bind_trees(nb::module_& m) {
  m.def("evaluate_trees", &evaluate_trees, nb::arg("feature").noconvert(),
        nb::arg("threshold").noconvert(), nb::arg("left").noconvert(), nb::arg("right").noconvert(),
        nb::arg("value").noconvert(), nb::arg("roots").noconvert(), nb::arg("baseline").noconvert(),
        nb::arg("buffer").noconvert(), nb::arg("start").noconvert(), nb::arg("stride"),
        nb::arg("step"), nb::arg("out").noconvert(),
        "Write baseline + the sum of the trees' values into out, a plane of logits a question.");
  m.def(
      "grow_trees", &grow_trees, nb::arg("bins").noconvert(), nb::arg("answers").noconvert(),
      nb::arg("drawn").noconvert(), nb::arg("first").noconvert(), nb::arg("leaves"),
      nb::arg("least"), nb::arg("rate"), nb::arg("l2"),
      "Boost trees whose leaves have a value a question; feature, bin, left, right, value, roots.");
  m.attr("TREE_BINS") = cutlearn::BINS;
  m.attr("MOST_TREE_ROWS") = cutlearn::MOST_ROWS;
}
