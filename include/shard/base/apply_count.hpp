// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_APPLY_COUNT_HPP
#define SHARD_BASE_APPLY_COUNT_HPP

#include <cstdint>
#include <memory>

namespace shard {

/// Counts how often the state is overwritten that the copies of an operation share. An operation
/// that remembers its last apply has one: `apply` calls `add()`, and its member `applied()` returns
/// `value()` (see autodiff/operation.hpp). Copies share the number.
class ApplyCount {
 public:
  /// Counts an apply.
  void add() const { ++*count_; }
  /// The number of applies so far.
  std::uint64_t value() const { return *count_; }

 private:
  std::shared_ptr<std::uint64_t> count_ = std::make_shared<std::uint64_t>(0);
};

}  // namespace shard

#endif
