// Long work that a user can interrupt: it checks now and then whether to stop.
//
// A thread has a check of its own, none by default. The binding to Python (bind/arrays.hpp)
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

using StopCheck = std::function<bool()>;  // true: stop
inline thread_local const StopCheck* stop_check = nullptr;

// While it lives, this thread calls `check`.
class StopScope {
 public:
  explicit StopScope(const StopCheck& check) : before_(stop_check) { stop_check = &check; }
  ~StopScope() { stop_check = before_; }
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  const StopCheck* before_;
};

// Checks at most 20 times a second, so that a loop may call it every few microseconds.
// throws Interrupted
inline void allow_interrupt() {
  using Clock = std::chrono::steady_clock;
  static thread_local Clock::time_point last{};
  if (!stop_check) return;
  const Clock::time_point now = Clock::now();
  if (now - last < std::chrono::milliseconds(50)) return;
  last = now;
  if ((*stop_check)()) throw Interrupted();
}

}  // namespace cutlearn
