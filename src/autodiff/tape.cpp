// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/autodiff/tape.hpp"

namespace shard::impl {

AdjointSlot* AdjointTable::find(const void* identity) {
  for (const auto& slot : slots_)
    if (slot->identity == identity) return slot.get();
  return nullptr;
}

AdjointSlot& AdjointTable::slot(const void* identity, const void* tag) {
  if (AdjointSlot* const slot = find(identity)) {
    if (slot->tag != tag)
      throw_argument("Tape", {"the same memory is on the tape under two types: convert a field "
                              "before it is first used, and use that one"});
    return *slot;
  }
  slots_.push_back(std::make_unique<AdjointSlot>());
  slots_.back()->identity = identity;
  slots_.back()->tag      = tag;
  return *slots_.back();
}

void AdjointTable::forget() {
  for (const auto& slot : slots_) slot->filled = false;
}

void throw_not_on_tape(const char* function, const char* what) { throw_argument(function, {what}); }

}  // namespace shard::impl
