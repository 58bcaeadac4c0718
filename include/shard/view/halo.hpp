// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_HALO_HPP
#define SHARD_VIEW_HALO_HPP

namespace shard {

/// Width of a dimension's halo in points: `Lo` points before the first owned point, `Hi` after the
/// last. `Halo<2>` is `Halo<2, 2>`.
template <int Lo, int Hi = Lo>
struct Halo {
  static_assert(Lo >= 0 && Hi >= 0, "a halo's widths are not negative");
  static constexpr int lo = Lo;  ///< points on the low side
  static constexpr int hi = Hi;  ///< points on the high side
};

namespace impl {

template <class>
inline constexpr bool is_halo_v = false;
template <int Lo, int Hi>
inline constexpr bool is_halo_v<Halo<Lo, Hi>> = true;

}  // namespace impl
}  // namespace shard

#endif
