// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_VERSION_HPP
#define SHARD_BASE_VERSION_HPP

#include <shard/config.hpp>

namespace shard {

/// A release of shard.
struct Version {
  int major;         ///< changes if programs have to change
  int minor;         ///< changes with new features
  int patch;         ///< changes with fixes
  const char* text;  ///< "major.minor.patch"

  /// Whether all three numbers are equal.
  friend constexpr bool operator==(const Version& a, const Version& b) {
    return a.major == b.major && a.minor == b.minor && a.patch == b.patch;
  }
};

/// The version of the library that the program is linked with. The macros SHARD_VERSION_* are the
/// version of the headers that it was compiled with. The two should be equal.
Version version() noexcept;

}  // namespace shard

#endif
