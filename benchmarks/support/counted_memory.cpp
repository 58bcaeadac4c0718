// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "counted_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

std::size_t live = 0, peak = 0;
constexpr std::size_t head = alignof(std::max_align_t);  // each block's size stands before it

}  // namespace

namespace counted_memory {

std::size_t start() { return peak = live; }
std::size_t most() { return peak; }

}  // namespace counted_memory

void* operator new(std::size_t bytes) {
  auto* block = static_cast<char*>(std::malloc(bytes + head));
  if (block == nullptr) throw std::bad_alloc();
  *reinterpret_cast<std::size_t*>(block) = bytes;
  peak                                   = std::max(peak, live += bytes);
  return block + head;
}
void operator delete(void* pointer) noexcept {
  if (pointer == nullptr) return;
  char* block = static_cast<char*>(pointer) - head;
  live -= *reinterpret_cast<std::size_t*>(block);
  std::free(block);
}
void operator delete(void* pointer, std::size_t) noexcept { operator delete(pointer); }
