// The Python module: grids here, every other family of functions in the file of its name. Only this
// folder knows Python.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <vector>

#include "bind/arrays.hpp"
#include "flow/grid.hpp"

namespace nb = nanobind;
using namespace cutlearn;

void bind_energy(nb::module_& m);
void bind_oracle(nb::module_& m);
void bind_regions(nb::module_& m);
void bind_ordered(nb::module_& m);
void bind_trees(nb::module_& m);
void bind_filters(nb::module_& m);
void bind_net(nb::module_& m);

NB_MODULE(_core, m) {
  m.doc() = "The C++ core of cutlearn; see cutlearn.energy for its use.";
  bind_regions(m);
  bind_oracle(m);
  bind_ordered(m);
  bind_trees(m);
  bind_filters(m);
  bind_net(m);

  m.def(
      "forward_offsets",
      [](int connectivity) {
        std::vector<std::vector<int>> offsets;
        for (const Offset& o : forward_offsets(connectivity)) offsets.push_back({o[0], o[1], o[2]});
        return offsets;
      },
      nb::arg("connectivity"));

  m.def(
      "check_grid", [](std::vector<std::int64_t> shape) { grid_shape(shape, true); },
      nb::arg("shape"), "Refuse, by ValueError, a grid that is too large for one network.");

  m.def("room", &room, nb::arg("shape"),
        nb::sig("def room(shape: collections.abc.Sequence[int]) "
                "-> numpy.typing.NDArray[numpy.float64]"),
        "An array whose numbers are not set, in memory that the next one takes over.");

  bind_energy(m);
}
