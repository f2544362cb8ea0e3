// A failed oracle among many as a Python exception.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "run/parallel.hpp"

namespace cutlearn {

// An error with the arguments (number of the task, what went wrong).
[[noreturn]] inline void raise(const TaskFailure& failure) {
  PyObject* kind = PyExc_RuntimeError;
  std::string what = "unknown";
  try {
    std::rethrow_exception(failure.cause);
  } catch (const Interrupted&) {
    throw nanobind::python_error();  // what the signal's handler raised
  } catch (const std::overflow_error& error) {
    kind = PyExc_OverflowError;
    what = error.what();
  } catch (const std::bad_alloc&) {
    kind = PyExc_MemoryError;
    what = "out of memory";
  } catch (const std::exception& error) {
    what = error.what();
  } catch (...) {
  }
  PyErr_SetObject(kind, nanobind::make_tuple(failure.task, what).ptr());
  throw nanobind::python_error();
}

}  // namespace cutlearn
