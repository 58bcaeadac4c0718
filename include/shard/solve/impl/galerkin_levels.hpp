// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_GALERKIN_LEVELS_HPP
#define SHARD_SOLVE_IMPL_GALERKIN_LEVELS_HPP

#include <mpi.h>

#include <Kokkos_Core.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "shard/solve/matrix_algebra.hpp"
#include "shard/solve/multigrid_cycle.hpp"
#include "shard/solve/preconditioners.hpp"

namespace shard::impl {

/// Rows of the inverse of a small symmetric matrix.
struct InverseRows {
  std::vector<std::int64_t> columns;  ///< ids of all columns, in their order
  std::vector<double> values;         ///< of this rank's rows, one after the other
};
/// Gathers a matrix on every rank and inverts it as invert_symmetric. `rows`: ids of this rank's
/// rows, `entries`: theirs, `epsilon`: that of the type in which they were computed. Collective
/// over `comm`, the ranks that share the rows. Throws ArgumentError on every rank of `all`, its
/// replicas too, for a matrix that is too large or isn't positive.
InverseRows gathered_inverse(MPI_Comm comm, MPI_Comm all, const std::vector<std::int64_t>& rows,
                             const std::vector<MatrixEntry<double>>& entries, double epsilon);

/// Throws ArgumentError on every rank unless `largest` is finite.
void require_positive_diagonal(double largest);

/// The sum of the absolute values of row i, over its diagonal element: no eigenvalue of D^-1 A is
/// larger than the largest (Gershgorin). Infinite if the diagonal isn't positive.
template <class T, class V>
struct RowBoundTerm {
  const index_t* row_begin;
  const T* value;
  V diagonal;
  KOKKOS_FUNCTION double operator()(int i) const {
    double sum = 0.0;
    for (index_t e = row_begin[i]; e < row_begin[i + 1]; ++e)
      sum += static_cast<double>(Kokkos::abs(value[e]));
    const auto d = static_cast<double>(diagonal(i));
    return d > 0.0 && sum < INFINITY ? sum / d : INFINITY;
  }
};

/// The tags of coarse levels, in turn.
struct OddLevel;
struct EvenLevel;

/// A level and those below it.
template <class Vector>
class MatrixLevel {
 public:
  using Space            = typename Vector::execution_space;
  virtual ~MatrixLevel() = default;
  /// A cycle on A x = b, from 0 or from x. Only owned elements of b are read.
  virtual void visit(const Space& space, const Vector& x, const Vector& b, MultigridCycle cycle,
                     bool zero) const = 0;
  /// Whether it has no coarser level.
  virtual bool is_last() const = 0;
  /// The values of coarser matrices again from those of this level's.
  virtual void update(const Space& space) = 0;
  /// A vector x for `visit`.
  virtual const Vector& x() const = 0;
};

/// The last level: the inverse as a matrix, so that rows are summed in the order of ids.
template <class Matrix>
class InverseLevel : public MatrixLevel<typename Matrix::row_vector> {
  using Vector = typename Matrix::row_vector;
  using T      = typename Vector::value_type;
  using Space  = typename Vector::execution_space;

 public:
  template <class MeshType>
  InverseLevel(const MeshType& mesh, MPI_Comm axis, const Matrix& a)
      : axis_(axis),
        a_(a),
        inverse_(mesh, owned_ids_of(a.rows()), inverse_entries(a)),
        x_(inverse_.make_row_vector("shard::multigrid")),
        b_(inverse_.make_column_vector("shard::multigrid")) {}

  void visit(const Space& space, const Vector& x, const Vector& b, MultigridCycle,
             bool) const override {
    axpby(space, b_, 1.0, b, 0.0);
    inverse_.apply(space, x, b_);
  }
  bool is_last() const override { return true; }
  void update(const Space& space) override {
    const auto host    = Kokkos::create_mirror_view(inverse_.values());
    const auto entries = inverse_entries(a_);  // in the order of the matrix' values
    for (std::size_t e = 0; e < entries.size(); ++e) host(e) = entries[e].value;
    Kokkos::deep_copy(space, inverse_.values(), host);
    space.fence("shard::multigrid: the inverse is copied");  // before `host` is freed
  }
  const Vector& x() const override { return x_; }

 private:
  std::vector<MatrixEntry<T>> inverse_entries(const Matrix& a) const {
    std::vector<MatrixEntry<double>> of_a;
    for (const auto& e : a.entries())
      of_a.push_back({e.row, e.column, static_cast<double>(e.value)});
    const auto rows = owned_ids_of(a.rows());
    const auto made = gathered_inverse(axis_, a.mesh_communicator(), rows, of_a,
                                       std::numeric_limits<T>::epsilon());
    std::vector<MatrixEntry<T>> entries;
    for (const std::int64_t row : rows)
      for (const std::int64_t column : made.columns)
        entries.push_back({row, column, static_cast<T>(made.values[entries.size()])});
    return entries;
  }

  MPI_Comm axis_;  // not the mesh's: replicas over other axes have the same rows
  Matrix a_, inverse_;
  Vector x_, b_;
};

/// A level with a coarser one. Its own matrix is of the tag `Fine`. \tparam Options GalerkinOptions
template <class T, class Axis, class Fine, class Coarse, class Memory, class Options>
class GalerkinLevel
    : public MatrixLevel<typename SparseMatrix<T, Axis, Fine, Fine, Memory>::row_vector> {
  using A            = SparseMatrix<T, Axis, Fine, Fine, Memory>;
  using P            = SparseMatrix<T, Axis, Fine, Coarse, Memory>;
  using R            = SparseMatrix<T, Axis, Coarse, Fine, Memory>;
  using CoarseA      = SparseMatrix<T, Axis, Coarse, Coarse, Memory>;
  using Vector       = typename A::row_vector;
  using CoarseVector = typename CoarseA::row_vector;
  using Space        = typename Vector::execution_space;

 public:
  /// `levels`: from the one below this on, each with `ids` and `interpolation`.
  template <class MeshType, class Given>
  GalerkinLevel(const MeshType& mesh, const A& a, const Given* levels, std::size_t count,
                const Options& options)
      : options_(options),
        a_(a),
        p_(mesh, owned_ids_of(a.rows()), levels->ids, levels->interpolation),
        r_(transposed(mesh, p_)),
        ap_(mesh, a_, p_),
        rap_(mesh, r_, ap_.matrix()),
        x_(a_.make_column_vector("shard::multigrid")),
        diagonal_(x_.like("shard::multigrid")),
        ax_(a_.make_row_vector("shard::multigrid")),
        residual_(r_.make_column_vector("shard::multigrid")),
        correction_(p_.make_row_vector("shard::multigrid")),
        coarse_b_(r_.make_row_vector("shard::multigrid")),
        coarse_x_(p_.make_column_vector("shard::multigrid")) {
    set_smoothing(Space());
    using Next = std::conditional_t<std::is_same_v<Coarse, OddLevel>, EvenLevel, OddLevel>;
    if (count == 1)
      next_ = std::make_unique<InverseLevel<CoarseA>>(mesh, mesh.template communicator<Axis>(),
                                                      rap_.matrix());
    else
      next_ = std::make_unique<GalerkinLevel<T, Axis, Coarse, Next, Memory, Options>>(
          mesh, rap_.matrix(), levels + 1, count - 1, options);
  }

  void visit(const Space& space, const Vector& x, const Vector& b, MultigridCycle cycle,
             bool zero) const override {
    visit_level(Steps{*this, space, x, b}, cycle, zero, next_->is_last(),
                [&](MultigridCycle next, bool from_zero) {
                  next_->visit(space, next_->x(), coarse_b_, next, from_zero);
                });
  }
  bool is_last() const override { return false; }
  void update(const Space& space) override {
    ap_.update(space);
    rap_.update(space);
    set_smoothing(space);
    next_->update(space);
  }
  const Vector& x() const override { return x_; }

 private:
  void set_smoothing(const Space& space) {
    a_.diagonal(space, diagonal_);
    const double largest =
        reduce<Max>(space, diagonal_,
                    RowBoundTerm<T, Vector>{a_.row_begin().data(), a_.values().data(), diagonal_});
    require_positive_diagonal(largest);
    steps_ = chebyshev_steps(options_.rough * largest, largest, options_.smoothing);
  }
  /// The steps of a cycle on A x = b.
  struct Steps {
    const GalerkinLevel& of;
    const Space& space;
    const Vector &x, &b;

    void smooth(bool zero) { chebyshev(space, of.a_, of.steps_, x, of.ax_, b, of.diagonal_, zero); }
    void restrict_residual() {
      of.a_.apply(space, of.ax_, x);
      shard::update(space, of.residual_, 1.0, b, -1.0, of.ax_, 0.0);
      of.r_.apply(space, of.coarse_b_, of.residual_);
    }
    void restrict_b() {
      axpby(space, of.residual_, 1.0, b, 0.0);
      of.r_.apply(space, of.coarse_b_, of.residual_);
    }
    void clear() { axpby(space, x, 0.0, b, 0.0); }
    void correct() {
      axpby(space, of.coarse_x_, 1.0, of.next_->x(), 0.0);
      of.p_.apply(space, of.correction_, of.coarse_x_);
      axpby(space, x, 1.0, of.correction_, 1.0);
    }
  };

  Options options_;
  A a_;
  P p_;
  R r_;
  MatrixProduct<T, Axis, Fine, Fine, Coarse, Memory> ap_;
  MatrixProduct<T, Axis, Coarse, Fine, Coarse, Memory> rap_;
  std::vector<double> steps_;
  Vector x_, diagonal_, ax_, residual_, correction_;
  CoarseVector coarse_b_, coarse_x_;
  std::unique_ptr<MatrixLevel<CoarseVector>> next_;
};

}  // namespace shard::impl

#endif
