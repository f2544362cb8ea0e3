// The door to regions: seven arrays in, one object out.
#include "bind/regions.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <tuple>
#include <type_traits>

#include "bind/arrays.hpp"

using namespace cutlearn;

namespace {

using State = std::tuple<In<std::int64_t>, In<Id>, In<double>, In<double>, In<std::int64_t>,
                         In<double>, In<double>>;

// An array as a vector of any kind.
template <class T>
struct Copy {
  const In<T>& array;
  template <class Memory>
  operator std::vector<T, Memory>() const {
    return {array.data(), array.data() + array.size()};
  }
};
template <class T>
Copy<T> copy(const In<T>& array) {
  return {array};
}

// Whether these are the offsets of `count` lists that have `size` entries together.
bool are_offsets(const std::vector<std::int64_t>& first, std::size_t count, std::size_t size) {
  return first.size() == count + 1 && first.front() == 0 &&
         first.back() == static_cast<std::int64_t>(size) &&
         std::is_sorted(first.begin(), first.end());
}

void make_regions(OwnedRegions* self, In<std::int64_t> member_first, In<Id> members,
                  In<double> mass, In<double> slope, In<std::int64_t> hinge_first, In<double> alpha,
                  In<double> beta) {
  OwnedRegions regions{copy(member_first), copy(members), copy(mass), copy(slope),
                       copy(hinge_first),  copy(alpha),   copy(beta)};
  const std::size_t count = regions.slope.size();
  if (!are_offsets(regions.member_first, count, members.size()) ||
      !are_offsets(regions.hinge_first, count, alpha.size()) || mass.size() != members.size() ||
      beta.size() != alpha.size())
    throw std::invalid_argument("the arrays of the regions do not fit each other");
  for (const Id i : regions.members) {
    if (i < 0) throw std::invalid_argument("a region has a member below 0");
    regions.last = std::max(regions.last, i);
  }
  new (self) OwnedRegions(std::move(regions));
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
}
