// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_MULTIGRID_LEVELS_HPP
#define SHARD_SOLVE_IMPL_MULTIGRID_LEVELS_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <tuple>
#include <type_traits>
#include <utility>

#include "shard/redistribute/redistribute.hpp"
#include "shard/solve/diffusion.hpp"
#include "shard/solve/impl/chebyshev_steps.hpp"
#include "shard/solve/impl/multigrid_kernels.hpp"

namespace shard::impl {

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
template <class K>
struct ReplicatedCoefficient {
  using type = K;
};
template <class T, class Layout, class... Options>
struct ReplicatedCoefficient<ShardedView<T, Layout, Options...>>
    : ReplicatedField<ShardedView<T, Layout, Options...>> {};

/// The extents and spacing of a level, and which dimensions the next one has half of. It depends on
/// the global grid only, not on ranks.
struct LevelGrid {
  int rank = 0;
  std::array<index_t, 3> extent{};
  std::array<double, 3> spacing{};
  std::array<bool, 3> coarsens{};

  index_t cells() const;
  /// Whether some dimension coarsens.
  bool can_coarsen() const { return coarsens[0] || coarsens[1] || coarsens[2]; }
  /// Marks the dimensions with strong coupling and an even number of cells.
  void choose();
  LevelGrid coarse() const;
  /// The smallest eigenvalue of D^-1 A of the errors that the next level can't represent.
  double smallest_rough() const;
};

/// Whether all parts begin at even indices.
bool begins_even(const Partition& p);
/// A partition of the same parts whose begins are multiples of a power of two that divides the
/// extent, at least 2, so that coarse cells aren't divided between ranks on several levels.
Partition aligned(const Partition& p);

/// The inverse of a symmetric positive definite matrix in place, by Cholesky's decomposition; of a
/// matrix with the null space of constants, the inverse on vectors of mean 0. False if the matrix
/// isn't positive.
bool invert_symmetric(double* a, int n);

/// A level of multigrid: the operator, the fields, and the way to the next level.
template <class Field, class K>
struct MultigridLevel {
  using field_type              = Field;
  static constexpr double least = 0.02;  ///< low end of the smoothing if nothing coarsens
  Diffusion<Field, K> a;
  LevelGrid grid;
  Field x, y, b, d;
  Exchange<Field> halos;  ///< of x, corners too
  Field mid_b, mid_x;     ///< of the next level's cells, on the ranks of this level's cells
  Exchange<Field> mid_halos;
  bool moves      = false;  ///< the next level is on other ranks
  double smallest = least;  ///< of the eigenvalues that smoothing reduces
  Transfer<Field, K> transfer;

  MultigridLevel(const Diffusion<Field, K>& op, const LevelGrid& g)
      : a(op),
        grid(g),
        x(op.like().like("shard::multigrid")),
        y(x.like("shard::multigrid")),
        b(x.like("shard::multigrid")),
        d(x.like("shard::multigrid")),
        halos(x),
        smallest(g.can_coarsen() ? g.smallest_rough() : least) {
    for (int k = 0; k < Field::rank; ++k)
      transfer.dims[k] = transfer_dim<Field>(k, g.coarsens[static_cast<std::size_t>(k)]);
  }

  /// Some steps of the Chebyshev iteration on A x = b, from 0 if `zero`.
  template <class Space>
  void smooth(const Space& space, int steps, double low, bool zero) {
    using Stencil = std::remove_cvref_t<decltype(a.functor())>;
    using T       = typename Field::value_type;
    ChebyshevSteps numbers(low, 2.0);  // by Gershgorin's theorem none is larger
    double c = 0.0, e = numbers.first();
    for (int k = 0; k < steps; ++k) {
      if (k > 0) std::tie(c, e) = numbers.next();
      if (k == 0 && zero) {
        parallel_for("shard::smooth", space, owned_region(x),
                     FirstSmoothKernel<Field, Stencil>{a.functor(), x, b, d, static_cast<T>(e)});
      } else {
        a.over(space, y, x,
               SmoothKernel<Field, Stencil>{a.functor(), y, x, b, d, static_cast<T>(c),
                                            static_cast<T>(e)});
        swap(x, y);
      }
    }
  }
  /// mid_b = the restriction of y.
  template <class Space>
  void restrict_y(const Space& space) {
    halos(space, y);
    parallel_for("shard::restrict", space, owned_region(mid_b),
                 RestrictKernel<Field, K>{mid_b, y, transfer});
  }
  /// x += the interpolation of `coarse`.
  template <class Space>
  void prolong(const Space& space, const Field& coarse) {
    mid_halos(space, coarse);
    parallel_for("shard::prolong", space, owned_region(x),
                 ProlongKernel<Field, K>{x, coarse, transfer});
  }
};

/// A field of another grid, on the mesh of an existing field. Collective.
template <class To, class Field>
To field_on(const Field& from, const std::array<Partition, 3>& partitions) {
  std::array<Partition, static_cast<std::size_t>(To::rank)> all;
  for (std::size_t d = 0; d < all.size(); ++d) all[d] = partitions[d];
  return placed_anew<To>(from.any_geometry(), all);
}

}  // namespace shard::impl

#endif
