// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_FEW_HPP
#define SHARD_SRC_EXCHANGE_FEW_HPP

#include <array>
#include <cstddef>

namespace shard::impl {

/// A list of at most `Most` elements, without memory of its own: making a plan makes hundreds of
/// lists that are as long as a field has dimensions.
template <class T, std::size_t Most>
class Few {
 public:
  void push_back(const T& element) { elements_[size_++] = element; }
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T* begin() { return elements_.data(); }
  T* end() { return begin() + size_; }
  const T* begin() const { return elements_.data(); }
  const T* end() const { return begin() + size_; }
  T& front() { return elements_[0]; }
  const T& front() const { return elements_[0]; }
  const T& operator[](std::size_t i) const { return elements_[i]; }
  T& back() { return elements_[size_ - 1]; }
  const T& back() const { return elements_[size_ - 1]; }

 private:
  std::array<T, Most> elements_;
  std::size_t size_ = 0;
};

}  // namespace shard::impl

#endif
