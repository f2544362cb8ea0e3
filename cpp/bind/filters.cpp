// The binding of filters/filters.hpp: arrays in, arrays out, the GIL released at work.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <vector>

#include "bind/arrays.hpp"
#include "filters/filters.hpp"

namespace nb = nanobind;
using cutlearn::In, cutlearn::need, cutlearn::view;

namespace {

using Stacked = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Made = nb::ndarray<float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Moves = nb::ndarray<const std::int64_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;

std::int64_t size_of(const auto& array, std::size_t axis) {
  return static_cast<std::int64_t>(array.shape(axis));
}

cutlearn::Stack stack_of(const Stacked& stack) {
  return {stack.data(), size_of(stack, 0), size_of(stack, 1), size_of(stack, 2)};
}

void smooth(Stacked stack, std::int64_t first, In<double> down, double down_sign, In<double> across,
            double across_sign, Made out) {
  const auto given = stack_of(stack);
  need(first >= 0 && first <= given.rows - size_of(out, 1) && given.cols > 0 &&
           size_of(out, 0) == given.planes && size_of(out, 2) == given.cols && down.shape(0) > 0 &&
           across.shape(0) > 0,
       "smooth: rows outside the stack, or an empty kernel");
  const std::int64_t last = first + size_of(out, 1);
  nb::gil_scoped_release released;
  cutlearn::smooth(given, first, last, {view(down), down_sign}, {view(across), across_sign},
                   out.data());
}

void rings(Stacked plane, Moves moves, std::int64_t pad, Made out) {
  const std::int64_t rows = size_of(out, 1), cols = size_of(out, 2);
  need(size_of(plane, 0) == 1 && size_of(out, 0) == 4 && pad >= 0 && pad <= size_of(plane, 1) &&
           size_of(plane, 1) >= rows + 2 * pad && size_of(plane, 2) >= cols + 2 * pad,
       "rings: the plane is too small for the moves");
  std::vector<cutlearn::Move> list;
  for (std::size_t k = 0; k < moves.shape(0); ++k) {
    list.push_back({moves(k, 0), moves(k, 1)});
    need(list.back().down >= -pad && list.back().down <= pad && list.back().across >= -pad &&
             list.back().across <= pad,
         "rings: a move leads further than the padding");
  }
  nb::gil_scoped_release released;
  cutlearn::rings(plane.data(), size_of(plane, 2), list, pad, rows, cols, out.data());
}

void enlarge(Stacked small, In<std::int64_t> low_rows, In<float> part_rows,
             In<std::int64_t> low_cols, In<float> part_cols, Made out) {
  const auto given = stack_of(small);
  need(low_rows.shape(0) == part_rows.shape(0) && low_cols.shape(0) == part_cols.shape(0) &&
           out.shape(0) == small.shape(0) && out.shape(1) == low_rows.shape(0) &&
           out.shape(2) == low_cols.shape(0),
       "enlarge: the shapes do not agree");
  for (const std::int64_t low : view(low_rows))
    need(low >= 0 && low < given.rows, "enlarge: a row outside the stack");
  for (const std::int64_t low : view(low_cols))
    need(low >= 0 && low < given.cols, "enlarge: a column outside the stack");
  nb::gil_scoped_release released;
  cutlearn::enlarge(given, {view(low_rows), view(part_rows)}, {view(low_cols), view(part_cols)},
                    out.data());
}

}  // namespace

void bind_filters(nb::module_& m) {
  m.def("smooth", &smooth, nb::arg("stack").noconvert(), nb::arg("first"),
        nb::arg("down").noconvert(), nb::arg("down_sign"), nb::arg("across").noconvert(),
        nb::arg("across_sign"), nb::arg("out").noconvert(),
        "Filter rows of all planes by a kernel along columns and one along rows.");
  m.def("rings", &rings, nb::arg("plane").noconvert(), nb::arg("moves").noconvert(), nb::arg("pad"),
        nb::arg("out").noconvert(),
        "Write sum, sum of squares, least and largest of samples around every pixel.");
  m.def("enlarge", &enlarge, nb::arg("small").noconvert(), nb::arg("low_rows").noconvert(),
        nb::arg("part_rows").noconvert(), nb::arg("low_cols").noconvert(),
        nb::arg("part_cols").noconvert(), nb::arg("out").noconvert(),
        "Interpolate all planes, first along rows, then along columns.");
}
