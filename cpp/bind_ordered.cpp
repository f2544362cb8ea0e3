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

// An input that was surveyed, and the network of one without a fault.
struct Door {
  OrderedFault fault;
  std::unique_ptr<Ordered> flow;
};

std::unique_ptr<Door> open(In<double> unary, Id labels, std::vector<std::int64_t> shape,
                           int connectivity, In<Id> edges, std::vector<In<double>> tables,
                           std::vector<bool> each, In<std::int16_t> fixed) {
  OrderedInput input;
  input.labels = labels;
  input.unary = {unary.data(), unary.size()};
  input.shape = std::move(shape);
  input.connectivity = connectivity;
  input.edges = {edges.data(), edges.size()};
  for (std::size_t d = 0; d < tables.size(); ++d)
    input.tables.push_back({tables[d].data(), each[d]});
  input.fixed = {fixed.data(), fixed.size()};
  nb::gil_scoped_release release;
  OrderedTerms terms(input);
  auto door = std::make_unique<Door>(Door{terms.fault, nullptr});
  if (terms.fault.what == OrderedFault::kNone) door->flow = make_ordered(input, std::move(terms));
  return door;
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
  nb::class_<Door>(m, "Ordered")
      .def_prop_ro("fault", [](const Door& d) { return d.fault; })
      .def("solve", [](Door& d) { d.flow->solve(); }, nb::call_guard<nb::gil_scoped_release>())
      .def("labels",
           [](const Door& d, std::vector<std::size_t> shape) {
             const auto labels = d.flow->labels();
             return owned(std::vector<std::uint8_t>(labels.begin(), labels.end()), shape);
           })
      .def_prop_ro("minimum", [](const Door& d) { return d.flow->minimum(); })
      .def_prop_ro("scale", [](const Door& d) { return d.flow->terms().scale; })
      .def_prop_ro("inexact", [](const Door& d) { return d.flow->terms().inexact; })
      .def_prop_ro("clipped", [](const Door& d) { return d.flow->terms().beyond; })
      .def_prop_ro("clipped_exactly", [](const Door& d) { return d.flow->terms().beyond_exactly; })
      .def("min_marginals", [](Door& d, std::vector<std::size_t> shape) {
        std::size_t size = 1;
        for (const std::size_t s : shape) size *= s;
        std::vector<double> least(size);
        {
          nb::gil_scoped_release release;
          d.flow->min_marginals(least.data());
        }
        return owned(std::move(least), shape);
      });
  m.def("ordered", &open, nb::arg("unary").noconvert(), nb::arg("labels"),
        nb::arg("shape"), nb::arg("connectivity"), nb::arg("edges").noconvert(),
        nb::arg("tables").noconvert(), nb::arg("each"), nb::arg("fixed").noconvert(),
        nb::sig("def ordered(unary: numpy.typing.NDArray[numpy.float64], labels: int, "
                "shape: collections.abc.Sequence[int], connectivity: int, "
                "edges: numpy.typing.NDArray[numpy.int32], "
                "tables: collections.abc.Sequence[numpy.typing.NDArray[numpy.float64]], "
                "each: collections.abc.Sequence[bool], "
                "fixed: numpy.typing.NDArray[numpy.int16]) -> Ordered"));
}
