// The door to energies: arrays in, arrays out, the lock of the interpreter released while the core
// works.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <stdexcept>

#include "bind/arrays.hpp"
#include "bind/regions.hpp"
#include "energy/engine.hpp"
#include "energy/lookup.hpp"
#include "energy/solve_once.hpp"

using namespace cutlearn;

namespace {

template <class T>
Out<T> copied(std::span<const T> values, std::vector<std::size_t> shape) {
  return owned(std::vector<T>(values.begin(), values.end()), std::move(shape));
}

// An engine that one thread at a time may use, and how much it was built from.
class Flow {
 public:
  Flow(std::unique_ptr<Engine> engine, const Input& input)
      : engine_(std::move(engine)),
        shape_(input.shape),
        connectivity_(input.connectivity),
        nodes_(input.unary.size()),
        ends_(input.edges.size()),
        members_(input.regions.members.size()),
        hinges_(input.regions.alpha.size()),
        edges_(connectivity_ ? graph_of(shape_, connectivity_, {}).edge_count() : ends_ / 2) {}

  std::size_t nodes() const { return nodes_; }
  std::size_t edges() const { return edges_; }
  // Whether an energy has the structure of the one that was built.
  bool fits(const Input& input) const {
    return input.shape == shape_ && input.connectivity == connectivity_ &&
           input.edges.size() == ends_ && input.regions.members.size() == members_ &&
           input.regions.alpha.size() == hinges_;
  }

  // Work that needs no interpreter.
  template <class F>
  auto use(F&& work) {
    const Lock lock(busy_);
    return without_interpreter([&] { return work(*engine_); });
  }
  void solve(int threads) {
    use([&](Engine& e) {
      solved_ = false;
      e.solve(threads);
      solved_ = true;
    });
  }
  template <class F>
  void change(F&& work) {
    use([&](Engine& e) {
      solved_ = false;
      work(e);
    });
  }
  // Work on the residual network of a solve.
  template <class F>
  auto use_solved(F&& work) {
    return use([&](Engine& e) {
      need(solved_, "solve the network first");
      return work(e);
    });
  }
  // A short look that makes Python objects.
  template <class F>
  auto read(F&& look) {
    const Lock lock(busy_);
    return look(*engine_);
  }

 private:
  struct Lock {
    explicit Lock(std::atomic<bool>& flag) : busy(flag) {
      if (busy.exchange(true))
        throw std::runtime_error(
            "this solver is at work in another thread; give each thread a solver of its own");
    }
    ~Lock() { busy = false; }
    std::atomic<bool>& busy;
  };

  std::unique_ptr<Engine> engine_;
  std::vector<std::int64_t> shape_;
  int connectivity_;
  std::size_t nodes_, ends_, members_, hinges_, edges_;
  bool solved_ = false;
  std::atomic<bool> busy_{false};
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

// What `make` gives for an energy, or nothing if its numbers are faulty.
template <auto make, class... Rest>
auto of_energy(double constant, In<double> unary, std::vector<std::int64_t> shape, int connectivity,
               In<Id> edges, std::vector<In<double>> weights, std::vector<int> kinds,
               RegionsPtr regions, In<std::int8_t> fixed, Rest... rest) {
  const Input input = make_input(constant, unary, std::move(shape), connectivity, edges, weights,
                                 kinds, regions, fixed);
  using Made = decltype(make(input, Survey{}, rest...));
  return without_interpreter([&]() -> Made {
    const Survey s = survey(input);
    if (s.bad_unary >= 0 || s.bad_edge >= 0 || s.worst_edge >= 0 || !std::isfinite(s.total()))
      return nullptr;
    return make(input, s, rest...);
  });
}

std::unique_ptr<Flow> make_flow(const Input& input, const Survey& survey) {
  return std::make_unique<Flow>(make_engine(input, survey), input);
}

std::unique_ptr<Solved> make_solved(const Input& input, const Survey& survey, int threads) {
  return std::make_unique<Solved>(solve_once(input, survey, threads));
}

Survey make_survey(double constant, In<double> unary, std::vector<std::int64_t> shape,
                   int connectivity, In<Id> edges, std::vector<In<double>> weights,
                   std::vector<int> kinds, RegionsPtr regions, In<std::int8_t> fixed) {
  return survey(make_input(constant, unary, std::move(shape), connectivity, edges, weights, kinds,
                           regions, fixed));
}

// Work that writes the min-marginals; they come as an array beside its result.
template <class F>
auto with_marginals(Flow& f, F&& work) {
  std::vector<double> phi;
  auto result = f.use_solved([&](Engine& e) {
    phi.resize(2 * e.labels().size());
    return work(e, phi.data());
  });
  const std::size_t nodes = phi.size() / 2;
  return std::pair(owned(std::move(phi), {nodes, 2}), std::move(result));
}

Out<double> all_marginals(Flow& f, int threads) {
  return with_marginals(f,
                        [&](Engine& e, double* phi) {
                          e.min_marginals(phi, threads);
                          return 0;
                        })
      .first;
}

// index: the numbers that change, of `count`; as_many, stored: whether the new numbers and the store
// have the right lengths.
void check_change(const In<std::int64_t>& index, std::size_t count, bool as_many, bool stored) {
  need(all_within(view(index), 0, static_cast<std::int64_t>(count) - 1),
       "index must be numbers of nodes or edges");
  need(as_many, "a change needs a value for each index, and labels -1, 0 or 1");
  need(stored, "the store must have room for all numbers");
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
  auto [phi, sums] =
      with_marginals(f, [&](Engine& e, double* out) { return e.argmin_sums(out, task, threads); });
  const auto array = [](std::vector<double>& x) {
    const std::size_t size = x.size();
    return owned(std::move(x), {size});
  };
  return {phi, array(sums.node), array(sums.edge), array(sums.region)};
}

// The min-marginals; and the sets one after the other, set i from first[i] to first[i + 1].
std::tuple<Out<double>, Out<std::int64_t>, Out<std::int64_t>> all_argmins(Flow& f, int threads) {
  const auto [phi, sets] =
      with_marginals(f, [&](Engine& e, double* out) { return e.argmins(out, threads); });
  std::vector<std::int64_t> first{0}, nodes;
  for (const auto& set : sets) {
    nodes.insert(nodes.end(), set.begin(), set.end());
    first.push_back(static_cast<std::int64_t>(nodes.size()));
  }
  const std::size_t size = nodes.size();
  return {phi, owned(std::move(first), {sets.size() + 1}), owned(std::move(nodes), {size})};
}

using Stack = nb::ndarray<const double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

Out<double> looked_up(const AnyTable& features, const Stack& tables,
                      const In<std::int64_t>& pairs) {
  const Table given = table(features);
  const Lookup asked{tables.shape(1), tables.shape(2), {tables.data(), tables.size()}, view(pairs)};
  if (given.rows != pairs.size() || given.columns != tables.shape(1) ||
      (tables.shape(2) != 1 && tables.shape(2) != 3))
    throw std::invalid_argument("looked_up: arrays of different numbers of edges or features");
  Out<double> out = room({tables.shape(2), pairs.size()});
  const bool known = without_interpreter([&] {
    return given.single ? look_up(asked, static_cast<const float*>(given.data), out.data())
                        : look_up(asked, static_cast<const double*>(given.data), out.data());
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
  m.def("survey", &make_survey, ENERGY_ARGUMENTS, nb::sig("def survey" ENERGY_SIGNATURE "Survey"));
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

  nb::class_<Flow>(m, "Flow")
      .def("solve", &Flow::solve, nb::arg("threads"))
      .def("labels",
           [](Flow& f, std::vector<std::size_t> shape) {
             return f.read([&](Engine& e) { return copied(e.labels(), std::move(shape)); });
           })
      .def("changed",
           [](Flow& f) {
             return f.read([](Engine& e) { return copied(e.changed(), {e.changed().size()}); });
           })
      .def_prop_ro("resumed", [](Flow& f) { return f.read([](Engine& e) { return e.resumed(); }); })
      .def("residuals",
           [](Flow& f) {
             return f.read([](Engine& e) {
               const auto [excess, difference] = e.residuals();
               return std::tuple(copied(std::span<const Cap>(excess), {excess.size()}),
                                 copied(std::span<const Cap>(difference), {difference.size()}));
             });
           })
      .def_prop_ro("minimum", [](Flow& f) { return f.read([](Engine& e) { return e.minimum(); }); })
      .def_prop_ro("scale", [](Flow& f) { return f.read([](Engine& e) { return e.scale(); }); })
      .def_prop_ro("inexact", [](Flow& f) { return f.read([](Engine& e) { return e.inexact(); }); })
      .def_prop_ro("clipped", [](Flow& f) { return f.read([](Engine& e) { return e.clipped(); }); })
      .def_prop_ro("clipped_error",
                   [](Flow& f) { return f.read([](Engine& e) { return e.clipped_error(); }); })
      .def_prop_ro("outgrown",
                   [](Flow& f) { return f.read([](Engine& e) { return e.outgrown(); }); })
      .def(
          "change_unary",
          [](Flow& f, In<std::int64_t> index, In<double> values,
             nb::ndarray<double, nb::ndim<1>, nb::c_contig> stored) {
            check_change(index, f.nodes(), values.size() == index.size(),
                         stored.size() == f.nodes());
            f.change([&](Engine& e) { e.change_unary(view(index), view(values), stored.data()); });
          },
          nb::arg("index").noconvert(), nb::arg("values").noconvert(),
          nb::arg("stored").noconvert())
      .def(
          "change_weights",
          [](Flow& f, In<std::int64_t> index, In<double> pq,
             nb::ndarray<double, nb::ndim<1>, nb::c_contig> stored) {
            check_change(index, f.edges(),
                         pq.size() == index.size() || pq.size() == 2 * index.size(),
                         stored.size() == 2 * f.edges());
            f.change([&](Engine& e) { e.change_weights(view(index), view(pq), stored.data()); });
          },
          nb::arg("index").noconvert(), nb::arg("pq").noconvert(), nb::arg("stored").noconvert())
      .def(
          "change_fixed",
          [](Flow& f, In<std::int64_t> index, In<std::int8_t> labels,
             nb::ndarray<std::int8_t, nb::ndim<1>, nb::c_contig> stored) {
            check_change(index, f.nodes(),
                         labels.size() == index.size() && all_within(view(labels), -1, 1),
                         stored.size() == f.nodes());
            f.change([&](Engine& e) { e.change_fixed(view(index), view(labels), stored.data()); });
          },
          nb::arg("index").noconvert(), nb::arg("labels").noconvert(),
          nb::arg("stored").noconvert())
      .def("min_marginals", &all_marginals, nb::arg("threads"))
      .def("argmin_sums", &argmin_sums, nb::arg("weights").noconvert(),
           nb::arg("truth").noconvert(), nb::arg("region_first").noconvert(),
           nb::arg("members").noconvert(), nb::arg("threads"))
      .def("argmins", &all_argmins, nb::arg("threads"))
      .def(
          "disproof",
          [](Flow& f, double constant, In<double> unary, std::vector<std::int64_t> shape,
             int connectivity, In<Id> edges, std::vector<In<double>> weights,
             std::vector<int> kinds, RegionsPtr regions, In<std::int8_t> fixed) {
            const Input input = make_input(constant, unary, std::move(shape), connectivity, edges,
                                           weights, kinds, regions, fixed);
            need(f.fits(input),
                 "the energy must have the nodes, edges and regions of this network");
            return f.use_solved([&](Engine& e) { return e.disproof(input); });
          },
          ENERGY_ARGUMENTS, nb::sig("def disproof" METHOD_SIGNATURE "str"));
}
