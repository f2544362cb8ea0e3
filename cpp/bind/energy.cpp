// Energies of binary and of ordered labels: arrays in, arrays out, the interpreter's lock released
// while the core works.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <type_traits>

#include "bind/arrays.hpp"
#include "bind/regions.hpp"
#include "energy/engine.hpp"
#include "energy/lookup.hpp"

using namespace cutlearn;

namespace {

template <class T>
Out<T> copied(std::span<const T> values, std::vector<std::size_t> shape) {
  return owned(std::vector<T>(values.begin(), values.end()), std::move(shape));
}

// An engine that one thread at a time may use.
template <class E>
class Handle {
 public:
  explicit Handle(std::unique_ptr<E> engine) : engine_(std::move(engine)) {}

  // Work that needs no interpreter.
  template <class F>
  auto use(F&& work) {
    return read([&](E& engine) { return without_interpreter([&] { return work(engine); }); });
  }
  // A short look that makes Python objects.
  template <class F>
  auto read(F&& look) {
    need(engine_ != nullptr, "the energy has a fault, so that there is no network");
    if (busy_.exchange(true))
      throw std::runtime_error(
          "this solver is at work in another thread; give each thread a solver of its own");
    const Release release{busy_};
    return look(*engine_);
  }

  // Work after which the network has to be solved again.
  template <class F>
  void change(F&& work) {
    use([&](E& engine) {
      solved_ = false;
      work(engine);
    });
  }
  void solve(int threads) {
    use([&](E& engine) {
      solved_ = false;
      engine.solve(threads);
      solved_ = true;
    });
  }
  // Work on the residual network of a solve.
  template <class F>
  auto use_solved(F&& work) {
    return use([&](E& engine) {
      need(solved_, "solve the network first");
      return work(engine);
    });
  }

 private:
  struct Release {
    std::atomic<bool>& busy;
    ~Release() { busy = false; }
  };

  std::unique_ptr<E> engine_;
  bool solved_ = false;
  std::atomic<bool> busy_{false};
};

template <auto get, class H>
auto answer(H& handle) {
  return handle.read([](auto& engine) { return (engine.*get)(); });
}

// What the handles of both engines have.
template <class H>
nb::class_<H> bind_handle(nb::module_& m, const char* name) {
  return nb::class_<H>(m, name)
      .def("labels",
           [](H& h, std::vector<std::size_t> shape) {
             return h.read([&](auto& e) { return copied(e.labels(), std::move(shape)); });
           })
      .def_prop_ro("minimum", &answer<&Engine::minimum, H>)
      .def_prop_ro("scale", &answer<&Engine::scale, H>)
      .def_prop_ro("inexact", &answer<&Engine::inexact, H>)
      .def_prop_ro("clipped", &answer<&Engine::clipped, H>)
      .def_prop_ro("clipped_error", &answer<&Engine::clipped_error, H>);
}

// Binary labels, and the structure that the engine was built for.
class Flow : public Handle<BinaryEngine> {
 public:
  Flow(std::unique_ptr<BinaryEngine> engine, const Input& input)
      : Handle(std::move(engine)), built_(sizes(input)), edges_(graph(input).edge_count()) {}

  std::size_t nodes() const { return static_cast<std::size_t>(built_[0]); }
  std::size_t edges() const { return edges_; }
  // Whether an energy has the structure of the one that was built.
  bool fits(const Input& input) const { return sizes(input) == built_; }

 private:
  static Graph graph(const Input& input) {
    return graph_of(input.shape, input.connectivity, input.edges);
  }
  static std::vector<std::int64_t> sizes(const Input& input) {
    std::vector<std::int64_t> all(input.shape);
    for (const std::size_t size :
         {input.edges.size(), input.regions.members.size(), input.regions.alpha.size()})
      all.push_back(static_cast<std::int64_t>(size));
    all.push_back(input.connectivity);
    all.insert(all.begin(), static_cast<std::int64_t>(input.unary.size()));
    return all;
  }

  std::vector<std::int64_t> built_;
  std::size_t edges_;
};

// Ordered labels; without an engine where the energy has a fault.
struct OrderedHandle : Handle<OrderedEngine> {
  OrderedHandle(std::unique_ptr<OrderedEngine> engine, const OrderedFault& found, Graph graph,
                std::size_t count)
      : Handle(std::move(engine)),
        fault(found),
        nodes(graph.nodes),
        labels(count),
        edges(std::move(graph.edges)) {}

  OrderedFault fault;
  std::size_t nodes, labels;
  std::vector<std::size_t> edges;  // of each direction
};

Input make_input(double constant, const In<double>& unary, std::vector<std::int64_t> shape,
                 int connectivity, const In<Id>& edges, const std::vector<In<double>>& weights,
                 const std::vector<int>& kinds, const RegionsPtr& regions,
                 const In<std::int8_t>& fixed) {
  Input input;
  input.constant = constant;
  input.unary = view(unary);
  input.shape = std::move(shape);
  input.connectivity = connectivity;
  input.edges = view(edges);
  const Graph graph = graph_of(input.shape, connectivity, input.edges);
  need(unary.size() == graph.nodes, "unary must have a number for each node");
  need(kinds.size() == weights.size() &&
           (weights.size() == graph.edges.size() || (connectivity == 0 && edges.size() == 0)),
       "weights and kinds must have an entry for each direction of edges");
  for (std::size_t k = 0; k < weights.size(); ++k) {
    need(kinds[k] >= Weights::kScalar && kinds[k] <= Weights::kPair,
         "kinds must be 0 (one weight), 1 (symmetric) or 2 (pairs)");
    const auto kind = static_cast<Weights::Kind>(kinds[k]);
    const std::size_t count = k < graph.edges.size() ? graph.edges[k] : 0;
    need(weights[k].size() == (kind == Weights::kScalar ? 1 : kind * count),
         "weights must have as many numbers as their kind and the edges ask for");
    input.weights.push_back({kind, weights[k].data()});
  }
  if (regions) {
    need(regions->last < static_cast<std::int64_t>(unary.size()),
         "a region has a member beyond the last node");
    input.regions = regions->view();
  }
  input.fixed = view(fixed);
  need((fixed.size() == 0 || fixed.size() == unary.size()) && all_within(input.fixed, -1, 1),
       "fixed must be empty, or -1, 0 or 1 for each node");
  return input;
}

// What f makes of an energy.
template <auto f, class... Rest>
auto of_energy(double constant, In<double> unary, std::vector<std::int64_t> shape, int connectivity,
               In<Id> edges, std::vector<In<double>> weights, std::vector<int> kinds,
               RegionsPtr regions, In<std::int8_t> fixed, Rest... rest) {
  const Input input = make_input(constant, unary, std::move(shape), connectivity, edges, weights,
                                 kinds, regions, fixed);
  return without_interpreter([&] { return f(input, rest...); });
}

// The survey of an energy whose numbers have no fault.
std::optional<Survey> faultless(const Input& input) {
  const Survey s = survey(input);
  if (s.bad_unary >= 0 || s.bad_edge >= 0 || s.worst_edge >= 0 || !std::isfinite(s.total()))
    return std::nullopt;
  return s;
}

std::unique_ptr<Flow> make_flow(const Input& input) {
  const auto s = faultless(input);
  return s ? std::make_unique<Flow>(make_engine(input, *s), input) : nullptr;
}

std::unique_ptr<Solved> make_solved(const Input& input, int threads) {
  const auto s = faultless(input);
  return s ? std::make_unique<Solved>(solve_once(input, *s, threads)) : nullptr;
}

// Work that writes the min-marginals; they come as an array with its result.
template <class F>
auto with_marginals(Flow& f, F&& work) {
  std::vector<double> phi;
  auto result = f.use_solved([&](BinaryEngine& e) {
    phi.resize(2 * e.labels().size());
    return work(e, phi.data());
  });
  const std::size_t nodes = phi.size() / 2;
  return std::pair(owned(std::move(phi), {nodes, 2}), std::move(result));
}

Out<double> all_marginals(Flow& f, int threads) {
  return with_marginals(f,
                        [&](BinaryEngine& e, double* phi) {
                          e.min_marginals(phi, threads);
                          return 0;
                        })
      .first;
}

// Replaces numbers by a method of the engine: one for each node, or for each edge one or two.
template <auto method, class T, std::size_t columns>
void change(Flow& f, In<std::int64_t> index, In<T> values,
            nb::ndarray<T, nb::ndim<1>, nb::c_contig> stored) {
  const std::size_t count = columns == 1 ? f.nodes() : f.edges();
  need(all_within(view(index), 0, static_cast<std::int64_t>(count) - 1),
       "index must be numbers of nodes or edges");
  need((values.size() == index.size() || values.size() == columns * index.size()) &&
           (!std::is_same_v<T, std::int8_t> || all_within(view(values), -1, 1)),
       "a change needs a value for each index, and labels -1, 0 or 1");
  need(stored.size() == columns * count, "the store must have room for all numbers");
  f.change([&](BinaryEngine& e) { (e.*method)(view(index), view(values), stored.data()); });
}

std::tuple<Out<double>, Out<double>, Out<double>, Out<double>> argmin_sums(
    Flow& f, In<double> weights, In<std::uint8_t> truth, In<std::int64_t> region_first,
    In<Id> members, int threads) {
  const ArgminTask task{view(weights), view(truth), view(region_first), view(members)};
  const std::size_t n = f.nodes();
  need(weights.size() + truth.size() == n && (weights.size() == 0 || truth.size() == 0),
       "weights or truth must have a number for each node, and the other none");
  need(all_within(task.members, 0, static_cast<std::int64_t>(n) - 1),
       "a region has a member that is no node");
  need(are_offsets(task.region_first, members.size()), "region_first must be offsets of members");
  auto [phi, sums] = with_marginals(
      f, [&](BinaryEngine& e, double* out) { return e.argmin_sums(out, task, threads); });
  const auto array = [](std::vector<double>& x) {
    const std::size_t size = x.size();
    return owned(std::move(x), {size});
  };
  return {phi, array(sums.node), array(sums.edge), array(sums.region)};
}

OrderedInput make_ordered_input(const In<double>& unary, Id labels, std::vector<std::int64_t> shape,
                                int connectivity, const In<Id>& edges,
                                const std::vector<In<double>>& tables,
                                const std::vector<bool>& each, const In<std::int16_t>& fixed) {
  OrderedInput input;
  input.labels = labels;
  input.unary = view(unary);
  input.shape = std::move(shape);
  input.connectivity = connectivity;
  input.edges = view(edges);
  input.fixed = view(fixed);
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
  return input;
}

std::unique_ptr<OrderedHandle> open_ordered(In<double> unary, Id labels,
                                            std::vector<std::int64_t> shape, int connectivity,
                                            In<Id> edges, std::vector<In<double>> tables,
                                            std::vector<bool> each, In<std::int16_t> fixed) {
  const OrderedInput input =
      make_ordered_input(unary, labels, std::move(shape), connectivity, edges, tables, each, fixed);
  return without_interpreter([&] {
    OrderedTerms terms(input);
    const OrderedFault fault = terms.fault;
    return std::make_unique<OrderedHandle>(
        fault.what == OrderedFault::kNone ? make_ordered(input, std::move(terms)) : nullptr, fault,
        graph_of(input.shape, connectivity, input.edges), labels);
  });
}

std::string ordered_disproof(OrderedHandle& h, In<double> unary, Id labels,
                             std::vector<std::int64_t> shape, int connectivity, In<Id> edges,
                             std::vector<In<double>> tables, std::vector<bool> each,
                             In<std::int16_t> fixed) {
  const OrderedInput input =
      make_ordered_input(unary, labels, std::move(shape), connectivity, edges, tables, each, fixed);
  const Graph graph = graph_of(input.shape, connectivity, input.edges);
  need(graph.nodes == h.nodes && graph.edges == h.edges &&
           static_cast<std::size_t>(labels) == h.labels,
       "the energy must have the nodes, edges and labels of this network");
  return h.use_solved([&](OrderedEngine& e) { return e.disproof(input); });
}

nb::object ordered_argmin_sums(OrderedHandle& h, In<double> weights, In<Id> ends) {
  const std::size_t L = h.labels;
  need(weights.size() == h.nodes * L, "weights must have a number for each pixel and label");
  need(ends.size() == 2 * std::accumulate(h.edges.begin(), h.edges.end(), std::size_t{0}) &&
           all_within(view(ends), 0, static_cast<std::int64_t>(h.nodes) - 1),
       "ends must be the two pixels of each edge");
  std::vector<double> node(h.nodes * L), edge(ends.size() / 2 * L * L);
  h.use([&](OrderedEngine& e) {
    e.argmin_sums(view(weights), view(ends), node.data(), edge.data());
  });
  const std::size_t nodes = node.size(), edges = edge.size();
  return nb::make_tuple(owned(std::move(node), {nodes}), owned(std::move(edge), {edges}));
}

using Stack = nb::ndarray<const double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

Out<double> looked_up(const AnyTable& features, const Stack& tables,
                      const In<std::int64_t>& pairs) {
  const Table given = table(features);
  const Lookup task{tables.shape(1), tables.shape(2), {tables.data(), tables.size()}, view(pairs)};
  if (given.rows != pairs.size() || given.columns != tables.shape(1) ||
      (tables.shape(2) != 1 && tables.shape(2) != 3))
    throw std::invalid_argument("looked_up: arrays of different numbers of edges or features");
  Out<double> out = room({tables.shape(2), pairs.size()});
  const bool known = without_interpreter([&] {
    return given.single ? look_up(task, static_cast<const float*>(given.data), out.data())
                        : look_up(task, static_cast<const double*>(given.data), out.data());
  });
  if (!known) throw std::invalid_argument("looked_up: a pair lies outside of the tables");
  return out;
}

}  // namespace

void bind_energy(nb::module_& m) {
  nb::class_<Survey>(m, "Survey")
      .def_ro("unary", &Survey::unary)
      .def_ro("edges", &Survey::edges)
      .def_ro("rest", &Survey::rest)
      .def_ro("bad_unary", &Survey::bad_unary)
      .def_ro("bad_direction", &Survey::bad_direction)
      .def_ro("bad_edge", &Survey::bad_edge)
      .def_ro("worst_direction", &Survey::worst_direction)
      .def_ro("worst_edge", &Survey::worst_edge)
      .def_ro("worst", &Survey::worst);

#define ENERGY_PARAMETERS                                                    \
  "constant: float, unary: numpy.typing.NDArray[numpy.float64], "            \
  "shape: collections.abc.Sequence[int], connectivity: int, "                \
  "edges: numpy.typing.NDArray[numpy.int32], "                               \
  "weights: collections.abc.Sequence[numpy.typing.NDArray[numpy.float64]], " \
  "kinds: collections.abc.Sequence[int], "                                   \
  "regions: Regions | None, "                                                \
  "fixed: numpy.typing.NDArray[numpy.int8]"
#define ENERGY_SIGNATURE "(" ENERGY_PARAMETERS ") -> "
#define METHOD_SIGNATURE "(self, " ENERGY_PARAMETERS ") -> "
#define ENERGY_ARGUMENTS                                                                        \
  nb::arg("constant"), nb::arg("unary").noconvert(), nb::arg("shape"), nb::arg("connectivity"), \
      nb::arg("edges").noconvert(), nb::arg("weights").noconvert(), nb::arg("kinds"),           \
      nb::arg("regions").none(), nb::arg("fixed").noconvert()
  m.def("looked_up", &looked_up, nb::arg("features").noconvert(), nb::arg("tables").noconvert(),
        nb::arg("pairs").noconvert(),
        nb::sig("def looked_up(features: numpy.typing.NDArray[typing.Any], "
                "tables: numpy.typing.NDArray[numpy.float64], "
                "pairs: numpy.typing.NDArray[numpy.int64]) -> numpy.typing.NDArray[numpy.float64]"),
        "sum_g features[e, g] tables[pairs[e], g, k] of every table k and edge e.");
  m.def("survey", &of_energy<survey>, ENERGY_ARGUMENTS,
        nb::sig("def survey" ENERGY_SIGNATURE "Survey"));
  m.def("flow", &of_energy<make_flow>, ENERGY_ARGUMENTS,
        nb::sig("def flow" ENERGY_SIGNATURE "Flow | None"));
  m.def("solved", &of_energy<make_solved, int>, ENERGY_ARGUMENTS, nb::arg("threads"),
        nb::sig("def solved(" ENERGY_PARAMETERS ", threads: int) -> Solved | None"));

  nb::class_<Solved>(m, "Solved")
      .def("labels",
           [](const Solved& s, std::vector<std::size_t> shape) {
             return copied(std::span(s.labels), std::move(shape));
           })
      .def_ro("minimum", &Solved::minimum)
      .def_ro("scale", &Solved::scale)
      .def_ro("inexact", &Solved::inexact)
      .def_ro("clipped", &Solved::clipped)
      .def_ro("clipped_error", &Solved::clipped_error)
      .def_ro("cuts", &Solved::cuts);

  bind_handle<Flow>(m, "Flow")
      .def(
          "solve", [](Flow& f, int threads) { f.solve(threads); }, nb::arg("threads"))
      .def("changed",
           [](Flow& f) {
             return f.read(
                 [](BinaryEngine& e) { return copied(e.changed(), {e.changed().size()}); });
           })
      .def_prop_ro("resumed", &answer<&BinaryEngine::resumed, Flow>)
      .def("residuals",
           [](Flow& f) {
             return f.read([](BinaryEngine& e) {
               const auto [excess, difference] = e.residuals();
               return std::tuple(copied(std::span<const Cap>(excess), {excess.size()}),
                                 copied(std::span<const Cap>(difference), {difference.size()}));
             });
           })
      .def_prop_ro("outgrown", &answer<&BinaryEngine::outgrown, Flow>)
      .def("change_unary", &change<&BinaryEngine::change_unary, double, 1>,
           nb::arg("index").noconvert(), nb::arg("values").noconvert(),
           nb::arg("stored").noconvert())
      .def("change_weights", &change<&BinaryEngine::change_weights, double, 2>,
           nb::arg("index").noconvert(), nb::arg("pq").noconvert(), nb::arg("stored").noconvert())
      .def("change_fixed", &change<&BinaryEngine::change_fixed, std::int8_t, 1>,
           nb::arg("index").noconvert(), nb::arg("labels").noconvert(),
           nb::arg("stored").noconvert())
      .def("min_marginals", &all_marginals, nb::arg("threads"))
      .def("argmin_sums", &argmin_sums, nb::arg("weights").noconvert(),
           nb::arg("truth").noconvert(), nb::arg("region_first").noconvert(),
           nb::arg("members").noconvert(), nb::arg("threads"))
      .def(
          "disproof",
          [](Flow& f, double constant, In<double> unary, std::vector<std::int64_t> shape,
             int connectivity, In<Id> edges, std::vector<In<double>> weights,
             std::vector<int> kinds, RegionsPtr regions, In<std::int8_t> fixed) {
            const Input input = make_input(constant, unary, std::move(shape), connectivity, edges,
                                           weights, kinds, regions, fixed);
            need(f.fits(input),
                 "the energy must have the nodes, edges and regions of this network");
            return f.use_solved([&](BinaryEngine& e) { return e.disproof(input); });
          },
          ENERGY_ARGUMENTS, nb::sig("def disproof" METHOD_SIGNATURE "str"));

  nb::class_<OrderedFault>(m, "OrderedFault")
      .def_prop_ro("what", [](const OrderedFault& f) { return static_cast<int>(f.what); })
      .def_ro("index", &OrderedFault::index)
      .def_ro("direction", &OrderedFault::direction)
      .def_ro("a", &OrderedFault::a)
      .def_ro("b", &OrderedFault::b)
      .def_ro("amount", &OrderedFault::amount);
#define ORDERED_PARAMETERS                                                  \
  "unary: numpy.typing.NDArray[numpy.float64], labels: int, "               \
  "shape: collections.abc.Sequence[int], connectivity: int, "               \
  "edges: numpy.typing.NDArray[numpy.int32], "                              \
  "tables: collections.abc.Sequence[numpy.typing.NDArray[numpy.float64]], " \
  "each: collections.abc.Sequence[bool], fixed: numpy.typing.NDArray[numpy.int16]"
#define ORDERED_ARGUMENTS                                                                     \
  nb::arg("unary").noconvert(), nb::arg("labels"), nb::arg("shape"), nb::arg("connectivity"), \
      nb::arg("edges").noconvert(), nb::arg("tables").noconvert(), nb::arg("each"),           \
      nb::arg("fixed").noconvert()
  bind_handle<OrderedHandle>(m, "Ordered")
      .def_ro("fault", &OrderedHandle::fault)
      .def("solve", [](OrderedHandle& h) { h.solve(1); })
      .def("min_marginals",
           [](OrderedHandle& h, std::vector<std::size_t> shape) {
             std::vector<double> least(h.nodes * h.labels);
             h.use([&](OrderedEngine& e) { e.min_marginals(least.data(), 1); });
             return owned(std::move(least), shape);
           })
      .def("argmin_sums", &ordered_argmin_sums, nb::arg("weights").noconvert(),
           nb::arg("ends").noconvert(),
           nb::sig("def argmin_sums(self, weights: numpy.typing.NDArray[numpy.float64], "
                   "ends: numpy.typing.NDArray[numpy.int32]) "
                   "-> tuple[numpy.typing.NDArray[numpy.float64], "
                   "numpy.typing.NDArray[numpy.float64]]"))
      .def("disproof", &ordered_disproof, ORDERED_ARGUMENTS,
           nb::sig("def disproof(self, " ORDERED_PARAMETERS ") -> str"));
  m.def("ordered", &open_ordered, ORDERED_ARGUMENTS,
        nb::sig("def ordered(" ORDERED_PARAMETERS ") -> Ordered"));
}
