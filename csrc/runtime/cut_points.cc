#include "runtime/cut_points.h"

#include "base/hash.h"

namespace tpu::runtime {
namespace {

// A polynomial in kBase modulo 2^64, whose coefficients are the contents.
constexpr uint64_t kBase = 0xD6E8FEB86659FD93ull;
constexpr uint64_t kBaseToRadius = [] {
  uint64_t power = 1;
  for (size_t i = 0; i < CutPoints::kRadius; ++i) power *= kBase;
  return power;
}();

}  // namespace

void CutPoints::Reset() { *this = CutPoints(); }

void CutPoints::Cut(size_t end, std::vector<size_t>& cuts) {
  cuts.push_back(end);
  cut_ = group_end_ = end;
  group_chunk_ = 0;
}

void CutPoints::EndChunk(size_t end, std::vector<size_t>& cuts) {
  const size_t length = end - chunk_begin_;
  uint64_t content = length;
  for (size_t i = chunk_begin_; i < end; ++i) content = Mix(content, contents_[i - first_]);
  const bool joins = group_chunk_ == length && group_content_ == content;
  if (!joins && group_end_ > cut_) Cut(group_end_, cuts);
  group_content_ = content;
  group_chunk_ = length;
  group_end_ = chunk_begin_ = end;
  if (group_end_ - cut_ >= kGroup) Cut(group_end_, cuts);
}

// Of the ops that highest_ spans.
bool CutPoints::IsHighest(size_t position) const { return scores_[position - first_] == highest_.front().score; }

std::vector<size_t> CutPoints::Add(uint64_t content) {
  rolling_ = rolling_ * kBase + content;
  recent_.push_back(content);
  if (recent_.size() > kRadius) {
    rolling_ -= recent_.front() * kBaseToRadius;
    recent_.pop_front();
  }
  const uint64_t score = Mix(0x9E3779B97F4A7C15ull, rolling_);
  const size_t position = count_++;
  scores_.push_back(score);
  contents_.push_back(content);
  while (!highest_.empty() && highest_.back().score < score) highest_.pop_back();
  highest_.push_back({position, score});

  std::vector<size_t> cuts;
  if (count_ <= kRadius) return cuts;
  const size_t candidate = position - kRadius;  // its right side is complete now
  while (highest_.front().position + kRadius < candidate) highest_.pop_front();
  if (candidate >= chunk_begin_ && IsHighest(candidate)) EndChunk(candidate + 1, cuts);
  if (count_ - cut_ >= kMaximum) {
    Cut(count_, cuts);
    chunk_begin_ = count_;
  }
  // Scores are wanted from here on by later candidates, contents by the chunk's end.
  const size_t keep = candidate < chunk_begin_ ? candidate : chunk_begin_;
  for (; first_ < keep; ++first_) {
    scores_.pop_front();
    contents_.pop_front();
  }
  return cuts;
}

}  // namespace tpu::runtime
