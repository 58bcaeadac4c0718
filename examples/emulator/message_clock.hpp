// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace emulator {

/// Counts the time that this process spends on messages: the library marks it as a Kokkos profiling
/// region, as any tool sees it. One at a time.
class MessageClock {
 public:
  MessageClock();
  ~MessageClock();
  MessageClock(const MessageClock&)            = delete;
  MessageClock& operator=(const MessageClock&) = delete;

  /// Seconds so far.
  [[nodiscard]] double seconds() const;
};

}  // namespace emulator
