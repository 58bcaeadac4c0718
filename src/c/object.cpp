// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <string>

#include "handles.hpp"

int shard_object_retain(void* object) {
  return shard::c::retain(static_cast<shard::c::Counted*>(object), "the object");
}
int shard_object_release(void** object) {
  auto* held     = static_cast<shard::c::Counted*>(*object);
  const int code = shard::c::release(&held, "the object");
  *object        = held;
  return code;
}

int shard_describe(void* object, const char** text) {
  return shard::c::guarded([&] {
    thread_local std::string last;
    last = shard::c::require(static_cast<shard::c::Counted*>(object), "the object").describe();
    shard::c::require(text, "the text") = last.c_str();
  });
}

int shard_argument_refused(const char* message) {
  return shard::c::fail(shard_error_argument, message);
}
