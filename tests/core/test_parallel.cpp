// parallel: every task is done once, whatever a thread lacks.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "run/parallel.hpp"

using namespace cutlearn;

namespace {

constexpr std::size_t kNever = ~std::size_t{0};
thread_local std::size_t allocations_left = kNever;

}  // namespace

// The allocations of this thread fail once they are used up.
void* operator new(std::size_t size) {
  if (allocations_left != kNever && allocations_left-- == 0) {
    allocations_left = 0;
    throw std::bad_alloc();
  }
  if (void* made = std::malloc(size ? size : 1)) return made;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

TEST_CASE("all tasks are done where there is memory for no thread, or for a few") {
  for (std::size_t most = 0; most < 12; ++most) {
    std::vector<std::atomic<int>> done(1000);
    allocations_left = most;
    parallel(done.size(), 4, [](int) { return 0; }, [&](int, std::size_t i) { ++done[i]; });
    allocations_left = kNever;
    for (const auto& times : done) REQUIRE(times == 1);
  }
}

TEST_CASE("a thread that cannot make its state is done without, whatever the reason") {
  std::vector<std::atomic<int>> done(1000);
  const auto make = [](int thread) {
    if (thread) throw std::length_error("no state");
    return thread;
  };
  parallel(done.size(), 4, make, [&](int, std::size_t i) { ++done[i]; });
  for (const auto& times : done) REQUIRE(times == 1);
}

TEST_CASE("the first state that cannot be made is the caller's failure") {
  const auto make = [](int) -> int { throw std::length_error("no state"); };
  CHECK_THROWS_AS(parallel(3, 2, make, [](int, std::size_t) {}), std::length_error);
}

TEST_CASE("the failure of the first task is thrown for any number of threads") {
  for (int threads = 1; threads <= 4; ++threads) {
    std::size_t failed = kNever;
    try {
      parallel(
          100, threads, [](int) { return 0; },
          [](int, std::size_t i) {
            if (i % 10 == 3) throw std::runtime_error("a task");
          });
    } catch (const TaskFailure& failure) {
      failed = failure.task;
    }
    CHECK(failed == 3);
  }
}
