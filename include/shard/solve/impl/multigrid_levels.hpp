// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_MULTIGRID_LEVELS_HPP
#define SHARD_SOLVE_IMPL_MULTIGRID_LEVELS_HPP

#include <mpi.h>

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/redistribute/redistribute.hpp"
#include "shard/solve/impl/multigrid_kernels.hpp"
#include "shard/solve/impl/multigrid_transfer.hpp"
#include "shard/solve/preconditioners.hpp"

namespace shard::impl {

/// The extents and spacing of a level, and which dimensions the next one has half of. It depends on
/// the global grid only, not on ranks.
struct LevelGrid {
  int rank = 0;
  std::array<index_t, 3> extent{};
  std::array<double, 3> spacing{};
  std::array<bool, 3> coarsens{};
  std::array<int, 3> walls{};  ///< walls with a value along each dimension: 0 to 2

  index_t cells() const;
  /// Whether some dimension coarsens.
  bool can_coarsen() const { return coarsens[0] || coarsens[1] || coarsens[2]; }
  /// Marks the dimensions with strong coupling. One cell between walls without flux, or a ring of
  /// one, has no neighbours: their spacing becomes infinite.
  void choose();
  /// Half as many cells along these, rounded up.
  LevelGrid coarse() const;
  /// The smallest eigenvalue of D^-1 A of the errors that the next level can't represent.
  double smallest_rough() const;
  /// The diagonal of A with coefficients 1, away from walls.
  double diagonal(double shift) const;
};

/// A partition near `fine` whose begins have coarse cells that begin nearest to them; for a
/// coarsening by 2 those of several levels, if they are large enough.
Partition aligned(const Partition& fine, index_t coarse_size);
/// The coarse cells that belong to such a partition.
Partition coarse_partition(const Partition& fine, index_t coarse_size);
/// Pairs of parts that own something become one, on the first of both ranks.
Partition merged(const Partition& p);
/// Number of parts that own something.
int used_parts(const Partition& p);

/// The inverse of a symmetric positive definite matrix in place, by Cholesky's decomposition. A
/// diagonal block without couplings to the rest whose rows sum to at most `zero` times its diagonal
/// has the null space of constants: there it is the inverse on vectors of mean 0, and 0 for a block
/// of zeros. False if the matrix isn't positive, but for rounding of relative size `rounding`.
bool invert_symmetric(double* a, int n, double zero, double rounding);

/// The same field on every rank: all its dimensions are unsharded.
template <class Field>
struct ReplicatedField;
template <class Option>
struct ReplicatedOption {
  using type = Option;
};
template <int D, class Axis, class... Options>
struct ReplicatedOption<ShardDim<D, Axis, Options...>> {
  using type = ShardDim<D, Unsharded, Options...>;
};
template <class T, class Layout, class... Options>
struct ReplicatedField<ShardedView<T, Layout, Options...>> {
  using type = ShardedView<T, Layout, typename ReplicatedOption<Options>::type...>;
};
template <>
struct ReplicatedField<UnitCoefficient> {
  using type = UnitCoefficient;
};

/// A field of another grid, on the mesh of an existing field. Collective.
template <class To, class Field>
To field_on(const Field& from, const std::array<Partition, 3>& partitions) {
  std::array<Partition, static_cast<std::size_t>(To::rank)> all;
  for (std::size_t d = 0; d < all.size(); ++d) all[d] = partitions[d];
  return placed_anew<To>(from.any_geometry(), all);
}

/// A level of multigrid: the operator, the fields, and the way to the next level.
template <class Field, class K>
struct MultigridLevel {
  using field_type              = Field;
  using Stencil                 = DiffusionStencil<K>;
  using T                       = typename Field::value_type;
  static constexpr int rank     = Field::rank;
  static constexpr double least = 0.02;  ///< low end of the smoothing if nothing coarsens
  Diffusion<Field, K> a;
  LevelGrid grid;
  Field x, y, b;
  Exchange<Field> halos;      ///< corners too
  std::vector<double> steps;  ///< of the smoothing
  Field mid_b, mid_x;         ///< of the next level's cells, on the ranks of this level's cells
  Exchange<Field> mid_halos;
  bool moves = false;  ///< the next level is on other ranks
  Transfer<Field, K> transfer;
  Kokkos::View<TransferPoint*, typename Field::memory_space> points;  ///< of `transfer`

  MultigridLevel(const Diffusion<Field, K>& op, const LevelGrid& g, int smoothing)
      : a(op),
        grid(g),
        x(op.like().like("shard::multigrid")),
        y(x.like("shard::multigrid")),
        b(x.like("shard::multigrid")),
        halos(x) {
    set_steps(g.can_coarsen() ? g.smallest_rough() : least, smoothing);
  }
  void set_steps(double low, int count) {
    steps = chebyshev_steps(low, 2.0, count);  // by Gershgorin's theorem none is larger
    if constexpr (Stencil::is_uniform)
      for (double& e : steps) e /= grid.diagonal(a.options().shift);
  }

  /// How often x and y are swapped by `smooth` from 0, and otherwise.
  int swaps_from_zero() const {
    const int n = static_cast<int>(steps.size());
    return Stencil::is_uniform && n > 1 ? n - 2 : n - 1;
  }
  int swaps() const { return static_cast<int>(steps.size()); }
  /// Chebyshev's iteration on A x = b, from 0 if `zero`. Fills the halo of b too.
  template <class Space>
  void smooth(const Space& space, bool zero) {
    std::size_t k = 0;
    if (zero && Stencil::is_uniform && steps.size() > 1) {
      a.over("shard::smooth", space, x, b,
             TwoSmoothKernel<Field, Stencil>{a.functor(), x, b, step(0), step(1)});
      k = 2;
    } else if (zero) {
      write_points("shard::smooth", space, x,
                   FirstSmoothKernel<Field, Stencil>{a.functor(), x, b, step(0)}, b);
      k = 1;
    }
    for (; k < steps.size(); ++k) {
      a.over("shard::smooth", space, y, x,
             SmoothKernel<Field, Stencil>{a.functor(), y, x, b, step(k)});
      swap(x, y);
    }
  }
  /// y = b - A x
  template <class Space>
  void residual(const Space& space) {
    a.over("shard::residual", space, y, x,
           StencilResidualKernel<Field, Stencil>{a.functor(), y, x, b});
  }
  /// mid_b = the restriction of `from`.
  template <class Space>
  void restrict_from(const Space& space, const Field& from) {
    halos(space, from);
    run_transfer<RestrictLines, RestrictKernel>("shard::restrict", space, mid_b, from, transfer);
  }
  /// x += the interpolation of `coarse`.
  template <class Space>
  void prolong(const Space& space, const Field& coarse) {
    mid_halos(space, coarse);
    run_transfer<ProlongLines, ProlongKernel>("shard::prolong", space, x, coarse, transfer);
  }

  /// Makes the way to the next level's cells. Returns their coefficients. Fences.
  template <class Space>
  K connect(const Space& space, const std::array<Partition, 3>& mid) {
    mid_b            = field_on<Field>(x, mid);
    mid_x            = mid_b.like("shard::multigrid");
    mid_halos        = Exchange<Field>(mid_x);
    const auto grids = transfer_grids(x, mid_b);
    std::vector<TransferPoint> all;
    std::array<std::size_t, 3 * static_cast<std::size_t>(rank)> begin{};
    Transfer<Field, UnitCoefficient> means;
    for (std::size_t d = 0; d < grids.size(); ++d) {
      const std::array<std::vector<TransferPoint>, 3> tables = {
          grids[d].interpolation(), grids[d].restriction(), grids[d].means()};
      for (std::size_t t = 0; t < 3; ++t) {
        begin[3 * d + t] = all.size();
        all.insert(all.end(), tables[t].begin(), tables[t].end());
      }
    }
    points          = decltype(points)("shard::multigrid", all.size());
    const auto host = Kokkos::create_mirror_view(points);
    for (std::size_t p = 0; p < all.size(); ++p) host(p) = all[p];
    Kokkos::deep_copy(space, points, host);
    space.fence("shard::multigrid: tables");
    for (std::size_t d = 0; d < grids.size(); ++d) {
      transfer.fine[d]   = points.data() + begin[3 * d];
      transfer.coarse[d] = points.data() + begin[3 * d + 1];
      means.coarse[d]    = points.data() + begin[3 * d + 2];
      transfer.scale *=
          static_cast<double>(grids[d].coarse_size) / static_cast<double>(grids[d].fine_size);
    }
    if constexpr (Stencil::is_uniform) {
      return K{};
    } else {
      const Field k = mid_b.like("shard::multigrid");
      halos(space, a.k());
      parallel_for("shard::multigrid", space, owned_region(k),
                   RestrictKernel<Field, UnitCoefficient>{k, a.k(), means});
      mid_halos(space, k);
      for (int d = 0; d < rank; ++d) {
        const Field share = mid_b.like("shard::multigrid");
        parallel_for("shard::multigrid", space, owned_region(share),
                     ShareKernel<Field>{share, k, d});
        mid_halos(space, share);
        transfer.share[static_cast<std::size_t>(d)] = share;
      }
      return k;
    }
  }

 private:
  T step(std::size_t k) const { return static_cast<T>(steps[k]); }
};

}  // namespace shard::impl

#endif
