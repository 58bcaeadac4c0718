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
#include "shard/solve/sparse_matrix.hpp"

namespace shard {

namespace impl {

/// An incomplete factorisation L U with the pattern of the matrix, ILU(0) (Saad, "Iterative Methods
/// for Sparse Linear Systems", 2nd ed. 2003, algorithm 10.4). Host.
template <class T>
class IncompleteLU {
 public:
  /// The pattern of a square matrix in compressed rows; entries of columns from `rows` on are left
  /// out.
  IncompleteLU(index_t rows, const index_t* row_begin, const int* column);
  /// Factors values in the matrix' order. Returns what is wrong, or nothing.
  std::string factor(const T* values);
  /// x = U^-1 L^-1 b; x may be b.
  void solve(T* x, index_t x_stride, const T* b, index_t b_stride) const;

 private:
  std::vector<index_t> begin_, diagonal_, source_;  // source: the entry in the matrix
  std::vector<int> column_;
  std::vector<T> value_;
};

}  // namespace impl

/// Block Jacobi with an incomplete factorisation ILU(0) of each rank's own rows and columns:
/// PETSc's default, PCBJACOBI with PCILU. It isn't symmetric in general. The blocks, so the
/// iterations too, depend on the ranks. Factors and solves on the host, one thread for each rank;
/// on a device each `apply` copies its vectors. For matrices whose own block is triangular it is
/// exact.
template <class Matrix>
class BlockILU {
  using V = typename Matrix::column_vector;
  using T = typename V::value_type;

 public:
  /// Factors the matrix. Collective. Throws ArgumentError on every rank, with the row's place, for
  /// a row without diagonal entry or a pivot that is 0 or not finite.
  explicit BlockILU(const Matrix& a) : state_(std::make_shared<State>(State{a, made(a), {}, {}})) {
    factor();
  }
  /// Factors the matrix again after a change of its values. Errors as the constructor's.
  void factor() const {
    const auto values =
        Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), state_->a.values());
    impl::require_no_error(state_->a.communicator(), "BlockILU", state_->lu.factor(values.data()));
  }
  /// z = (L U)^-1 r. Fences `space`. Local.
  template <class Space>
  void apply(const Space& space, const V& z, const V& r) const {
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
  }

 private:
  using Host = typename std::remove_cvref_t<decltype(std::declval<V>().view())>::host_mirror_type;
  struct State {
    Matrix a;
    impl::IncompleteLU<T> lu;
    Host in, out;
  };
  static impl::IncompleteLU<T> made(const Matrix& a) {
    const Kokkos::HostSpace host;
    return {a.rows().owned(), Kokkos::create_mirror_view_and_copy(host, a.row_begin()).data(),
            Kokkos::create_mirror_view_and_copy(host, a.column()).data()};
  }
  std::shared_ptr<State> state_;
};

}  // namespace shard

#endif
