// The binding of the oracle: arrays in, terms and planes out, the interpreter's lock released.

#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>

#include "bind/arrays.hpp"
#include "bind/failure.hpp"
#include "bind/regions.hpp"
#include "learn/oracle.hpp"

using namespace cutlearn;

namespace {

// Keeps the arrays that its task views.
struct Oracle {
  AnyTable node, edge;
  In<Id> ends;
  In<std::int8_t> fixed;
  In<std::uint8_t> truth;
  In<double> constant, unary;
  RegionsPtr regions;
  In<double> table;
  In<std::uint8_t> counted;
  OracleTask task;
};

constexpr std::size_t kMostLines = std::size_t{1} << 24;

// (form, lines, regions, per node) of every family
using Families = std::vector<std::tuple<int, std::size_t, std::size_t, bool>>;

void make_oracle(Oracle* self, AnyTable node, AnyTable edge, std::vector<std::int64_t> shape,
                 int connectivity, In<Id> ends, In<std::int8_t> fixed) {
  auto* oracle = new (self) Oracle{};
  oracle->node = node;
  oracle->edge = edge;
  oracle->ends = ends;
  oracle->fixed = fixed;
  OracleTask& task = oracle->task;
  task.node = table(node);
  task.edge = table(edge);
  task.shape = std::move(shape);
  task.connectivity = connectivity;
  task.ends = view(ends);
  task.fixed = view(fixed);
  const Graph graph = graph_of(task.shape, connectivity, task.ends);
  check_features(graph, connectivity, task.node, task.edge);
  need((fixed.size() == 0 || fixed.size() == graph.nodes) && all_within(task.fixed, -1, 1),
       "fixed must be empty, or -1, 0 or 1 for each node");
}

void set_loss(Oracle& self, In<std::uint8_t> truth, In<double> constant, In<double> unary,
              double loss_scale, double energy_scale) {
  OracleTask& task = self.task;
  const std::size_t nodes = task.node.rows;
  need(truth.size() == nodes && all_within(view(truth), 0, 1),
       "truth must be 0 or 1 for each node");
  need(constant.size() > 0 && unary.size() == constant.size() * nodes,
       "a loss needs a constant for each piece, and for each of its nodes a unary");
  self.truth = truth;
  self.constant = constant;
  self.unary = unary;
  task.truth = view(truth);
  task.constant = view(constant);
  task.unary = view(unary);
  task.loss_scale = loss_scale;
  task.energy_scale = energy_scale;
}

// given: those of the families, without slopes or hinges, then those that the loss counts
void set_regions(Oracle& self, const Families& families, RegionsPtr given, double constant) {
  need(given != nullptr, "regions are needed");
  const Regions all = given->view();
  OracleRegions regions;
  for (const auto& [form, lines, count, per_node] : families) {
    need(form >= EnvelopeFamily::kSamples && form <= EnvelopeFamily::kCurvatures,
         "the form of an envelope must be 0 (samples), 1 (slopes) or 2 (curvatures)");
    need(lines >= 1 && lines <= kMostLines, "an envelope needs a line, and not too many");
    need(count <= all.count() - regions.enveloped(), "the families have more regions than given");
    regions.families.push_back({static_cast<EnvelopeFamily::Form>(form), lines, count, per_node});
  }
  const std::size_t enveloped = regions.enveloped();
  need(all.hinge_first[enveloped] == 0, "the regions of a family come without hinges");
  for (std::size_t c = 0; c < enveloped; ++c)
    need(all.member_first[c] < all.member_first[c + 1], "a region of a family has no members");
  need(given->last < static_cast<std::int64_t>(self.task.node.rows),
       "a region has a member beyond the last node");
  regions.first = all.member_first;
  regions.members = all.members;
  regions.mass = all.mass;
  regions.slope = all.slope.subspan(enveloped);
  regions.hinge_first = all.hinge_first.subspan(enveloped);
  regions.alpha = all.alpha;
  regions.beta = all.beta;
  regions.constant = constant;
  self.regions = std::move(given);
  self.task.regions = std::move(regions);
}

void set_table(Oracle& self, In<double> table, In<std::uint8_t> counted) {
  const auto nodes = view(counted);
  need(nodes.size() == self.task.node.rows && all_within(nodes, 0, 1),
       "counted must be 0 or 1 for each node");
  const auto most = static_cast<std::size_t>(std::count(nodes.begin(), nodes.end(), 1));
  need(table.size() >= 2 && table.size() > most,
       "the table needs a number for each count that is possible, 0 included");
  self.table = table;
  self.counted = counted;
  self.task.table = view(table);
  self.task.counted = nodes;
}

// The regions of the families at w, without those that a loss counts.
std::shared_ptr<OwnedRegions> envelope_regions(const OracleRegions& regions,
                                               std::span<const double> w) {
  const std::size_t count = regions.enveloped();
  if (count == 0) return nullptr;
  Hinges hinges;
  const Regions all = region_terms(regions, w, 0, hinges);
  const auto members = static_cast<std::size_t>(all.member_first[count]);
  const auto lines = static_cast<std::size_t>(hinges.first[count]);
  auto made = std::make_shared<OwnedRegions>();
  made->member_first.assign(all.member_first.begin(), all.member_first.begin() + count + 1);
  made->members.assign(all.members.begin(), all.members.begin() + members);
  made->mass.assign(all.mass.begin(), all.mass.begin() + members);
  made->slope.assign(hinges.slope.begin(), hinges.slope.begin() + count);
  made->hinge_first.assign(hinges.first.begin(), hinges.first.begin() + count + 1);
  made->alpha.assign(hinges.alpha.begin(), hinges.alpha.begin() + lines);
  made->beta.assign(hinges.beta.begin(), hinges.beta.begin() + lines);
  for (const Id i : made->members) made->last = std::max(made->last, i);
  return made;
}

// Unaries; weights of the edges and their kinds, for each direction; regions: as `flow` takes them.
nb::object terms_at(const Oracle& self, In<double> w) {
  const OracleTask& task = self.task;
  need(task.weights() == w.size(), "w does not fit the features");
  OracleScratch scratch;
  const auto regions = without_interpreter([&] {
    energy_terms(task, view(w), scratch);
    return envelope_regions(task.regions, view(w).subspan(task.node.columns + task.edge.columns));
  });
  std::vector<Out<double>> weights;
  std::vector<int> kinds;
  auto next = scratch.weights.begin();
  for (std::size_t count : graph_of(task.shape, task.connectivity, task.ends).edges) {
    if (task.edge.rows || !task.connectivity) {
      weights.push_back(owned(std::vector<double>(next, next + count), {count}));
      kinds.push_back(Weights::kSymmetric);
      next += count;
    } else {  // a grid without edges
      weights.push_back(owned(std::vector<double>{0.0}, {1}));
      kinds.push_back(Weights::kScalar);
    }
  }
  const std::size_t nodes = scratch.unary.size();
  return nb::make_tuple(owned(std::move(scratch.unary), {nodes}), nb::cast(weights),
                        nb::cast(kinds), nb::cast(regions));
}

nb::object ask_all(const std::vector<const Oracle*>& oracles, In<double> w, int threads) {
  const std::size_t size = 1 + w.size();
  std::vector<const OracleTask*> tasks;
  for (const Oracle* oracle : oracles) {
    need(oracle && oracle->task.weights() == w.size(), "w does not fit the features");
    need(!oracle->task.truth.empty(), "a plane needs a loss");
    tasks.push_back(&oracle->task);
  }
  auto* planes = new std::vector<double>(tasks.size() * size);
  nb::capsule owner(planes, [](void* p) noexcept { delete static_cast<std::vector<double>*>(p); });
  try {
    without_interpreter([&] { highest_planes(tasks, view(w), planes->data(), threads); });
  } catch (const TaskFailure& failure) {
    raise(failure);
  }
  return nb::cast(
      nb::ndarray<nb::numpy, double, nb::c_contig>(planes->data(), {tasks.size(), size}, owner));
}

}  // namespace

void bind_oracle(nb::module_& m) {
  nb::class_<Oracle>(m, "Oracle")
      .def("__init__", &make_oracle, nb::arg("node").noconvert(), nb::arg("edge").noconvert(),
           nb::arg("shape"), nb::arg("connectivity"), nb::arg("ends").noconvert(),
           nb::arg("fixed").noconvert(),
           nb::sig("def __init__(self, node: numpy.typing.NDArray[typing.Any], "
                   "edge: numpy.typing.NDArray[typing.Any], "
                   "shape: collections.abc.Sequence[int], connectivity: int, "
                   "ends: numpy.typing.NDArray[numpy.int32], "
                   "fixed: numpy.typing.NDArray[numpy.int8]) -> None"))
      .def("set_loss", &set_loss, nb::arg("truth").noconvert(), nb::arg("constant").noconvert(),
           nb::arg("unary").noconvert(), nb::arg("loss_scale"), nb::arg("energy_scale"),
           nb::sig("def set_loss(self, truth: numpy.typing.NDArray[numpy.uint8], "
                   "constant: numpy.typing.NDArray[numpy.float64], "
                   "unary: numpy.typing.NDArray[numpy.float64], "
                   "loss_scale: float, energy_scale: float) -> None"))
      .def("terms", &terms_at, nb::arg("w").noconvert(),
           nb::sig("def terms(self, w: numpy.typing.NDArray[numpy.float64]) "
                   "-> tuple[numpy.typing.NDArray[numpy.float64], "
                   "list[numpy.typing.NDArray[numpy.float64]], list[int], Regions | None]"))
      .def("set_regions", &set_regions, nb::arg("families"), nb::arg("regions"),
           nb::arg("constant"),
           nb::sig("def set_regions(self, "
                   "families: collections.abc.Sequence[tuple[int, int, int, bool]], "
                   "regions: Regions, constant: float) -> None"))
      .def("set_table", &set_table, nb::arg("table").noconvert(), nb::arg("counted").noconvert(),
           nb::sig("def set_table(self, table: numpy.typing.NDArray[numpy.float64], "
                   "counted: numpy.typing.NDArray[numpy.uint8]) -> None"));
  m.def("highest_planes", &ask_all, nb::arg("oracles"), nb::arg("w").noconvert(),
        nb::arg("threads"),
        nb::sig("def highest_planes(oracles: collections.abc.Sequence[Oracle], "
                "w: numpy.typing.NDArray[numpy.float64], threads: int) "
                "-> numpy.typing.NDArray[numpy.float64]"));
}
