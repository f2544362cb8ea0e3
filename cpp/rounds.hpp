// One round of oracles: every task once, on so many threads, the same result for any number.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace cutlearn {

// What went wrong in a round, and for which task.
struct OracleFailure {
  std::size_t task;
  std::exception_ptr cause;
};

// Calls work(i, scratch) for i = 0 .. count - 1; each thread has a scratch of its own.
// throws OracleFailure
template <class Scratch, class Work>
void run_round(std::size_t count, int threads, Work&& work) {
  std::atomic<std::size_t> next{0};
  OracleFailure failure{count, nullptr};
  std::mutex lock;
  const auto serve = [&] {
    Scratch scratch;
    for (std::size_t i; (i = next++) < count;) {
      try {
        work(i, scratch);
      } catch (...) {
        const std::lock_guard guard(lock);
        // The first task in their order among those that failed: the same for any threads.
        if (i < failure.task) failure = {i, std::current_exception()};
        next = count;
      }
    }
  };
  std::vector<std::thread> others;
  const auto wanted = std::min<std::size_t>(static_cast<std::size_t>(threads), count);
  for (std::size_t t = 1; t < wanted; ++t) others.emplace_back(serve);
  serve();
  for (std::thread& other : others) other.join();
  if (failure.cause) throw failure;
}

}  // namespace cutlearn
