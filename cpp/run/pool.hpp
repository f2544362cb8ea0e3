// Large blocks of memory for programs that cut in a loop: what one cut gives back, the next takes,
// and no page of it has to be made again.
//
// What     Blocks of kLarge bytes and more are kept when they are given back, up to kKept bytes in
//          all, the latest ones; smaller ones are the allocator's.
// Threads  One pool for all, behind a lock. A thread that finds it locked uses malloc: none waits, not
//          even in a process that was forked from one whose other thread held it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

namespace cutlearn {

class Pool {
 public:
#if defined(__SANITIZE_ADDRESS__)
  static constexpr std::size_t kLarge = ~std::size_t{0};  // kept blocks would hide wrong accesses
#else
  static constexpr std::size_t kLarge = std::size_t{1} << 18;
#endif
  static constexpr std::size_t kKept = std::size_t{1} << 28;

  static Pool& get() {
    static Pool* pool = new Pool;  // never destroyed: blocks may come back at the very end
    return *pool;
  }

  // throws std::bad_alloc
  void* take(std::size_t asked, bool zeroed) {
    const std::size_t bytes = rounded(asked);
    if (bytes >= kLarge)
      if (void* kept = find(bytes)) return zeroed ? std::memset(kept, 0, asked) : kept;
    void* made = make(bytes, zeroed);
    if (!made) {  // what is kept may be what is missing
      shrink(0);
      made = make(bytes, zeroed);
    }
    if (!made) throw std::bad_alloc();
    return made;
  }

  // asked: as it was when the block was taken
  void give(void* block, std::size_t asked) noexcept {
    const std::size_t bytes = rounded(asked);
    if (bytes < kLarge || !keep(block, bytes)) std::free(block);
  }

 private:
  struct Block {
    void* start;
    std::size_t bytes;
  };

  // Up by an eighth at most, so that blocks of nearly one size can replace each other.
  static std::size_t rounded(std::size_t asked) {
    if (asked < kLarge) return asked;
    const std::size_t step = std::bit_floor(asked) / 8;
    return (asked + step - 1) / step * step;
  }

  static void* make(std::size_t bytes, bool zeroed) {
    return zeroed ? std::calloc(bytes, 1) : std::malloc(bytes);
  }

  void* find(std::size_t bytes) {
    const std::unique_lock lock(busy_, std::try_to_lock);
    if (!lock) return nullptr;
    for (std::size_t k = kept_.size(); k-- > 0;) {
      if (kept_[k].bytes != bytes) continue;
      void* start = kept_[k].start;
      total_ -= bytes;
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(k));
      return start;
    }
    return nullptr;
  }

  bool keep(void* block, std::size_t bytes) noexcept {
    if (bytes > kKept) return false;
    shrink(kKept - bytes);
    const std::unique_lock lock(busy_, std::try_to_lock);
    if (!lock) return false;
    try {
      kept_.push_back({block, bytes});
    } catch (const std::bad_alloc&) {
      return false;
    }
    total_ += bytes;
    return true;
  }

  // Keeps `most` bytes.
  void shrink(std::size_t most) noexcept {
    const std::unique_lock lock(busy_, std::try_to_lock);
    if (!lock) return;
    while (total_ > most) {
      std::free(kept_.front().start);
      total_ -= kept_.front().bytes;
      kept_.erase(kept_.begin());
    }
  }

  std::mutex busy_;
  std::vector<Block> kept_;  // the oldest first
  std::size_t total_ = 0;
};

// For containers.
template <class T>
struct Pooled {
  using value_type = T;
  Pooled() = default;
  template <class U>
  Pooled(const Pooled<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(Pool::get().take(n * sizeof(T), false)); }
  void deallocate(T* p, std::size_t n) noexcept { Pool::get().give(p, n * sizeof(T)); }
  template <class U>
  bool operator==(const Pooled<U>&) const {
    return true;
  }
};
template <class T>
using PooledVector = std::vector<T, Pooled<T>>;

}  // namespace cutlearn
