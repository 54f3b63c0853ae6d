// Where the time for what is new goes: seconds by phase, of this process, over all threads.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace tpu {

// Of an op that is met for the first time: PyTorch's meta kernel and what surrounds it; its decomposition; its StableHLO.
enum class Phase : uint8_t { kTrace, kDecompose, kEmit };
inline constexpr std::array<const char*, 3> kPhaseNames = {"trace", "decompose", "emit"};

// Times its scope; what an inner one times is not the outer one's.
class PhaseTimer {
 public:
  explicit PhaseTimer(Phase phase) : phase_(phase), outer_(current_), begin_(Clock::now()) {
    if (outer_) outer_->Book(begin_);
    current_ = this;
  }
  ~PhaseTimer() {
    const auto now = Clock::now();
    Book(now);
    if (outer_) outer_->begin_ = now;
    current_ = outer_;
  }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

  static double Seconds(Phase phase) { return total_[static_cast<size_t>(phase)].load() * 1e-9; }

 private:
  using Clock = std::chrono::steady_clock;

  void Book(Clock::time_point now) {
    total_[static_cast<size_t>(phase_)] += std::chrono::nanoseconds(now - begin_).count();
  }

  Phase phase_;
  PhaseTimer* outer_;
  Clock::time_point begin_;
  static inline thread_local PhaseTimer* current_ = nullptr;
  static inline std::array<std::atomic<int64_t>, 3> total_{};  // nanoseconds
};

}  // namespace tpu
