// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_GALERKIN_MULTIGRID_HPP
#define SHARD_SOLVE_GALERKIN_MULTIGRID_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/base/impl/same_options.hpp"
#include "shard/solve/impl/galerkin_levels.hpp"
#include "shard/solve/multigrid_cycle.hpp"

namespace shard {

/// A coarse level of GalerkinMultigrid: its unknowns, and how the next finer level's values are
/// interpolated from them.
template <class T>
struct CoarseLevel {
  std::vector<std::int64_t> ids;              ///< of the unknowns that this rank owns; may be empty
  std::vector<MatrixEntry<T>> interpolation;  ///< (fine id, coarse id, weight), of any rank's rows

  /// Ids and entries.
  CoarseLevel(std::vector<std::int64_t> own, std::vector<MatrixEntry<T>> entries)
      : ids(std::move(own)), interpolation(std::move(entries)) {}
  /// The interpolation as a matrix, with the coarse unknowns as columns. Local; copies it.
  template <class Axis, class Row, class Column, class Memory>
  CoarseLevel(const SparseMatrix<T, Axis, Row, Column, Memory>& p)  // NOLINT
      : ids(impl::owned_ids_of(p.columns())), interpolation(p.entries()) {}
};

/// Choices of GalerkinMultigrid.
struct GalerkinOptions {
  MultigridCycle cycle = MultigridCycle::v;  ///< order of the levels
  int smoothing        = 2;     ///< Chebyshev steps before and after each coarser level
  double rough         = 0.25;  ///< smoothing damps eigenvalues from rough * largest to largest
};

/// Multigrid for a symmetric positive definite SparseMatrix with given interpolations P: coarse
/// matrices are the Galerkin products P' A P. PETSc's PCMG with PCMGSetInterpolation and
/// PC_MG_GALERKIN_BOTH. A preconditioner for CG.
///
///   const shard::GalerkinMultigrid multigrid(mesh, a, {p1, p2, p3});  // matrices of any spaces
///   shard::CG cg(x, a, multigrid);
///
/// Chebyshev's iteration with the diagonal smooths. The last level has at most 1024 unknowns and is
/// solved by its inverse; if A's null space is the constants, and P interpolates them exactly, by
/// the pseudo-inverse. Coarse levels may be on fewer ranks: their ids say so. No sum depends on the
/// owners: the result is bitwise the same for every number of ranks.
///
/// A handle: copies share the levels. One `apply` at a time.
template <class Matrix>
class GalerkinMultigrid;
/// GalerkinMultigrid for a SparseMatrix whose rows and columns are of the same index space.
template <class T, class Axis, class Row, class Memory>
class GalerkinMultigrid<SparseMatrix<T, Axis, Row, Row, Memory>> {
  using Matrix = SparseMatrix<T, Axis, Row, Row, Memory>;
  using Vector = typename Matrix::column_vector;
  using Space  = typename Vector::execution_space;
  static_assert(std::is_floating_point_v<T>, "GalerkinMultigrid is for real matrices");

 public:
  static constexpr bool is_symmetric = true;  ///< of v- and w-cycles

  /// Makes the coarse matrices. `levels`: from the finest of them to the coarsest, at least one.
  /// `mesh` is the matrix'. Collective over the mesh. Fences. Throws ArgumentError on every rank
  /// for ids that no rank owns, a diagonal that isn't positive, or a last level that is too large
  /// or not positive, AgreementError if the ranks' options or numbers of levels differ.
  template <class... MeshAxes>
  GalerkinMultigrid(const Mesh<MeshAxes...>& mesh, const Matrix& a,
                    const std::vector<CoarseLevel<T>>& levels, const GalerkinOptions& options = {})
      : count_(levels.size() + 1), cycle_(options.cycle) {
    impl::require_same_options(mesh.communicator(), "GalerkinMultigrid",
                               {{"levels", count_},
                                {"cycle", options.cycle},
                                {"smoothing", options.smoothing},
                                {"rough", options.rough}});
    impl::require_no_error(mesh.template communicator<Axis>(), "GalerkinMultigrid",
                           levels.empty()          ? "there is no coarse level; give at least one"
                           : options.smoothing < 1 ? "smoothing must be at least 1"
                           : !(options.rough > 0.0 && options.rough < 1.0)
                               ? "rough must be between 0 and 1"
                               : std::string());
    top_ = std::make_shared<
        impl::GalerkinLevel<T, Axis, Row, impl::OddLevel, Memory, GalerkinOptions>>(
        mesh, a, levels.data(), levels.size(), options);
    Space().fence("shard::GalerkinMultigrid");
  }
  /// z = one cycle on A z = r, from 0; z isn't r. Collective. Throws ArgumentError on every rank
  /// for vectors of other elements than the matrix'.
  void apply(const Space& space, const Vector& z, const Vector& r) const {
    impl::require_alike("GalerkinMultigrid", top_->x(), z, r);
    impl::require_apart("GalerkinMultigrid", z, r);
    top_->visit(space, z, r, cycle_, true);
  }
  /// The coarse matrices again, after changes of a.values(): patterns are kept; the last level is
  /// gathered and inverted on the host. Collective. Errors as the constructor.
  void update(const Space& space) const { top_->update(space); }
  /// Number of levels, with the given matrix'.
  int levels() const { return static_cast<int>(count_); }

 private:
  std::size_t count_;
  MultigridCycle cycle_;
  std::shared_ptr<impl::MatrixLevel<Vector>> top_;
};
/// Of a square matrix.
template <class T, class Axis, class Row, class Memory, class... MeshAxes>
GalerkinMultigrid(const Mesh<MeshAxes...>&, const SparseMatrix<T, Axis, Row, Row, Memory>&,
                  const std::vector<CoarseLevel<T>>&, const GalerkinOptions& = {})
    -> GalerkinMultigrid<SparseMatrix<T, Axis, Row, Row, Memory>>;

}  // namespace shard

#endif
