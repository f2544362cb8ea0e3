// A failed round of oracles as a Python exception.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <string>

#include "rounds.hpp"

namespace cutlearn {

// RuntimeError(number of the task, what went wrong)
[[noreturn]] inline void raise(const OracleFailure& failure) {
  std::string what = "unknown";
  try {
    std::rethrow_exception(failure.cause);
  } catch (const std::exception& error) {
    what = error.what();
  } catch (...) {
  }
  PyErr_SetObject(PyExc_RuntimeError, nanobind::make_tuple(failure.task, what).ptr());
  throw nanobind::python_error();
}

}  // namespace cutlearn
