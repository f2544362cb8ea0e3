// The door to ordered labels: arrays in, labels and least energies out.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "ordered.hpp"

namespace nb = nanobind;
using namespace cutlearn;

namespace {

template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<nb::numpy, T, nb::c_contig>;

template <class T>
Out<T> owned(std::vector<T> values, std::vector<std::size_t> shape) {
  auto* data = new std::vector<T>(std::move(values));
  nb::capsule owner(data, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Out<T>(data->data(), shape.size(), shape.data(), owner);
}

std::unique_ptr<Ordered> make_ordered(In<double> unary, Id labels, std::vector<std::int64_t> shape,
                                      int connectivity, In<Id> edges,
                                      std::vector<In<double>> tables, std::vector<bool> each,
                                      In<std::int16_t> fixed) {
  OrderedInput input;
  input.labels = labels;
  input.unary = {unary.data(), unary.size()};
  input.shape = std::move(shape);
  input.connectivity = connectivity;
  input.edges = {edges.data(), edges.size()};
  for (std::size_t d = 0; d < tables.size(); ++d) input.tables.push_back({tables[d].data(), each[d]});
  input.fixed = {fixed.data(), fixed.size()};
  nb::gil_scoped_release release;
  return std::make_unique<Ordered>(input);
}

}  // namespace

void bind_ordered(nb::module_& m) {
  nb::class_<OrderedFault>(m, "OrderedFault")
      .def_prop_ro("what", [](const OrderedFault& f) { return static_cast<int>(f.what); })
      .def_ro("index", &OrderedFault::index)
      .def_ro("direction", &OrderedFault::direction)
      .def_ro("a", &OrderedFault::a)
      .def_ro("b", &OrderedFault::b)
      .def_ro("amount", &OrderedFault::amount);
  nb::class_<Ordered>(m, "Ordered")
      .def_prop_ro("fault", &Ordered::fault)
      .def("solve", &Ordered::solve, nb::call_guard<nb::gil_scoped_release>())
      .def("labels",
           [](const Ordered& o, std::vector<std::size_t> shape) {
             return owned(std::vector<std::uint8_t>(o.labels().begin(), o.labels().end()), shape);
           })
      .def_prop_ro("minimum", &Ordered::minimum)
      .def_prop_ro("scale", &Ordered::scale)
      .def_prop_ro("inexact", &Ordered::inexact)
      .def_prop_ro("clipped", &Ordered::beyond)
      .def_prop_ro("clipped_exactly", &Ordered::beyond_exactly)
      .def("min_marginals", [](Ordered& o, std::vector<std::size_t> shape) {
        std::size_t size = 1;
        for (const std::size_t s : shape) size *= s;
        std::vector<double> least(size);
        {
          nb::gil_scoped_release release;
          o.min_marginals(least.data());
        }
        return owned(std::move(least), shape);
      });
  m.def("ordered", &make_ordered, nb::arg("unary").noconvert(), nb::arg("labels"),
        nb::arg("shape"), nb::arg("connectivity"), nb::arg("edges").noconvert(),
        nb::arg("tables").noconvert(), nb::arg("each"), nb::arg("fixed").noconvert(),
        nb::sig("def ordered(unary: numpy.typing.NDArray[numpy.float64], labels: int, "
                "shape: collections.abc.Sequence[int], connectivity: int, "
                "edges: numpy.typing.NDArray[numpy.int32], "
                "tables: collections.abc.Sequence[numpy.typing.NDArray[numpy.float64]], "
                "each: collections.abc.Sequence[bool], "
                "fixed: numpy.typing.NDArray[numpy.int16]) -> Ordered"));
}
