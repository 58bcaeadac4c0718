// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_TEAM_SUMS_HPP
#define SHARD_BASE_TEAM_SUMS_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>

#include "shard/base/launch.hpp"

/// \file
/// What a device's teams of threads have in common that sum over cells.

namespace shard::impl {

/// Threads of a team. One on a host, where only tests run these kernels.
template <class Space>
inline constexpr int team_threads = is_host_space_v<Space> ? 1 : 256;

/// The cells that one thread visits of a box: every `step`-th from `first`, the last dimension the
/// fastest. The offset in each field and the indices are advanced without a division.
template <int Fields>
struct PlaneWalk {
  index_t offset[Fields] = {};
  int at[3]              = {};

  /// `strides`: each field's three.
  KOKKOS_FUNCTION PlaneWalk(const index_t (&extents)[3], const index_t* const (&strides)[Fields],
                            index_t first, index_t step) {
    for (int d = 0; d < 3; ++d) extent_[d] = static_cast<int>(extents[d]);
    // a division of 64 bits takes several times as long as one of 32
    if ((first | step) >> 32 == 0) {
      split(static_cast<std::uint32_t>(first), at);
      split(static_cast<std::uint32_t>(step), step_);
    } else {
      split(static_cast<std::uint64_t>(first), at);
      split(static_cast<std::uint64_t>(step), step_);
    }
    for (int f = 0; f < Fields; ++f) {
      const index_t* s = strides[f];
      offset[f]        = at[0] * s[0] + at[1] * s[1] + at[2] * s[2];
      ahead_[f]        = step_[0] * s[0] + step_[1] * s[1] + step_[2] * s[2];
      wrap_[0][f]      = s[0] - extents[1] * s[1];
      wrap_[1][f]      = s[1] - extents[2] * s[2];
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION void next() {
    for (int d = 0; d < 3; ++d) at[d] += step_[d];
    for (int f = 0; f < Fields; ++f) offset[f] += ahead_[f];
    for (int d = 2; d > 0; --d) {
      const bool over = at[d] >= extent_[d];
      at[d] -= over ? extent_[d] : 0;
      at[d - 1] += over ? 1 : 0;
      for (int f = 0; f < Fields; ++f) offset[f] += over ? wrap_[d - 1][f] : 0;
    }
  }
  /// The index along dimension d. (An index that isn't known when the kernel is compiled would put
  /// `at` into local memory.)
  KOKKOS_FORCEINLINE_FUNCTION int along(int d) const {
    return d == 0 ? at[0] : d == 1 ? at[1] : at[2];
  }

 private:
  template <class Number>
  KOKKOS_FORCEINLINE_FUNCTION void split(Number cell, int (&index)[3]) const {
    for (int d = 2; d > 0; --d) {
      index[d] = static_cast<int>(cell % static_cast<Number>(extent_[d]));
      cell /= static_cast<Number>(extent_[d]);
    }
    index[0] = static_cast<int>(cell % static_cast<Number>(extent_[0]));
  }

  int extent_[3], step_[3];
  index_t ahead_[Fields], wrap_[2][Fields];
};

/// Adds the threads' values, in an order that the team's size alone fixes: first those of each
/// sixteenth thread, then the sixteen sums. Every thread gets the result. `scratch` holds Kinds
/// numbers for each thread.
template <int Kinds, class Team, class T>
KOKKOS_FORCEINLINE_FUNCTION void team_sum(const Team& team, T* scratch, T (&values)[Kinds]) {
  constexpr int sixteen = 16;
  const int t = team.team_rank(), threads = team.team_size();
  for (int k = 0; k < Kinds; ++k) scratch[k * threads + t] = values[k];
  team.team_barrier();
  if (t < sixteen)
    for (int k = 0; k < Kinds; ++k) {
      T sum = T(0);
      for (int i = t; i < threads; i += sixteen) sum += scratch[k * threads + i];
      scratch[k * threads + t] = sum;
    }
  team.team_barrier();
  const int lanes = threads < sixteen ? threads : sixteen;
  for (int k = 0; k < Kinds; ++k) {
    T sum = T(0);
    for (int i = 0; i < lanes; ++i) sum += scratch[k * threads + i];
    values[k] = sum;
  }
  team.team_barrier();
}

template <class T = double, class Team>
KOKKOS_FORCEINLINE_FUNCTION T* team_memory(const Team& team, int numbers) {
  using Memory = Kokkos::View<T*, typename Team::execution_space::scratch_memory_space,
                              Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  return Memory(team.team_scratch(0), static_cast<std::size_t>(numbers)).data();
}
/// Bytes of scratch memory for team_memory(team, numbers), which is aligned.
inline std::size_t team_bytes(int numbers) {
  return static_cast<std::size_t>(numbers) * sizeof(double) + sizeof(double);
}

}  // namespace shard::impl

#endif
