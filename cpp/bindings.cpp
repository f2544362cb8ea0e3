#include <nanobind/nanobind.h>
namespace nb = nanobind;
void bind_trees(nb::module_ &m);
NB_MODULE(_core, m) {
    m.doc() = "The C++ core of cutlearn.";
    bind_trees(m);
}
