// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_SPARSE_GATHER_HPP
#define SHARD_SOLVE_SPARSE_GATHER_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/autodiff/impl/tape_records.hpp"
#include "shard/base/impl/environment_variable.hpp"
#include "shard/solve/matrix_algebra.hpp"

namespace shard {

namespace impl {

/// Fields that a product reads or writes in place of the caller's, made when first needed.
class ProductFields {
 public:
  /// A field with x's type and extents over another space of the same elements; a square product
  /// reads one and writes another. Local.
  template <class X>
  const X& like(const X& x, const Partition& space, bool written) {
    const index_t inner = X::rank == 2 ? x.extent(X::rank - 1) : 1;
    for (const Kept& kept : kept_)
      if (kept.tag == &type_tag<X> && kept.space == space.index_halo() && kept.inner == inner &&
          kept.written == written)
        return *static_cast<const X*>(kept.field.get());
    auto geometry              = x.geometry().named("shard::product");
    geometry.dims[0].partition = space;
    if (kept_.size() >= most_kept) kept_.erase(kept_.begin());
    kept_.push_back({&type_tag<X>, space.index_halo(), inner, written,
                     std::make_shared<X>(FieldAccess::allocate<X>(std::move(geometry)))});
    return *static_cast<const X*>(kept_.back().field.get());
  }

 private:
  struct Kept {
    const void* tag;
    const IndexHalo* space;
    index_t inner;
    bool written;
    std::shared_ptr<void> field;
  };
  static constexpr std::size_t most_kept = 16;
  std::vector<Kept> kept_;  // the oldest first
};

}  // namespace impl

/// A gather along a connectivity with coefficients, and a sum at the targets: y_i = sum_j a_ij x_j,
/// as a differentiable linear operation, for chains and tapes. Examples: edges from their two
/// cells, cells from their edges with signs, vertices from cells by kite areas, nodes of a graph
/// from their neighbours.
///
/// The transpose is a second matrix, which gathers too. So both directions sum in the order of
/// global ids, and the bits of products and gradients don't depend on the ranks. Inputs are fields
/// of rank 1 or 2 (element x level) over any space of the product's owned ids, whatever its halo.
/// Copies share the memory.
///
/// \code
/// // the mean of an edge's two cells
/// shard::SparseGather<double, Ranks, Edge, Cell> mean(mesh, edge_ids, cell_ids, entries);
/// auto h_edge = tape.run(mean, h);
/// \endcode
template <class T, class Axis, class Row, class Column = Row,
          class Memory = Kokkos::DefaultExecutionSpace::memory_space>
class SparseGather {
  template <class X>
  using OutputOf = ShardedView<std::conditional_t<X::rank == 2, T**, T*>, Kokkos::LayoutRight,
                               ShardDim<0, Axis, Indices<Row>>, Memory>;

 public:
  using Matrix    = SparseMatrix<T, Axis, Row, Column, Memory>;  ///< applies it
  using Transpose = SparseMatrix<T, Axis, Column, Row, Memory>;  ///< pulls back

  /// Owned ids of the rows (targets) and of the columns (sources), and the coefficients by ids, of
  /// any rank's rows. Collective over the mesh. Throws ArgumentError as SparseMatrix does.
  template <class... MeshAxes>
  SparseGather(const Mesh<MeshAxes...>& mesh, const std::vector<std::int64_t>& rows,
               const std::vector<std::int64_t>& columns,
               const std::vector<MatrixEntry<T>>& entries) requires(!std::is_same_v<Row, Column>)
      : forward_(mesh, rows, columns, entries), backward_(transposed(mesh, forward_)) {}
  /// The same within one space.
  template <class... MeshAxes>
  SparseGather(const Mesh<MeshAxes...>& mesh, const std::vector<std::int64_t>& ids,
               const std::vector<MatrixEntry<T>>& entries) requires(std::is_same_v<Row, Column>)
      : forward_(mesh, ids, entries), backward_(transposed(mesh, forward_)) {}

  /// The matrix. Coefficients that change must be changed in both: see WeightedGather.
  const Matrix& matrix() const { return forward_; }
  const Transpose& transpose() const { return backward_; }  ///< as above

  /// A new y for this x. Local.
  template <AnyShardedView X>
  OutputOf<X> output(const X& x) const {
    auto geometry              = x.geometry().named("product");
    geometry.dims[0].partition = forward_.rows().partition();
    return impl::FieldAccess::allocate<OutputOf<X>>(std::move(geometry));
  }
  /// y = A x. Collective over the mesh the first time, then among neighbours. Throws ArgumentError
  /// on every rank for a field of other owned ids.
  template <class Space, AnyShardedView Y, AnyShardedView X>
  void apply(const Space& space, const Y& y, const X& x) const {
    multiply(space, forward_, y, x);
  }
  /// The same for tangents.
  template <class Space, AnyShardedView TY, AnyShardedView TX>
  void pushforward(const Space& space, const TY& ty, const TX& tx) const {
    multiply(space, forward_, ty, tx);
  }
  /// dx = A' dy.
  template <class Space, AnyShardedView DX, AnyShardedView DY>
  void pullback(const Space& space, const DX& dx, const DY& dy) const {
    multiply(space, backward_, dx, dy);
    // the product marked it, and the adjoint of an exchange would add the marks
    if (impl::environment_flag("SHARD_CHECK")) impl::zero_halo(space, dx);
  }
  /// Adds to `dvalues` the gradient with respect to the coefficients, matrix().values() in their
  /// order, for this x and dy. Errors and messages as apply.
  template <class Space, AnyShardedView DY, AnyShardedView X>
  void add_coefficient_gradient(const Space& space, const Kokkos::View<T*, Memory>& dvalues,
                                const DY& dy, const X& x) const {
    const auto columns = with_space(x, forward_.columns().partition(), false);
    const auto rows    = with_space(dy, forward_.rows().partition(), true);
    if (columns.origin() != x.origin()) Kokkos::deep_copy(space, columns.owned(), x.owned());
    if (rows.origin() != dy.origin()) Kokkos::deep_copy(space, rows.owned(), dy.owned());
    forward_.add_coefficient_gradient(space, dvalues, 1.0, rows, columns);
  }

 private:
  template <class Space, class M, class Y, class X>
  void multiply(const Space& space, const M& matrix, const Y& y, const X& x) const {
    const auto from = with_space(x, matrix.columns().partition(), false);
    const auto to   = with_space(y, matrix.rows().partition(), true);
    if (from.origin() != x.origin()) Kokkos::deep_copy(space, from.owned(), x.owned());
    matrix.apply(space, to, from);
    if (to.origin() != y.origin()) Kokkos::deep_copy(space, y.owned(), to.owned());
  }
  /// The field, or one over the matrix' space.
  template <class F>
  F with_space(const F& field, const Partition& space, bool written) const {
    static_assert(F::rank <= 2 && impl::index_dim<F>() == 0,
                  "a SparseGather is applied to fields of rank 1 or 2 whose first dimension is of "
                  "an index space");
    if (field.partition(0).index_halo() == space.index_halo()) return field;
    if (field.partition(0).index_halo()->elements != space.index_halo()->elements)
      impl::throw_argument("SparseGather",
                           {"\"", field.label(),
                            "\" is of a space whose owned ids aren't those of the product; give "
                            "both the same ids in the same order"});
    return fields_->like(field, space, written);
  }

  Matrix forward_;
  Transpose backward_;
  std::shared_ptr<impl::ProductFields> fields_ = std::make_shared<impl::ProductFields>();
};

}  // namespace shard

#endif
