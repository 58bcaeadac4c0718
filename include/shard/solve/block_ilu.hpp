// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_BLOCK_ILU_HPP
#define SHARD_SOLVE_BLOCK_ILU_HPP

#include <Kokkos_Core.hpp>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/solve/impl/operands.hpp"
#include "shard/solve/sparse_matrix.hpp"

namespace shard {

namespace impl {

/// The pattern of an incomplete factorisation ILU(k) of a square matrix (Saad, "Iterative Methods
/// for Sparse Linear Systems", 2nd ed. 2003, algorithm 10.5): rows with columns in order. Host.
struct IncompletePattern {
  /// Of a matrix in compressed rows; entries of columns from `rows` on are left out.
  IncompletePattern(index_t rows, const index_t* row_begin, const int* column, int level);

  index_t rows() const { return static_cast<index_t>(diagonal.size()); }
  /// What is wrong with the diagonal, or nothing.
  std::string missing() const;

  std::vector<index_t> begin;     ///< of rows
  std::vector<index_t> diagonal;  ///< a row's diagonal entry, -1 if it has none
  std::vector<index_t> source;    ///< an entry's place in the matrix, -1 for fill
  std::vector<int> column;
};
/// That of a SparseMatrix' own block. Collective over the mesh, which agrees on the level.
template <class Matrix>
IncompletePattern agreed_pattern(const char* function, const Matrix& a, int level) {
  require_agreement(a.mesh_communicator(), function,
                    "the level of fill " + text(static_cast<index_t>(level)));
  if (level < 0)
    throw_argument(function, {"the level of fill is ", text(static_cast<index_t>(level)),
                              "; it is 0 or more"});
  const Kokkos::HostSpace host;
  return {a.rows().owned(), Kokkos::create_mirror_view_and_copy(host, a.row_begin()).data(),
          Kokkos::create_mirror_view_and_copy(host, a.column()).data(), level};
}

/// An incomplete factorisation L U (Saad, algorithm 10.4). Host.
template <class T>
class IncompleteLU {
 public:
  explicit IncompleteLU(IncompletePattern pattern);
  /// Factors values in the matrix' order. Returns what is wrong, or nothing.
  /// The factors are kept for `take`; until then `solve` uses those before.
  std::string factor(const T* values);
  /// The factors of the last `factor` are those of `solve` from now on.
  void take() { value_.swap(next_); }
  /// x = U^-1 L^-1 b; x may be b.
  void solve(T* x, index_t x_stride, const T* b, index_t b_stride) const;

 private:
  IncompletePattern pattern_;
  std::vector<T> value_, next_;
};

}  // namespace impl

/// Block Jacobi with an incomplete factorisation ILU(k) of each rank's own rows and columns:
/// PETSc's default, PCBJACOBI with PCILU. It isn't symmetric in general. The blocks, so the
/// iterations too, depend on the ranks. Factors and solves on the host, one thread for each rank;
/// on a device each `apply` copies its vectors, and KokkosBlockILU doesn't. For matrices whose own
/// block is triangular it is exact.
template <class Matrix>
class BlockILU {
  using V = typename Matrix::column_vector;
  using T = typename V::value_type;
  static_assert(std::is_floating_point_v<T>, "BlockILU is for real matrices");

 public:
  /// Factors the matrix. `level` is k, the level of fill: with 0 the factors have the pattern of
  /// the matrix; with more they have more entries and the solver needs fewer iterations.
  /// Collective. Throws ArgumentError on every rank, with the row's place, for a row without
  /// diagonal entry or a pivot that is 0 or not finite, and for a negative level; AgreementError if
  /// the ranks give different levels.
  explicit BlockILU(const Matrix& a, int level = 0)
      : state_(std::make_shared<State>(
            State{a, impl::IncompleteLU<T>(impl::agreed_pattern("BlockILU", a, level)), {}, {}})) {
    factor();
  }
  /// Factors the matrix again after a change of its values. Fences Kokkos. Errors as the
  /// constructor's; after one the factors are those before.
  void factor() const {
    Kokkos::fence("shard::BlockILU: the values");  // whatever instance wrote them
    const auto values =
        Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), state_->a.values());
    impl::require_no_error(state_->a.mesh_communicator(), "BlockILU",
                           state_->lu.factor(values.data()));
    state_->lu.take();
  }
  /// z = (L U)^-1 r; z may be r. Fences `space`. Local. Throws ArgumentError for vectors of other
  /// elements than the matrix'.
  template <class Space>
  void apply(const Space& space, const V& z, const V& r) const {
    for (const V* v : {&z, &r})
      impl::require_owned("BlockILU", v->geometry(), 0, state_->a.rows().partition());
    if constexpr (Kokkos::SpaceAccessibility<Kokkos::HostSpace,
                                             typename V::memory_space>::accessible) {
      space.fence("shard::BlockILU");
      state_->lu.solve(z.origin(), z.stride(0), r.origin(), r.stride(0));
    } else {
      auto &in = state_->in, &out = state_->out;
      if (in.extent(0) != r.view().extent(0)) {
        in  = Kokkos::create_mirror(r.view());
        out = Kokkos::create_mirror(z.view());
      }
      Kokkos::deep_copy(space, in, r.view());
      space.fence("shard::BlockILU");
      state_->lu.solve(out.data(), 1, in.data(), 1);
      Kokkos::deep_copy(space, z.view(), out);
    }
    mark_written(space, z);
  }

 private:
  using Host = typename std::remove_cvref_t<decltype(std::declval<V>().view())>::host_mirror_type;
  struct State {
    Matrix a;
    impl::IncompleteLU<T> lu;
    Host in, out;
  };
  std::shared_ptr<State> state_;
};

}  // namespace shard

#endif
