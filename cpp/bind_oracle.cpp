// The door to the oracle: arrays in, planes out, the interpreter's lock released.

#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "oracle.hpp"

namespace nb = nanobind;
using namespace cutlearn;

namespace {

template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using AnyTable = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Owns the arrays that its task views.
struct Oracle {
  AnyTable node, edge;
  In<Id> ends;
  In<std::int8_t> fixed;
  In<std::uint8_t> truth;
  In<double> constant, unary;
  OracleTask task;
};

Table table(const AnyTable& array) {
  const bool single = array.dtype() == nb::dtype<float>();
  if (!single && array.dtype() != nb::dtype<double>())
    throw std::invalid_argument("features must be float32 or float64");
  return {array.data(), single, array.shape(0), array.shape(1)};
}

void make_oracle(Oracle* self, AnyTable node, AnyTable edge, std::vector<std::int64_t> shape,
                 int connectivity, In<Id> ends, In<std::int8_t> fixed, In<std::uint8_t> truth,
                 In<double> constant, In<double> unary, double loss_scale, double energy_scale) {
  auto* oracle = new (self) Oracle{node, edge, ends, fixed, truth, constant, unary, {}};
  OracleTask& task = oracle->task;
  task.node = table(node);
  task.edge = table(edge);
  task.shape = std::move(shape);
  task.connectivity = connectivity;
  task.ends = {ends.data(), ends.size()};
  task.fixed = {fixed.data(), fixed.size()};
  task.truth = {truth.data(), truth.size()};
  task.constant = {constant.data(), constant.size()};
  task.unary = {unary.data(), unary.size()};
  task.loss_scale = loss_scale;
  task.energy_scale = energy_scale;
  if (truth.size() != task.node.rows || unary.size() != constant.size() * task.node.rows)
    throw std::invalid_argument("the arrays of an oracle do not fit each other");
}

nb::object ask_all(const std::vector<const Oracle*>& oracles, In<double> w, int threads) {
  const std::size_t size = 1 + w.size();
  std::vector<const OracleTask*> tasks;
  for (const Oracle* oracle : oracles) {
    if (oracle->task.node.columns + oracle->task.edge.columns != w.size())
      throw std::invalid_argument("w does not fit the features");
    tasks.push_back(&oracle->task);
  }
  auto* planes = new std::vector<double>(tasks.size() * size);
  nb::capsule owner(planes, [](void* p) noexcept { delete static_cast<std::vector<double>*>(p); });
  {
    nb::gil_scoped_release release;
    oracle_round(tasks, {w.data(), w.size()}, planes->data(), threads);
  }
  return nb::cast(nb::ndarray<nb::numpy, double, nb::c_contig>(planes->data(),
                                                               {tasks.size(), size}, owner));
}

}  // namespace

void bind_oracle(nb::module_& m) {
  nb::class_<Oracle>(m, "Oracle")
      .def("__init__", &make_oracle, nb::arg("node").noconvert(), nb::arg("edge").noconvert(),
           nb::arg("shape"), nb::arg("connectivity"), nb::arg("ends").noconvert(),
           nb::arg("fixed").noconvert(), nb::arg("truth").noconvert(),
           nb::arg("constant").noconvert(), nb::arg("unary").noconvert(), nb::arg("loss_scale"),
           nb::arg("energy_scale"),
           nb::sig("def __init__(self, node: numpy.typing.NDArray[typing.Any], "
                   "edge: numpy.typing.NDArray[typing.Any], "
                   "shape: collections.abc.Sequence[int], connectivity: int, "
                   "ends: numpy.typing.NDArray[numpy.int32], "
                   "fixed: numpy.typing.NDArray[numpy.int8], "
                   "truth: numpy.typing.NDArray[numpy.uint8], "
                   "constant: numpy.typing.NDArray[numpy.float64], "
                   "unary: numpy.typing.NDArray[numpy.float64], "
                   "loss_scale: float, energy_scale: float) -> None"));
  m.def("oracle_round", &ask_all, nb::arg("oracles"), nb::arg("w").noconvert(), nb::arg("threads"),
        nb::sig("def oracle_round(oracles: collections.abc.Sequence[Oracle], "
                "w: numpy.typing.NDArray[numpy.float64], threads: int) "
                "-> numpy.typing.NDArray[numpy.float64]"));
}
