// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a fake library was called with, for the tests, which find the functions by name.
#ifndef SHARD_TESTS_DEVICE_FAKE_CALLS_HPP
#define SHARD_TESTS_DEVICE_FAKE_CALLS_HPP

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <string>

namespace fake {

/// One line for each call.
inline std::string& calls() {
  static auto* all = new std::string;  // lives longer than other statics
  return *all;
}
/// The calls since the last question.
inline const char* calls_since() {
  static auto* answer = new std::string;
  *answer             = calls();
  calls().clear();
  return answer->c_str();
}

/// "1,2,3"
template <class Values>
std::string list(const Values& values, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i > 0 ? "," : "") + std::to_string(values[i]);
  return text;
}
inline std::string address(const void* at) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", at);
  return text;
}

/// True if the floats from the first to the last one are in a device's memory.
inline bool is_device_memory(const void* first, long long last) {
  for (const void* at :
       {first, static_cast<const void*>(static_cast<const float*>(first) + last)}) {
    cudaPointerAttributes attributes;
    if (cudaPointerGetAttributes(&attributes, at) != cudaSuccess ||
        attributes.type != cudaMemoryTypeDevice)
      return false;
  }
  return true;
}

}  // namespace fake

#endif
