// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_MULTIGRID_CYCLE_HPP
#define SHARD_SOLVE_MULTIGRID_CYCLE_HPP

#include <cstdint>

namespace shard {

/// The order in which multigrid visits its levels.
enum class MultigridCycle : std::uint8_t {
  v,    ///< each level once: symmetric, for CG
  w,    ///< each coarser level twice: symmetric
  f,    ///< an f-cycle, then a v-cycle of each coarser level: for flexible CG and GMRES
  full  ///< from the coarsest level upwards, with a v-cycle on each: for flexible CG and GMRES
};

namespace impl {

/// A cycle on one level's A x = b, from 0 or from its x. Levels of every kind have these steps:
/// smooth(zero); restrict_residual() and restrict_b(), which give the next level's b; clear(), x =
/// 0; correct(), which adds the interpolation of the next level's x. `next(cycle, zero)` is a cycle
/// on the next level, which is solved at once if it is the last.
template <class Level, class Next>
void visit_level(Level&& level, MultigridCycle cycle, bool zero, bool next_is_last,
                 const Next& next) {
  if (cycle == MultigridCycle::full) {
    level.restrict_b();
    next(cycle, true);
    level.clear();
    level.correct();
    return visit_level(level, MultigridCycle::v, false, next_is_last, next);
  }
  level.smooth(zero);
  level.restrict_residual();
  next(cycle, true);
  if (cycle != MultigridCycle::v && !next_is_last)
    next(cycle == MultigridCycle::f ? MultigridCycle::v : cycle, false);
  level.correct();
  level.smooth(false);
}

}  // namespace impl
}  // namespace shard

#endif
