// Where a stream of ops is cut into programs: a property of the ops alone, so that each iteration of a loop is cut alike
// whatever came before it.
//
// The last kRadius ops up to one give it a score (a rolling hash of their contents). An op whose score is the highest
// within kRadius ops on both sides ends a *chunk* (content-defined chunking by local maxima: Bjørner, Blass, Gurevich,
// "Content-dependent chunking for differential compression: the local maximum approach", 2010). In a loop whose body is
// shorter than the radius, ops that are an iteration apart have equal scores, so every iteration has one such op, and
// chunks are iterations; equal neighbours are joined until they have kGroup ops, so that short iterations share a
// program. Layers that repeat within an iteration do not look alike: what came before them differs.
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace tpu::runtime {

class CutPoints {
 public:
  static constexpr size_t kRadius = 128;  // no two different chunks' ends are nearer to each other
  static constexpr size_t kGroup = 64;
  static constexpr size_t kMaximum = 8 * kRadius;  // ops in one program, where scores never let it end

  // Takes the next op. Returns, oldest first, the cuts that are now certain, each as the number of ops since the last
  // Reset that come before it.
  std::vector<size_t> Add(uint64_t content);
  // Everything so far has been run: a boundary in its own right.
  void Reset();

 private:
  struct Scored {
    size_t position;
    uint64_t score;
  };
  bool IsHighest(size_t position) const;
  void EndChunk(size_t end, std::vector<size_t>& cuts);
  void Cut(size_t end, std::vector<size_t>& cuts);

  size_t count_ = 0;             // ops since Reset
  uint64_t rolling_ = 0;         // hash of the last kRadius contents
  std::deque<uint64_t> recent_;  // those contents
  std::deque<Scored> highest_;   // falling scores among the last 2 * kRadius + 1 ops: the front is their highest
  std::deque<uint64_t> scores_, contents_;  // of the ops from first_ on
  size_t first_ = 0;
  size_t cut_ = 0;          // ops before the last cut
  size_t chunk_begin_ = 0;  // ops before the chunk under way
  size_t group_end_ = 0;    // equal chunks since the last cut end here; cut_ when there are none
  uint64_t group_content_ = 0;
  size_t group_chunk_ = 0;  // ops in each of them
};

}  // namespace tpu::runtime
