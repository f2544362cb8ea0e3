// What bindings.cpp needs to know of the oracle's door.
#pragma once

#include <nanobind/nanobind.h>

void bind_oracle(nanobind::module_& m);
