// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_KOKKOS_SPARSE_HPP
#define SHARD_SOLVE_KOKKOS_SPARSE_HPP

#include <KokkosKernels_default_types.hpp>
#include <KokkosSparse_CrsMatrix.hpp>
#include <KokkosSparse_spmv.hpp>
#include <Kokkos_Core.hpp>

#include <cstddef>
#include <type_traits>

#include "shard/exchange/exchange.hpp"
#include "shard/solve/csr_view.hpp"
#include "shard/solve/sparse_matrix.hpp"

/// \file
/// Products by Kokkos Kernels, on request: include this header and link with Kokkos Kernels.

namespace shard {

/// A SparseMatrix as an operator whose products are KokkosSparse::spmv's, which calls cuSPARSE,
/// rocSPARSE or MKL where Kokkos Kernels was built with them: the library chooses the order of the
/// sums, so the bits may depend on the ranks. Shares the matrix' memory, but for where rows begin
/// if Kokkos Kernels' default offsets aren't of 64 bits. For vectors of rank 1. The adjoint, the
/// diagonal and products of vectors with a stride are the matrix'.
///
///   const shard::KokkosSparseMatrix fast(a);
///   shard::CG cg(x, fast, shard::Jacobi(space, x, fast));
template <class Matrix>
class KokkosSparseMatrix {
  using T      = typename Matrix::column_vector::value_type;
  using Memory = typename Matrix::column_vector::memory_space;
  using Offset = KokkosKernels::default_size_type;
  using Crs    = KokkosSparse::CrsMatrix<
      T, int, Kokkos::Device<typename Matrix::column_vector::view_type::execution_space, Memory>,
      void, Offset>;
  template <class V>
  using Vector = Kokkos::View<V*, Kokkos::LayoutLeft, typename Crs::device_type,
                              Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

 public:
  /// For this matrix, which it keeps. Local; may fence.
  explicit KokkosSparseMatrix(const Matrix& a) : a_(a), csr_(csr_view<Offset>(a)) {}
  /// y = A x: fills the halo of x, then all rows. Collective, and errors, as the matrix'.
  template <class Space, AnyShardedView Y, AnyShardedView X>
  void apply(const Space& space, const Y& y, const X& x) const {
    static_assert(X::rank == 1 && Y::rank == 1, "KokkosSparseMatrix is of vectors of rank 1");
    // both start the same exchange, so that a rank's strides may be its own
    if (x.stride(0) != 1 || y.stride(0) != 1) return a_.apply(space, y, x);
    a_.require_spaces(y, x);
    impl::require_apart("KokkosSparseMatrix", y, x);
    exchange(space, x);
    const Crs crs("shard::sparse", csr_.row_count(), csr_.column_count,
                  static_cast<Offset>(csr_.values.size()),
                  typename Crs::values_type(csr_.values.data(), csr_.values.size()),
                  typename Crs::row_map_type(csr_.row_map.data(), csr_.row_map.size()),
                  typename Crs::index_type(a_.column().data(), a_.column().size()));
    KokkosSparse::spmv(space, "N", T(1), crs,
                       Vector<const T>(x.origin(), static_cast<std::size_t>(csr_.column_count)),
                       T(0), Vector<T>(y.origin(), static_cast<std::size_t>(csr_.row_count())));
    mark_written(space, y);
  }
  /// x = A' y
  template <class Space, AnyShardedView X, AnyShardedView Y>
  void apply_adjoint(const Space& space, const X& x, const Y& y) const {
    a_.apply_adjoint(space, x, y);
  }
  /// d = the diagonal of A.
  template <class Space, AnyShardedView D>
  void diagonal(const Space& space, const D& d) const {
    a_.diagonal(space, d);
  }

 private:
  Matrix a_;
  CsrView<T, Offset, Memory> csr_;
};

}  // namespace shard

#endif
