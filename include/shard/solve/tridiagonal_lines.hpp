// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_TRIDIAGONAL_LINES_HPP
#define SHARD_SOLVE_TRIDIAGONAL_LINES_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <type_traits>
#include <utility>

#include "shard/redistribute/redistribute.hpp"
#include "shard/solve/impl/operands.hpp"
#include "shard/solve/tridiagonal.hpp"
#include "shard/view/boundary.hpp"
#include "shard/view/region.hpp"

namespace shard {

namespace impl {

/// How dimension `Dim` is sharded by these axes.
template <int Dim, class Axes>
struct DimSharding;
template <int Dim>
struct DimSharding<Dim, AxisList<>> {
  using type = ShardDim<Dim, Unsharded>;
};
template <int Dim, class... A>
struct DimSharding<Dim, AxisList<A...>> {
  using type = ShardDim<Dim, Axes<A...>>;
};

/// The field with whole lines along D: the axes of D shard the first other dimension too, so that
/// values stay among the ranks of a line. Without another dimension each rank has the line. Lines
/// are contiguous on a host, and neighbours in memory on a device, where D is the first or last.
template <class Field, int D, class Dims = std::make_integer_sequence<int, Field::rank>>
struct WholeLines;
template <class Field, int D, int... Dim>
struct WholeLines<Field, D, std::integer_sequence<int, Dim...>> {
  template <int Other>
  using AxesOfDim                  = typename AxesOf<typename Field::template axis<Other>>::type;
  static constexpr int first_other = D == 0 ? 1 : 0;
  template <int Other>
  using AxesThere = typename std::conditional_t<
      Other == D, Concatenate<>,
      std::conditional_t<Other == first_other, Concatenate<AxesOfDim<Other>, AxesOfDim<D>>,
                         Concatenate<AxesOfDim<Other>>>>::type;
  static constexpr bool left = (D == 0) == is_host_space_v<typename Field::execution_space>;
  using type =
      ShardedView<typename Field::view_type::non_const_data_type,
                  std::conditional_t<left, Kokkos::LayoutLeft, Kokkos::LayoutRight>,
                  typename DimSharding<Dim, AxesThere<Dim>>::type..., typename Field::memory_space>;
};

/// A line of a field; element i is at i + shift of a ring of n.
template <class T>
struct StridedLine {
  T* first;
  index_t stride;
  int shift, n;
  KOKKOS_FORCEINLINE_FUNCTION T& operator()(int i) const {
    int at = i + shift;
    if (at < 0) at += n;
    if (at >= n) at -= n;
    return first[at * stride];
  }
};

/// Solves the line along D through the point (i...), whose index along D is 0.
template <class Lines, int D, bool Rings>
struct SolveLinesKernel {
  Lines x, y, lower, diagonal, upper, work, second;
  bool adjoint;

  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    const index_t at[] = {static_cast<index_t>(i)...};
    const auto below = line(lower, at, adjoint ? 1 : 0), above = line(upper, at, adjoint ? -1 : 0);
    solve(adjoint ? above : below, line(diagonal, at, 0), adjoint ? below : above, line(x, at, 0),
          line(y, at, 0), at);
  }

 private:
  template <class Line>
  KOKKOS_FORCEINLINE_FUNCTION void solve(const Line& low, const Line& middle, const Line& high,
                                         const Line& to, const Line& from,
                                         const index_t* at) const {
    if constexpr (Rings)
      solve_cyclic_tridiagonal(to.n, low, middle, high, to, from, line(work, at, 0),
                               line(second, at, 0));
    else
      solve_tridiagonal(to.n, low, middle, high, to, from, line(work, at, 0));
  }
  KOKKOS_FORCEINLINE_FUNCTION static auto line(const Lines& f, const index_t* at, int shift) {
    index_t offset = 0;
    for (int d = 0; d < Lines::rank; ++d) offset += at[d] * f.stride(d);
    return StridedLine<typename Lines::value_type>{f.origin() + offset, f.stride(D), shift,
                                                   static_cast<int>(f.extent(D))};
  }
};

}  // namespace impl

/// The inverse of tridiagonal systems along dimension D, one for each line of a field, sharded or
/// not: lower(i) x(i-1) + diagonal(i) x(i) + upper(i) x(i+1) = b(i), with i along D. An operator:
/// a direct solver, or a preconditioner for problems with strong coupling along D. Made by
/// `tridiagonal_lines`.
///
///   auto inverse = shard::tridiagonal_lines<1>(lower, diagonal, upper);
///   inverse.apply(space, x, b);
///   shard::CG cg(x, a, inverse);  // as preconditioner
///
/// If D is sharded, `apply` moves the field to whole lines and back by two redistributions among
/// the ranks of a line. Each rank solves its part of the lines, so the bits are the same for every
/// number of ranks. A field of rank 1 has one line, which all of its ranks solve. Thomas' algorithm
/// without pivoting: the matrices are diagonally dominant or positive definite. If the boundary of
/// D is Periodic, the lines are rings. Otherwise `lower` isn't read at the first point of a line,
/// and `upper` not at the last.
///
/// A handle: copies share the memory; one `apply` at a time.
template <class Field, int D>
class TridiagonalLines {
  using Shards                = typename impl::AxesOf<typename Field::template axis<D>>::type;
  static constexpr bool moves = Shards::count > 0;
  static constexpr bool rings =
      impl::BoundaryTraits<typename Field::template boundary<D>>::low.kind ==
      BoundaryKind::periodic;
  using Lines = std::conditional_t<moves, typename impl::WholeLines<Field, D>::type, Field>;
  static_assert(std::is_floating_point_v<typename Field::value_type>,
                "TridiagonalLines is for fields of float or double");

 public:
  /// Takes copies of the coefficients. Collective. Fences Kokkos. Throws ArgumentError on every
  /// rank unless all three have the same partitions.
  TridiagonalLines(const Field& lower, const Field& diagonal, const Field& upper)
      : like_(lower.geometry()),
        lower_(lines_like(lower)),
        diagonal_(lines_like(lower)),
        upper_(lines_like(lower)),
        work_(lines_like(lower)),
        second_(rings ? lines_like(lower) : work_),
        lines_(moves ? lines_like(lower) : work_) {
    Kokkos::fence("shard::tridiagonal_lines: the coefficients");  // whatever instance wrote them
    const typename Field::execution_space space;
    set_coefficients(space, lower, diagonal, upper);
    space.fence("shard::tridiagonal_lines");
  }
  /// Other coefficients, in fields like the first. Allocates nothing. Collective.
  template <class Space>
  void set_coefficients(const Space& space, const Field& lower, const Field& diagonal,
                        const Field& upper) const {
    for (const Field* f : {&lower, &diagonal, &upper})
      impl::require_same_points("TridiagonalLines", like_, f->geometry());
    redistribute(space, lower_, lower);
    redistribute(space, diagonal_, diagonal);
    redistribute(space, upper_, upper);
  }
  /// x = the solutions for b; x may be b. Collective. Throws ArgumentError on every rank for fields
  /// of other partitions than the coefficients'.
  template <class Space>
  void apply(const Space& space, const Field& x, const Field& b) const {
    solve(space, x, b, false);
  }
  /// x = the solutions with the transposed matrices. Collective.
  template <class Space>
  void apply_adjoint(const Space& space, const Field& x, const Field& b) const {
    solve(space, x, b, true);
  }

 private:
  static Lines lines_like(const Field& like) {
    if constexpr (moves)
      return impl::placed_anew<Lines>(like.geometry(), {});
    else
      return like.like("shard::tridiagonal_lines");
  }
  template <class Space>
  void solve(const Space& space, const Field& x, const Field& b, bool adjoint) const {
    for (const Field* f : {&x, &b})
      impl::require_same_points("TridiagonalLines", like_, f->geometry());
    if constexpr (moves) {
      redistribute(space, lines_, b);
      run(space, lines_, lines_, adjoint);
      redistribute(space, x, lines_);
    } else {
      run(space, x, b, adjoint);
    }
  }
  template <class Space>
  void run(const Space& space, const Lines& x, const Lines& b, bool adjoint) const {
    auto region            = owned_region(x);
    region.boxes[0].end[D] = 1;
    parallel_for("shard::tridiagonal_lines", space, region,
                 impl::SolveLinesKernel<Lines, D, rings>{x, b, lower_, diagonal_, upper_, work_,
                                                         second_, adjoint});
    mark_written(space, x);
  }

  impl::Geometry like_;  // of x and b
  Lines lower_, diagonal_, upper_, work_, second_, lines_;
};

/// Lines along dimension D with these coefficients: see TridiagonalLines. Collective.
template <int D, AnyShardedView Field>
TridiagonalLines<Field, D> tridiagonal_lines(const Field& lower, const Field& diagonal,
                                             const Field& upper) {
  static_assert(D >= 0 && D < Field::rank, "the field has no such dimension");
  return {lower, diagonal, upper};
}

}  // namespace shard

#endif
