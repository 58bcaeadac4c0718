// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_VERSION_HPP
#define SHARD_BASE_VERSION_HPP

#include <shard/config.hpp>

namespace shard {

/// A release of shard.
struct Version {
  int major;         ///< changes where programs have to
  int minor;         ///< changes with what is new
  int patch;         ///< changes with what is mended
  const char* text;  ///< "major.minor.patch"

  /// Whether all three numbers are equal.
  friend constexpr bool operator==(const Version& a, const Version& b) {
    return a.major == b.major && a.minor == b.minor && a.patch == b.patch;
  }
};

/// The version of the library that the program is linked with. The macros SHARD_VERSION_* tell
/// which headers it was compiled with; where the two differ, one of them was left behind.
Version version() noexcept;

}  // namespace shard

#endif
