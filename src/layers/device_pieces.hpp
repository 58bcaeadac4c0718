// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_PIECES_HPP
#define SHARD_SRC_LAYERS_DEVICE_PIECES_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "launch.hpp"
#include "shard/comm/impl/device_space.hpp"
#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// Memory for the partial sums of kernels on `space`, kept until Kokkos is finalised, because
/// layers have no state and hot paths must not allocate. Kernels of one stream run in order, so
/// they share the memory. It grows to the largest request. Smaller allocations are kept, because a
/// captured graph may use them.
template <class Space, class T>
T* partial_sums(const Space& space, index_t count) {
  using Memory = Kokkos::View<T*, typename Space::memory_space>;
  static std::mutex mutex;
  static std::map<void*, std::vector<Memory>> kept;  // for each stream, the largest one last
  const std::lock_guard lock(mutex);
  if (kept.empty()) Kokkos::push_finalize_hook([] { kept.clear(); });
  std::vector<Memory>& memory = kept[stream_of(space).handle];
  const auto size             = static_cast<std::size_t>(count);
  if (memory.empty() || memory.back().extent(0) < size)
    memory.emplace_back(
        Kokkos::view_alloc(space, Kokkos::WithoutInitializing, "shard::partial sums"),
        memory.empty() ? size : size + size / 2);
  return memory.back().data();
}

/// The division of a sum over `total` terms into pieces. It depends on the number of terms and of
/// tiles, never on the device.
struct FixedPieces {
  index_t length = 1, count = 1;

  /// Pieces of at least `least` terms, multiples of `step`, for about `teams` teams.
  static FixedPieces of(index_t total, index_t tiles, index_t teams, index_t least, index_t step) {
    const index_t most = tiles > 0 && teams > tiles ? teams / tiles : 1;
    index_t length     = (total + most - 1) / most;
    if (length < least) length = least;
    length = (length + step - 1) / step * step;
    return {length, total > length ? (total + length - 1) / length : 1};
  }
};

/// to[i] += sum number i of each piece, pieces ascending. `to` has rows of `columns` elements.
template <class T>
struct AddPiecesKernel {
  T* to;
  index_t row_step, column_step;
  const T* sums;
  index_t rows, columns, pieces;

  KOKKOS_FUNCTION void operator()(index_t i) const {
    const index_t count = rows * columns;
    T sum               = T(0);
    for (index_t p = 0; p < pieces; ++p) sum += sums[p * count + i];
    to[i / columns * row_step + i % columns * column_step] += sum;
  }
};

/// A position in a block, the last dimension the fastest. `row` is the offset of the row's first
/// cell.
struct CellWalk {
  int n, z, y, x;
  index_t row;

  template <class T>
  KOKKOS_FUNCTION static CellWalk at(const Block<T>& b, index_t cell) {
    CellWalk w{};
    const index_t ex = b.extent(2), ey = b.extent(1), ez = b.extent(0);
    w.x = static_cast<int>(cell % ex);
    cell /= ex;
    w.y = static_cast<int>(cell % ey);
    cell /= ey;
    w.z = static_cast<int>(cell % ez);
    w.n = static_cast<int>(cell / ez);
    w.find_row(b);
    return w;
  }
  template <class T>
  KOKKOS_FUNCTION void find_row(const Block<T>& b) {
    row = n * b.stride[0] + (b.begin[0] + z) * b.stride[2] + (b.begin[1] + y) * b.stride[3] +
          b.begin[2] * b.stride[4];
  }
  template <class T>
  KOKKOS_FUNCTION void advance(const Block<T>& b, int step) {
    const int ex = static_cast<int>(b.extent(2));
    x += step;
    if (x < ex) return;
    const int ey = static_cast<int>(b.extent(1)), ez = static_cast<int>(b.extent(0));
    do {
      x -= ex;
      if (++y == ey) {
        y = 0;
        if (++z == ez) {
          z = 0;
          ++n;
        }
      }
    } while (x >= ex);
    find_row(b);
  }
};

/// Tree reduction of fixed shape over the threads of a team. `sums` has Threads elements in scratch
/// memory; the result is sums[0].
template <int Threads, int Lanes, class Team, class T>
KOKKOS_INLINE_FUNCTION void sum_team(const Team& team, T* sums) {
  team.team_barrier();
  for (int half = Threads / 2; half > 0; half /= 2) {
    for (int l = 0; l < Lanes; ++l) {
      const int thread = team.team_rank() * Lanes + l;
      if (thread < half) sums[thread] += sums[thread + half];
    }
    team.team_barrier();
  }
}

}  // namespace shard::impl

#endif
