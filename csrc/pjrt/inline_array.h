// A fixed-length array on the stack up to N elements, on the heap beyond. For files of this folder only.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace tpu::pjrt {

template <typename T, size_t N = 64>
class InlineArray {
 public:
  explicit InlineArray(size_t size) {
    if (size > N) heap_.resize(size);
    data_ = size > N ? heap_.data() : inline_.data();
  }
  InlineArray(const InlineArray&) = delete;
  InlineArray& operator=(const InlineArray&) = delete;

  T* data() { return data_; }
  T& operator[](size_t i) { return data_[i]; }

 private:
  std::array<T, N> inline_;
  std::vector<T> heap_;
  T* data_;
};

}  // namespace tpu::pjrt
