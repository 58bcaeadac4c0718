// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_MULTIGRID_HIERARCHY_HPP
#define SHARD_SOLVE_IMPL_MULTIGRID_HIERARCHY_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/solve/impl/multigrid_levels.hpp"

namespace shard::impl {

/// What the levels depend on.
struct HierarchyOptions {
  int smoothing, levels;
  index_t gather_below, cells_per_rank, bottom;
};

/// All levels of multigrid: sharded ones, then replicated ones, and the dense matrix of the last.
template <class Field, class K>
class MultigridHierarchy {
  using Whole                         = typename ReplicatedField<Field>::type;
  using WholeK                        = typename ReplicatedField<K>::type;
  using DeviceSpace                   = typename Field::execution_space;
  using Parts                         = std::array<Partition, 3>;
  static constexpr int rank           = Field::rank;
  static constexpr index_t most_dense = 1024;
  static constexpr int bottom_steps   = 24;

 public:
  using ShardedLevel = MultigridLevel<Field, K>;
  using WholeLevel   = MultigridLevel<Whole, WholeK>;

  Field like;  ///< the operator's
  std::vector<ShardedLevel> sharded;
  std::vector<WholeLevel> whole;
  bool moves_in = false;  ///< the finest level is on other ranks than x
  Kokkos::View<double*, typename Field::memory_space> inverse;  ///< on the last level, if small

  MultigridHierarchy(const Diffusion<Field, K>& a, const HierarchyOptions& options)
      : like(a.like()), options_(options) {
    LevelGrid grid;
    grid.rank    = rank;
    grid.spacing = a.options().spacing;
    find_walls(grid, std::make_integer_sequence<int, rank>{});
    Parts parts;
    for (int d = 0; d < rank; ++d) {
      grid.extent[static_cast<std::size_t>(d)] = a.like().global_extent(d);
      parts[static_cast<std::size_t>(d)]       = a.like().partition(d);
    }
    grid.choose();
    const Parts wanted = with_pairs(parts, grid);
    moves_in           = wanted != parts;
    Kokkos::fence("shard::multigrid: the coefficients");  // whatever instance wrote them
    const DeviceSpace space;
    if (moves_in) {
      const auto field = field_on<Field>(a.like(), wanted);
      add(sharded, Diffusion<Field, K>(field, on(space, a.k(), field), a.options()), grid);
    } else {
      add(sharded, a, grid);
    }
    while (add_level(space, sharded.back())) {
    }
    if (!whole.empty())
      while (add_level(space, whole.back())) {
      }
    if (!whole.empty() && whole.back().grid.cells() <= most_dense)
      make_dense(space);
    else if (!whole.empty())
      whole.back().set_steps(WholeLevel::least, bottom_steps);
    else
      sharded.back().set_steps(ShardedLevel::least, bottom_steps);
    space.fence("shard::multigrid: levels");
  }

  int levels() const { return static_cast<int>(sharded.size() + whole.size()); }
  /// Calls use(level).
  template <class Use>
  void with_level(int l, const Use& use) {
    const auto at = static_cast<std::size_t>(l);
    if (at < sharded.size())
      use(sharded[at]);
    else
      use(whole[at - sharded.size()]);
  }

 private:
  template <class Levels, class A>
  void add(Levels& to, const A& a, const LevelGrid& grid) {
    to.emplace_back(a, grid, options_.smoothing);
  }

  template <int... D>
  static void find_walls(LevelGrid& grid, std::integer_sequence<int, D...>) {
    const auto count = [](const BoundarySide& side) {
      return side.kind == BoundaryKind::constant ? 1 : 0;
    };
    ((grid.walls[static_cast<std::size_t>(D)] =
          count(BoundaryTraits<typename Field::template boundary<D>>::low) +
          count(BoundaryTraits<typename Field::template boundary<D>>::high)),
     ...);
  }
  /// Parts that begin where cells of the next level do.
  static Parts with_pairs(Parts p, const LevelGrid& grid) {
    const LevelGrid next = grid.coarse();
    for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d)
      if (grid.coarsens[d]) p[d] = aligned(p[d], next.extent[d]);
    return p;
  }
  /// The same on fewer ranks if each would have few cells.
  Parts suited(Parts p, const LevelGrid& grid) const {
    while (true) {
      int used = 1, most = 0;
      for (int d = 0; d < rank; ++d) {
        used *= used_parts(p[static_cast<std::size_t>(d)]);
        if (used_parts(p[static_cast<std::size_t>(d)]) >
            used_parts(p[static_cast<std::size_t>(most)]))
          most = d;
      }
      if (used == 1 || grid.cells() >= options_.cells_per_rank * used) return with_pairs(p, grid);
      p[static_cast<std::size_t>(most)] = merged(p[static_cast<std::size_t>(most)]);
    }
  }

  /// Adds the level after this one, if there is one. Returns whether there may be more of its kind.
  template <class L>
  bool add_level(const DeviceSpace& space, L& fine) {
    using From                 = typename L::field_type;
    constexpr bool whole_level = std::is_same_v<L, WholeLevel>;
    const auto& grid           = fine.grid;
    const bool coarsens        = grid.can_coarsen() && grid.cells() > options_.bottom;
    if (levels() >= options_.levels) return false;
    if (!coarsens && (whole_level || grid.cells() > most_dense)) return false;
    const LevelGrid next = coarsens ? grid.coarse() : grid;
    Parts mid, all;
    for (int d = 0; d < rank; ++d) {
      const auto at = static_cast<std::size_t>(d);
      mid[at]       = fine.x.partition(d);
      if (next.extent[at] != grid.extent[at]) mid[at] = coarse_partition(mid[at], next.extent[at]);
      all[at] = Partition::whole(next.extent[at]);
    }
    auto next_options    = fine.a.options();
    next_options.spacing = next.spacing;
    const auto k         = fine.connect(space, mid);
    const bool gather    = !coarsens || next.cells() < options_.gather_below;
    if (!whole_level && gather) {
      fine.moves       = true;
      const auto field = field_on<Whole>(fine.x, all);
      add(whole, Diffusion<Whole, WholeK>(field, on(space, k, field), next_options), next);
      return false;
    }
    const Parts wanted = whole_level ? mid : suited(mid, next);
    fine.moves         = wanted != mid;
    const auto field   = fine.moves ? field_on<From>(fine.x, wanted) : fine.mid_x;
    const auto made    = decltype(fine.a)(field, on(space, k, field), next_options);
    const auto shared  = fine.mid_b;
    const bool moves   = fine.moves;
    auto& all_levels   = levels_like(fine);
    add(all_levels, made, next);  // `fine` may be elsewhere now
    if (!moves) all_levels.back().b = shared;
    return true;
  }
  auto& levels_like(const ShardedLevel&) { return sharded; }
  auto& levels_like(const WholeLevel&) { return whole; }

  /// Coefficients on the ranks of another field, with their halo.
  template <class From, class To>
  static auto on(const DeviceSpace& space, const From& k, const To& like) {
    if constexpr (std::is_same_v<From, UnitCoefficient>) {
      return k;
    } else {
      const To to = like.like("shard::multigrid");
      redistribute(space, to, k);
      exchange(space, to);
      return to;
    }
  }

  void make_dense(const DeviceSpace& space) {
    WholeLevel& last = whole.back();
    const auto n     = static_cast<std::size_t>(last.grid.cells());
    inverse          = decltype(inverse)("shard::multigrid", n * n);
    const auto host  = Kokkos::create_mirror_view(inverse);
    const auto y     = create_mirror_view(last.y);
    for (std::size_t row = 0; row < n; ++row) {
      write_points("shard::multigrid", space, last.x,
                   UnitVectorKernel<Whole>{last.x, static_cast<index_t>(row)});
      last.a.apply(space, last.y, last.x);
      deep_copy(space, y, last.y);
      space.fence("shard::multigrid: a column of the matrix");
      std::size_t at = row * n;
      for (index_t i = 0; i < y.extent(0); ++i)
        if constexpr (rank == 1)
          host(at++) = y(i);
        else
          for (index_t j = 0; j < y.extent(1); ++j)
            if constexpr (rank == 2)
              host(at++) = y(i, j);
            else
              for (index_t k = 0; k < y.extent(2); ++k) host(at++) = y(i, j, k);
    }
    using T              = typename Field::value_type;
    const double epsilon = std::numeric_limits<T>::epsilon();
    // a row has at most seven elements
    if (!invert_symmetric(host.data(), static_cast<int>(n), 64 * epsilon, 8 * epsilon))
      throw_argument("Multigrid",
                     {"the operator isn't positive on the coarsest level: coefficients and shift "
                      "must not be negative, not NaN, and not all 0"});
    Kokkos::deep_copy(space, inverse, host);
    space.fence("shard::multigrid: the inverse is copied");  // before `host` is freed
  }

  HierarchyOptions options_;
};

}  // namespace shard::impl

#endif
