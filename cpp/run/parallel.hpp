// Many tasks on several threads, with the same result for any number of them.
//
// A thread that cannot start, or has no memory for its state, is done without: the others take its
// tasks. An interrupt on the calling thread ends them all.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "run/interrupt.hpp"

namespace cutlearn {

constexpr std::size_t kMostThreads = 256;

// How many threads are worth starting.
inline int useful_threads(int threads, std::size_t tasks) {
  const std::size_t most = std::max<std::size_t>(std::min(tasks, kMostThreads), 1);
  return static_cast<int>(
      std::min<std::size_t>(static_cast<std::size_t>(std::max(threads, 1)), most));
}

// What went wrong, and at which task.
struct TaskFailure {
  std::size_t task;
  std::exception_ptr cause;
};

// Calls work(state, i) for i = 0 .. count - 1; each thread has a state of its own, make(thread).
// throws TaskFailure: that of the first task in their order among those that failed, the same for
//        any number of threads; and what make(0) throws, before any other thread starts
template <class Make, class Work>
void parallel(std::size_t count, int threads, Make&& make, Work&& work) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stop{false};
  TaskFailure failure{count, nullptr};
  std::mutex lock;
  const auto fail = [&](std::size_t i) {
    const std::lock_guard guard(lock);
    if (i <= failure.task) failure = {i, std::current_exception()};
    next = count;
  };
  const auto serve = [&](auto& state) {
    for (std::size_t i; (i = next++) < count;) {
      try {
        work(state, i);
      } catch (const Interrupted&) {
        stop = true;
        fail(0);  // before any other failure
      } catch (...) {
        fail(i);
      }
    }
  };
  const StopCheck stopped = [&] { return stop.load(); };
  const auto help = [&](int thread) {
    const StopScope scope(stopped);
    try {
      auto state = make(thread);
      serve(state);
    } catch (...) {  // of make: the others do without this thread
    }
  };
  const int wanted = useful_threads(threads, count);
  auto mine = make(0);
  {
    std::vector<std::jthread> others;  // joined at the end of this block, however it is left
    try {
      others.reserve(static_cast<std::size_t>(wanted));
      for (int t = 1; t < wanted; ++t) others.emplace_back(help, t);
    } catch (const std::system_error&) {  // no more threads to be had
    } catch (const std::bad_alloc&) {     // nor memory for one
    }
    serve(mine);
  }
  if (failure.cause) throw failure;
}

}  // namespace cutlearn
