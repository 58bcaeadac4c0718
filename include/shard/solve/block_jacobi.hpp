// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_BLOCK_JACOBI_HPP
#define SHARD_SOLVE_BLOCK_JACOBI_HPP

#include <Kokkos_Core.hpp>

#include <string>
#include <type_traits>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/solve/impl/operands.hpp"
#include "shard/solve/sparse_matrix.hpp"

namespace shard {

namespace impl {

/// Inverts an n x n matrix, by rows, in place, with pivots from its columns (Gauss and Jordan).
/// False if it is singular or not finite.
template <class T>
bool invert_dense(T* a, int n);

/// z = the product of the row's block with r.
template <class T>
struct DenseBlocksKernel {
  const T* inverse;  ///< `size` values for each row
  const T* r;
  T* z;
  index_t rows, size, r_stride, z_stride;

  KOKKOS_FUNCTION void operator()(index_t row) const {
    const index_t first = row / size * size, end = first + size < rows ? first + size : rows;
    T sum = T(0);
    for (index_t k = first; k < end; ++k) sum += inverse[row * size + k - first] * r[k * r_stride];
    z[row * z_stride] = sum;
  }
};

}  // namespace impl

/// Block Jacobi with dense blocks: each `size` consecutive rows of a rank and their columns, such
/// as the unknowns of one point; PETSc's PCPBJACOBI. The last block of a rank may be smaller. If no
/// point is divided between ranks, the blocks don't depend on the ranks. The inverses are computed
/// on the host and applied where the matrix is.
template <class Matrix>
class BlockJacobi {
  using V      = typename Matrix::column_vector;
  using T      = typename V::value_type;
  using Memory = typename V::memory_space;

 public:
  /// Inverts the blocks of `a`. Collective. Throws ArgumentError on every rank for a size below 1
  /// or a block that is singular, with its first row's place.
  BlockJacobi(const Matrix& a, int size)
      : size_(size), rows_(a.rows().owned()), owners_(a.rows().partition()) {
    const auto places = static_cast<std::size_t>(rows_);
    const auto width  = static_cast<std::size_t>(size < 1 ? 0 : size);
    impl::require_agreement(a.mesh_communicator(), "BlockJacobi",
                            "blocks of " + impl::text(size) + " rows");
    if (size < 1)
      impl::throw_argument("BlockJacobi",
                           {"blocks of ", impl::text(size), " rows; give 1 or more"});
    inverse_ = Kokkos::View<T*, Memory>("shard::BlockJacobi", places * width);
    Kokkos::fence("shard::BlockJacobi: the values");  // whatever instance wrote them
    const Kokkos::HostSpace host;
    const auto begin  = Kokkos::create_mirror_view_and_copy(host, a.row_begin());
    const auto column = Kokkos::create_mirror_view_and_copy(host, a.column());
    const auto value  = Kokkos::create_mirror_view_and_copy(host, a.values());
    const auto all    = Kokkos::create_mirror_view(inverse_);
    std::string wrong;
    std::vector<T> block;
    for (std::size_t first = 0; first < places; first += width) {
      const std::size_t n = first + width < places ? width : places - first;
      block.assign(n * n, T(0));
      for (std::size_t r = 0; r < n; ++r)
        for (index_t e = begin(first + r); e < begin(first + r + 1); ++e) {
          const auto c = static_cast<std::size_t>(column(e));
          if (c >= first && c < first + n) block[r * n + c - first] = value(e);
        }
      if (!impl::invert_dense(block.data(), static_cast<int>(n)) && wrong.empty())
        wrong = "the block of rows from " + impl::text(static_cast<index_t>(first)) +
                " on is singular or not finite";
      for (std::size_t r = 0; r < n; ++r)
        for (std::size_t c = 0; c < n; ++c) all((first + r) * width + c) = block[r * n + c];
    }
    impl::require_no_error(a.mesh_communicator(), "BlockJacobi", wrong);
    Kokkos::deep_copy(inverse_, all);
  }
  /// z = the blocks' inverses times r; z isn't r. Local. Throws ArgumentError for vectors of other
  /// elements than the matrix'.
  template <class Space>
  void apply(const Space& space, const V& z, const V& r) const {
    for (const V* v : {&z, &r}) impl::require_owned("BlockJacobi", v->geometry(), 0, owners_);
    impl::require_apart("BlockJacobi", z, r);
    impl::launch("shard::dense_blocks", space, rows_,
                 impl::DenseBlocksKernel<T>{inverse_.data(), r.origin(), z.origin(), rows_, size_,
                                            r.stride(0), z.stride(0)});
    mark_written(space, z);
  }

 private:
  index_t size_, rows_;
  Partition owners_;
  Kokkos::View<T*, Memory> inverse_;
};

}  // namespace shard

#endif
