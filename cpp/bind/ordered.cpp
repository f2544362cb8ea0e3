// The binding of the oracle of ordered labels: arrays in, planes out.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "bind/arrays.hpp"
#include "bind/failure.hpp"
#include "learn/ordered_oracle.hpp"

using namespace cutlearn;

namespace {

// Owns the arrays that its task views.
struct OrderedOracle {
  AnyTable node, edge;
  In<Id> ends;
  In<std::int16_t> fixed;
  In<std::uint8_t> truth;
  In<double> constant, cost;
  OrderedTask task;
};

void make_oracle(OrderedOracle* self, AnyTable node, AnyTable edge, Id labels,
                 std::vector<std::int64_t> shape, int connectivity, In<Id> ends,
                 In<std::int16_t> fixed) {
  auto* oracle = new (self) OrderedOracle{node, edge, ends, fixed, {}, {}, {}, {}};
  OrderedTask& task = oracle->task;
  task.node = table(node);
  task.edge = table(edge);
  task.labels = labels;
  task.shape = std::move(shape);
  task.connectivity = connectivity;
  task.ends = {ends.data(), ends.size()};
  task.fixed = {fixed.data(), fixed.size()};
  check_labels(labels);
  const Graph graph = graph_of(task.shape, connectivity, task.ends);
  check_features(graph, connectivity, task.node, task.edge);
  need((fixed.size() == 0 || fixed.size() == graph.nodes) && all_within(task.fixed, -1, labels - 1),
       "fixed must be empty, or -1 or a label for each node");
  task.survey();
}

void set_loss(OrderedOracle& self, In<std::uint8_t> truth, In<double> constant, In<double> cost,
              double loss_scale, double energy_scale) {
  OrderedTask& task = self.task;
  const std::size_t nodes = task.node.rows;
  need(truth.size() == nodes && all_within(view(truth), 0, task.labels - 1),
       "truth must be a label for each node");
  need(constant.size() > 0 &&
           cost.size() == constant.size() * nodes * static_cast<std::size_t>(task.labels),
       "a loss needs a constant for each piece, and a cost for each of its nodes and labels");
  self.truth = truth;
  self.constant = constant;
  self.cost = cost;
  task.truth = view(truth);
  task.constant = view(constant);
  task.cost = view(cost);
  task.loss_scale = loss_scale;
  task.energy_scale = energy_scale;
}

// Costs of labels; tables of the edges of each direction, and whether each edge has its own: as
// `ordered` takes them.
nb::object terms_at(const OrderedOracle& self, In<double> w) {
  const OrderedTask& task = self.task;
  need(task.weights() == w.size(), "w does not fit the features");
  OrderedScratch scratch;
  without_interpreter([&] { energy_terms(task, view(w), scratch); });
  std::vector<Out<double>> tables;
  std::vector<bool> each;
  for (std::size_t d = 0; d < scratch.tables.size(); ++d) {
    const std::size_t size = scratch.tables[d].size();
    tables.push_back(owned(std::move(scratch.tables[d]), {size}));
    each.push_back(!task.alike[d]);
  }
  const std::size_t size = scratch.unary.size();
  return nb::make_tuple(owned(std::move(scratch.unary), {size}), nb::cast(tables), nb::cast(each));
}

nb::object ask_all(const std::vector<const OrderedOracle*>& oracles, In<double> w, int threads) {
  const std::size_t size = 1 + w.size();
  for (const OrderedOracle* oracle : oracles) {
    need(oracle && oracle->task.weights() == w.size(), "w does not fit the features");
    need(!oracle->task.truth.empty(), "a plane needs a loss");
  }
  std::vector<double> planes(oracles.size() * size);
  try {
    without_interpreter([&] {
      parallel(
          oracles.size(), threads, [](int) { return OrderedScratch(); },
          [&](OrderedScratch& scratch, std::size_t i) {
            highest_plane(oracles[i]->task, view(w), {planes.data() + i * size, size}, scratch);
          });
    });
  } catch (const TaskFailure& failure) {
    raise(failure);
  }
  return nb::cast(owned(std::move(planes), {oracles.size(), size}));
}

}  // namespace

void bind_ordered(nb::module_& m) {
  nb::class_<OrderedOracle>(m, "OrderedOracle")
      .def("__init__", &make_oracle, nb::arg("node").noconvert(), nb::arg("edge").noconvert(),
           nb::arg("labels"), nb::arg("shape"), nb::arg("connectivity"),
           nb::arg("ends").noconvert(), nb::arg("fixed").noconvert(),
           nb::sig("def __init__(self, node: numpy.typing.NDArray[typing.Any], "
                   "edge: numpy.typing.NDArray[typing.Any], labels: int, "
                   "shape: collections.abc.Sequence[int], connectivity: int, "
                   "ends: numpy.typing.NDArray[numpy.int32], "
                   "fixed: numpy.typing.NDArray[numpy.int16]) -> None"))
      .def("set_loss", &set_loss, nb::arg("truth").noconvert(), nb::arg("constant").noconvert(),
           nb::arg("cost").noconvert(), nb::arg("loss_scale"), nb::arg("energy_scale"),
           nb::sig("def set_loss(self, truth: numpy.typing.NDArray[numpy.uint8], "
                   "constant: numpy.typing.NDArray[numpy.float64], "
                   "cost: numpy.typing.NDArray[numpy.float64], "
                   "loss_scale: float, energy_scale: float) -> None"))
      .def("terms", &terms_at, nb::arg("w").noconvert(),
           nb::sig("def terms(self, w: numpy.typing.NDArray[numpy.float64]) "
                   "-> tuple[numpy.typing.NDArray[numpy.float64], "
                   "list[numpy.typing.NDArray[numpy.float64]], list[bool]]"));
  m.def("highest_ordered_planes", &ask_all, nb::arg("oracles"), nb::arg("w").noconvert(),
        nb::arg("threads"),
        nb::sig("def highest_ordered_planes(oracles: collections.abc.Sequence[OrderedOracle], "
                "w: numpy.typing.NDArray[numpy.float64], threads: int) "
                "-> numpy.typing.NDArray[numpy.float64]"));
}
