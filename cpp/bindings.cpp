#include <nanobind/nanobind.h>
namespace nb = nanobind;
NB_MODULE(_core, m) { m.doc() = "The C++ core of cutlearn."; }
