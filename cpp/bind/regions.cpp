// The binding of regions: seven arrays in, one object out; and the members of each from a label map.
#include "bind/regions.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <new>
#include <numeric>
#include <span>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <vector>

#include "bind/arrays.hpp"

using namespace cutlearn;

namespace {

using State = std::tuple<In<std::int64_t>, In<Id>, In<double>, In<double>, In<std::int64_t>,
                         In<double>, In<double>>;

// mass: none where every member weighs 1
void make_regions(OwnedRegions* self, In<std::int64_t> member_first, In<Id> members,
                  In<double> mass, In<double> slope, In<std::int64_t> hinge_first, In<double> alpha,
                  In<double> beta) {
  OwnedRegions regions;
  const auto copy = [](auto& to, const auto& from) {
    to.assign(from.data(), from.data() + from.size());
  };
  copy(regions.member_first, member_first);
  copy(regions.members, members);
  copy(regions.mass, mass);
  copy(regions.slope, slope);
  copy(regions.hinge_first, hinge_first);
  copy(regions.alpha, alpha);
  copy(regions.beta, beta);
  if (mass.size() == 0) regions.mass.assign(members.size(), 1.0);
  const std::size_t count = regions.slope.size();
  if (regions.member_first.size() != count + 1 || regions.hinge_first.size() != count + 1 ||
      !are_offsets(regions.member_first, members.size()) ||
      !are_offsets(regions.hinge_first, alpha.size()) || regions.mass.size() != members.size() ||
      beta.size() != alpha.size())
    throw std::invalid_argument("the arrays of the regions do not fit each other");
  Id least = 0;
  for (const Id i : regions.members) {  // no branch: it is walked many numbers at a time
    least = std::min(least, i);
    regions.last = std::max(regions.last, i);
  }
  if (least < 0) throw std::invalid_argument("a region has a member below 0");
  new (self) OwnedRegions(std::move(regions));
}

// Calls f(region, first node, node after the last) for each run of nodes of one region.
template <class F>
void each_run(std::span<const std::int64_t> region, F&& f) {
  for (std::size_t begin = 0, end = 0; begin < region.size(); begin = end) {
    while (end < region.size() && region[end] == region[begin]) ++end;
    if (region[begin] >= 0) f(static_cast<std::size_t>(region[begin]), begin, end);
  }
}

// The nodes of each region, in order, region by region; and where those of each begin.
// region: of every node, below 0 for none
std::tuple<Out<std::int64_t>, Out<Id>> members_of(In<std::int64_t> region, std::size_t count) {
  check_size(static_cast<std::int64_t>(region.size()), "nodes");
  std::vector<std::int64_t> first(count + 1);
  each_run(view(region), [&](std::size_t c, std::size_t begin, std::size_t end) {
    if (c >= count) throw std::invalid_argument("a node has a region beyond the last");
    first[c + 1] += static_cast<std::int64_t>(end - begin);
  });
  for (std::size_t c = 0; c < count; ++c) first[c + 1] += first[c];
  std::vector<std::int64_t> next(first.begin(), first.end() - 1);
  std::vector<Id> nodes(first.back());
  each_run(view(region), [&](std::size_t c, std::size_t begin, std::size_t end) {
    std::iota(nodes.begin() + next[c], nodes.begin() + next[c] + (end - begin),
              static_cast<Id>(begin));
    next[c] += static_cast<std::int64_t>(end - begin);
  });
  const std::size_t size = nodes.size();
  return {owned(std::move(first), {count + 1}), owned(std::move(nodes), {size})};
}

auto state(const OwnedRegions& r) {
  const auto array = [](const auto& values) {
    using T = std::decay_t<decltype(values[0])>;
    return owned(std::vector<T>(values.begin(), values.end()), {values.size()});
  };
  return std::tuple(array(r.member_first), array(r.members), array(r.mass), array(r.slope),
                    array(r.hinge_first), array(r.alpha), array(r.beta));
}

}  // namespace

void bind_regions(nb::module_& m) {
  nb::class_<OwnedRegions>(m, "Regions")
      .def("__init__", &make_regions, nb::arg("member_first").noconvert(),
           nb::arg("members").noconvert(), nb::arg("mass").noconvert(),
           nb::arg("slope").noconvert(), nb::arg("hinge_first").noconvert(),
           nb::arg("alpha").noconvert(), nb::arg("beta").noconvert(),
           nb::sig("def __init__(self, member_first: numpy.typing.NDArray[numpy.int64], "
                   "members: numpy.typing.NDArray[numpy.int32], "
                   "mass: numpy.typing.NDArray[numpy.float64], "
                   "slope: numpy.typing.NDArray[numpy.float64], "
                   "hinge_first: numpy.typing.NDArray[numpy.int64], "
                   "alpha: numpy.typing.NDArray[numpy.float64], "
                   "beta: numpy.typing.NDArray[numpy.float64]) -> None"))
      .def("__len__", [](const OwnedRegions& r) { return r.slope.size(); })
      .def_prop_ro("members", [](const OwnedRegions& r) { return r.members.size(); })
      .def_prop_ro("hinges", [](const OwnedRegions& r) { return r.alpha.size(); })
      .def("__getstate__", &state, nb::sig("def __getstate__(self) -> object"))
      .def(
          "__setstate__",
          [](OwnedRegions& self, const State& s) {
            std::apply([&](const auto&... arrays) { make_regions(&self, arrays...); }, s);
          },
          nb::sig("def __setstate__(self, state: typing.Any) -> None"));
  m.def("members_of", &members_of, nb::arg("region").noconvert(), nb::arg("count"),
        nb::sig("def members_of(region: numpy.typing.NDArray[numpy.int64], count: int) -> "
                "tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int32]]"));
}
