// The key of one call: everything that decides the program and the results' shapes, and nothing that does not.
#pragma once

#include <c10/util/SmallVector.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"

namespace tpu::aten {

class CallKey {
 public:
  void Add(uint64_t word) { words_.push_back(word); }
  void AddDouble(double value) {
    uint64_t word;
    std::memcpy(&word, &value, sizeof word);
    Add(word);
  }
  template <typename List>
  void AddInts(const List& list) {
    Add(list.size());
    for (int64_t v : list) Add(static_cast<uint64_t>(v));
  }
  void AddText(std::string_view text) {
    Add(text.size());
    for (char c : text) Add(static_cast<uint64_t>(c));
  }
  uint64_t Hash() const { return HashWords(words_); }
  bool operator==(const CallKey& other) const {
    return words_.size() == other.words_.size() &&
           std::memcmp(words_.data(), other.words_.data(), words_.size() * 8) == 0;
  }

 private:
  c10::SmallVector<uint64_t, 48> words_;
};

// Calls seen so far, whole keys compared. Threads: any.
template <typename Entry>
class CallTable {
 public:
  Entry* Find(const CallKey& key) const {
    const uint64_t hash = key.Hash();
    std::lock_guard lock(mutex_);
    auto [begin, end] = table_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
      if (it->second.first == key) return it->second.second.get();
    }
    return nullptr;
  }
  // Entries live as long as the table. Two threads may have missed together: the first one's entry stays.
  Entry* Insert(const CallKey& key, std::unique_ptr<Entry> entry) {
    if (Entry* found = Find(key)) return found;
    std::lock_guard lock(mutex_);
    return table_.emplace(key.Hash(), std::make_pair(key, std::move(entry)))->second.second.get();
  }

 private:
  mutable std::mutex mutex_;  // guards table_
  std::unordered_multimap<uint64_t, std::pair<CallKey, std::unique_ptr<Entry>>> table_;
};

}  // namespace tpu::aten
