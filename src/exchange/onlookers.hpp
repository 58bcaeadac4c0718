// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_ONLOOKERS_HPP
#define SHARD_SRC_EXCHANGE_ONLOOKERS_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>

namespace shard::impl {

/// Whether tools look on. Kokkos compares all of its callbacks to say so, which takes as long as to
/// pack a little face: asked in a plan's first run, where a tool that was loaded with Kokkos is
/// seen, and then once in sixteen, where one is that the program sets itself.
class Onlookers {
 public:
  bool are_there(std::uint64_t run) {
    if (run % 16 == 0) there_ = Kokkos::Profiling::profileLibraryLoaded();
    return there_;
  }

 private:
  bool there_ = false;
};

/// A region for tools, if they look on.
class ToolRegion {
 public:
  ToolRegion(const char* label, bool seen) : seen_(seen) {
    if (seen_) Kokkos::Profiling::pushRegion(label);
  }
  ~ToolRegion() {
    if (seen_) Kokkos::Profiling::popRegion();
  }
  ToolRegion(const ToolRegion&)            = delete;
  ToolRegion& operator=(const ToolRegion&) = delete;

 private:
  bool seen_;
};

}  // namespace shard::impl

#endif
