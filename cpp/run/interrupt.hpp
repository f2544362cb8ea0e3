// Long work that a person can end: it asks now and then whether to go on.
//
// A thread asks whoever listens for it, nobody by default. The door to Python (bind/arrays.hpp)
// lets the calling thread look for signals such as Ctrl-C; run/parallel.hpp passes the answer on to
// the others.
#pragma once

#include <chrono>
#include <exception>
#include <functional>

namespace cutlearn {

class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

using Question = std::function<bool()>;  // true: stop
inline thread_local const Question* asked = nullptr;

// While it lives, this thread asks `question`.
class Asking {
 public:
  explicit Asking(const Question& question) : before_(asked) { asked = &question; }
  ~Asking() { asked = before_; }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

 private:
  const Question* before_;
};

// Asks at most 20 times a second, so that a loop may call it every few microseconds.
// throws Interrupted
inline void allow_interrupt() {
  using Clock = std::chrono::steady_clock;
  static thread_local Clock::time_point last{};
  if (!asked) return;
  const Clock::time_point now = Clock::now();
  if (now - last < std::chrono::milliseconds(50)) return;
  last = now;
  if ((*asked)()) throw Interrupted();
}

}  // namespace cutlearn
