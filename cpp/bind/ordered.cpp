// The door to ordered labels: arrays in, labels and least energies out.
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

constexpr Id kMostLabels = 255;  // a label is a byte

// An input that was surveyed, and the network of one without a fault.
struct Door {
  OrderedFault fault;
  std::unique_ptr<Ordered> flow;

  Ordered& network() const {
    need(flow != nullptr, "the energy has a fault, so that there is no network");
    return *flow;
  }
};

void check_labels(Id labels) {
  need(labels >= 2 && labels <= kMostLabels, "labels must be 2 to 255");
}

std::unique_ptr<Door> open(In<double> unary, Id labels, std::vector<std::int64_t> shape,
                           int connectivity, In<Id> edges, std::vector<In<double>> tables,
                           std::vector<bool> each, In<std::int16_t> fixed) {
  OrderedInput input;
  input.labels = labels;
  input.unary = {unary.data(), unary.size()};
  input.shape = std::move(shape);
  input.connectivity = connectivity;
  input.edges = {edges.data(), edges.size()};
  input.fixed = {fixed.data(), fixed.size()};
  check_labels(labels);
  const Graph graph = graph_of(input.shape, connectivity, input.edges);
  const auto L = static_cast<std::size_t>(labels);
  need(graph.nodes > 0 && unary.size() == graph.nodes * L,
       "unary must have a number for each pixel and label");
  need(tables.size() == each.size() && tables.size() == graph.edges.size(),
       "tables and each must have an entry for each direction of edges");
  for (std::size_t d = 0; d < tables.size(); ++d) {
    need(tables[d].size() == (each[d] ? graph.edges[d] : 1) * L * L,
         "tables must have labels x labels numbers, for all edges or for each");
    input.tables.push_back({tables[d].data(), each[d]});
  }
  need(
      (fixed.size() == 0 || fixed.size() == graph.nodes) && all_within(input.fixed, -1, labels - 1),
      "fixed must be empty, or -1 or a label for each pixel");
  return without_interpreter([&] {
    OrderedTerms terms(input);
    auto door = std::make_unique<Door>(Door{terms.fault, nullptr});
    if (terms.fault.what == OrderedFault::kNone) door->flow = make_ordered(input, std::move(terms));
    return door;
  });
}

nb::object sum_argmins(Door& door, In<double> weights, In<Id> ends) {
  Ordered& flow = door.network();
  const std::size_t pixels = flow.labels().size(), L = flow.terms().L;
  need(weights.size() == pixels * L, "weights must have a number for each pixel and label");
  need(ends.size() == 2 * flow.terms().edge_count() &&
           all_within(view(ends), 0, static_cast<std::int64_t>(pixels) - 1),
       "ends must be the two pixels of each edge");
  std::vector<double> node(pixels * L), edge(ends.size() / 2 * L * L);
  without_interpreter(
      [&] { flow.argmin_sums(view(weights), view(ends), node.data(), edge.data()); });
  const std::size_t nodes = node.size(), edges = edge.size();
  return nb::make_tuple(owned(std::move(node), {nodes}), owned(std::move(edge), {edges}));
}

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
  nb::class_<OrderedFault>(m, "OrderedFault")
      .def_prop_ro("what", [](const OrderedFault& f) { return static_cast<int>(f.what); })
      .def_ro("index", &OrderedFault::index)
      .def_ro("direction", &OrderedFault::direction)
      .def_ro("a", &OrderedFault::a)
      .def_ro("b", &OrderedFault::b)
      .def_ro("amount", &OrderedFault::amount);
  nb::class_<Door>(m, "Ordered")
      .def_prop_ro("fault", [](const Door& d) { return d.fault; })
      .def("solve", [](Door& d) { without_interpreter([&] { d.network().solve(); }); })
      .def("labels",
           [](const Door& d, std::vector<std::size_t> shape) {
             const auto labels = d.network().labels();
             return owned(std::vector<std::uint8_t>(labels.begin(), labels.end()), shape);
           })
      .def_prop_ro("minimum", [](const Door& d) { return d.network().minimum(); })
      .def_prop_ro("scale", [](const Door& d) { return d.network().terms().scale; })
      .def_prop_ro("inexact", [](const Door& d) { return d.network().terms().inexact; })
      .def_prop_ro("clipped", [](const Door& d) { return d.network().terms().beyond; })
      .def_prop_ro("clipped_error", [](const Door& d) { return d.network().terms().beyond_error; })
      .def("min_marginals",
           [](Door& d, std::vector<std::size_t> shape) {
             Ordered& flow = d.network();
             std::vector<double> least(flow.labels().size() *
                                       static_cast<std::size_t>(flow.terms().L));
             without_interpreter([&] { flow.min_marginals(least.data()); });
             return owned(std::move(least), shape);
           })
      .def("argmin_sums", &sum_argmins, nb::arg("weights").noconvert(), nb::arg("ends").noconvert(),
           nb::sig("def argmin_sums(self, weights: numpy.typing.NDArray[numpy.float64], "
                   "ends: numpy.typing.NDArray[numpy.int32]) "
                   "-> tuple[numpy.typing.NDArray[numpy.float64], "
                   "numpy.typing.NDArray[numpy.float64]]"));
  m.def("ordered", &open, nb::arg("unary").noconvert(), nb::arg("labels"), nb::arg("shape"),
        nb::arg("connectivity"), nb::arg("edges").noconvert(), nb::arg("tables").noconvert(),
        nb::arg("each"), nb::arg("fixed").noconvert(),
        nb::sig("def ordered(unary: numpy.typing.NDArray[numpy.float64], labels: int, "
                "shape: collections.abc.Sequence[int], connectivity: int, "
                "edges: numpy.typing.NDArray[numpy.int32], "
                "tables: collections.abc.Sequence[numpy.typing.NDArray[numpy.float64]], "
                "each: collections.abc.Sequence[bool], "
                "fixed: numpy.typing.NDArray[numpy.int16]) -> Ordered"));
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
