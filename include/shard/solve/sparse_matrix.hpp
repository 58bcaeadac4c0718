// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_SPARSE_MATRIX_HPP
#define SHARD_SOLVE_SPARSE_MATRIX_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/base/impl/launch.hpp"
#include "shard/exchange/exchange.hpp"
#include "shard/solve/impl/assembly.hpp"
#include "shard/solve/impl/operands.hpp"
#include "shard/solve/impl/sparse_kernels.hpp"
#include "shard/view/index_space.hpp"

/// \file
/// Sparse matrices over index spaces. A row is on the rank that owns it. The vector that a matrix
/// is applied to is a field over its columns: owned elements, and behind them the halo that the
/// rank's rows read. Each row is summed in the order of the columns' global ids, so that the bits
/// don't depend on who owns what.

namespace shard {

namespace impl {

/// The ids of all places of this rank.
template <class Tag, class Axis>
const std::vector<std::int64_t>& ids_of(const IndexSpace<Tag, Axis>& space) {
  return space.partition().index_halo()->ids;
}
template <class Tag, class Axis>
std::vector<std::int64_t> owned_ids_of(const IndexSpace<Tag, Axis>& space) {
  const auto& ids = ids_of(space);
  return {ids.begin(), ids.begin() + space.owned()};
}

/// A View of these values, in this memory.
template <class Memory, class V>
Kokkos::View<V*, Memory> array_of(const char* label, const std::vector<V>& values) {
  const Kokkos::View<const V*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>> host(
      values.data(), values.size());
  Kokkos::View<V*, Memory> made(
      Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string("shard::sparse ") + label),
      values.size());
  Kokkos::deep_copy(made, host);
  return made;
}

/// The entries of a matrix as elements of an index space, with those of other ranks as its halo.
struct EntryIndices;
template <class T, class Axis, class Memory>
using EntryField =
    ShardedView<T*, Kokkos::LayoutRight, ShardDim<0, Axis, Indices<EntryIndices>>, Memory>;

}  // namespace impl

/// A sparse matrix with rows of the index space `Row` and columns of `Column`, sharded over `Axis`.
/// An operator of the solvers, and its own linear operation: `apply`, `apply_adjoint`, `diagonal`.
/// Its copies share the memory.
///
/// \code
/// struct Node;
/// std::vector<shard::MatrixEntry<double>> entries;  // by global ids; of any rank's rows
/// shard::SparseMatrix<double, Ranks, Node> a(mesh, own_ids, entries);
/// auto x = a.make_column_vector("x"), y = a.make_row_vector("y");
/// a.apply(space, y, x);
/// \endcode
template <class T, class Axis, class Row, class Column = Row,
          class Memory = Kokkos::DefaultExecutionSpace::memory_space>
class SparseMatrix {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> ||
                    std::is_same_v<T, Kokkos::complex<float>> ||
                    std::is_same_v<T, Kokkos::complex<double>>,
                "a SparseMatrix is of float, double or complex of them");
  template <class V>
  using Array = Kokkos::View<V*, Memory>;

 public:
  /// A vector of rows, and one of columns. A field of rank 2 with the same first dimension is
  /// several vectors at once.
  using row_vector = ShardedView<T*, Kokkos::LayoutRight, ShardDim<0, Axis, Indices<Row>>, Memory>;
  using column_vector =  ///< what it is applied to
      ShardedView<T*, Kokkos::LayoutRight, ShardDim<0, Axis, Indices<Column>>, Memory>;

  /// A square matrix: `ids` of the rows and columns that this rank owns, in the order of their
  /// places. Entries of one place are added in the order of ranks, then of their lists. Collective
  /// over the mesh. Throws ArgumentError on every rank for an id that two ranks own or that no rank
  /// owns.
  template <class... MeshAxes>
  SparseMatrix(const Mesh<MeshAxes...>& mesh, const std::vector<std::int64_t>& ids,
               const std::vector<MatrixEntry<T>>& entries) requires(std::is_same_v<Row, Column>)
      : SparseMatrix(mesh, ids, ids, entries, true) {}
  /// A matrix between two spaces: the ids of the rows and of the columns that this rank owns.
  template <class... MeshAxes>
  SparseMatrix(const Mesh<MeshAxes...>& mesh, const std::vector<std::int64_t>& rows,
               const std::vector<std::int64_t>& columns,
               const std::vector<MatrixEntry<T>>& entries) requires(!std::is_same_v<Row, Column>)
      : SparseMatrix(mesh, rows, columns, entries, false) {}

  /// The rows, and the columns with the halo that this rank's rows read.
  const IndexSpace<Row, Axis>& rows() const { return rows_; }
  const IndexSpace<Column, Axis>& columns() const { return columns_; }  ///< as above
  /// A new vector, zero. Collective.
  row_vector make_row_vector(const std::string& label) const {
    return impl::FieldAccess::allocate<row_vector>(rows_geometry_.named(label));
  }
  /// The same of columns. Collective.
  column_vector make_column_vector(const std::string& label) const {
    return impl::FieldAccess::allocate<column_vector>(columns_geometry_.named(label));
  }
  /// Entries on this rank: where each row begins, the places of its columns, the values. Values may
  /// be changed, in this order; not the pattern.
  const Array<index_t>& row_begin() const { return row_begin_; }
  const Array<int>& column() const { return column_; }  ///< places in columns()
  const Array<T>& values() const { return value_; }     ///< beside the columns
  /// This rank's entries by global ids, in the order of values(): for a file, another library or
  /// another matrix. Copies them to the host; fences Kokkos. Local.
  std::vector<MatrixEntry<T>> entries() const {
    using Host = Kokkos::HostSpace;
    Kokkos::fence("shard::SparseMatrix: the values");  // whatever instance writes them
    const auto begin = Kokkos::create_mirror_view_and_copy(Host(), row_begin_);
    const auto place = Kokkos::create_mirror_view_and_copy(Host(), column_);
    const auto value = Kokkos::create_mirror_view_and_copy(Host(), value_);
    const auto &rows = impl::ids_of(rows_), &columns = impl::ids_of(columns_);
    std::vector<MatrixEntry<T>> list;
    list.reserve(value.extent(0));
    for (std::size_t r = 0; r + 1 < begin.extent(0); ++r)
      for (index_t e = begin(r); e < begin(r + 1); ++e)
        list.push_back({rows[r], columns[static_cast<std::size_t>(place(e))], value(e)});
    return list;
  }
  /// The ranks that share the rows, in the order of the mesh axis; not its replicas along other
  /// axes. What is collective of a matrix alone is so over these.
  MPI_Comm communicator() const { return impl::owners_of("SparseMatrix", rows_geometry_, 0); }
  /// All ranks of the mesh, replicas too: those that agree on errors and options.
  MPI_Comm mesh_communicator() const { return rows_geometry_.mesh->comm(); }

  /// y = A x: rows that read no halo are summed while it travels. Fills the halo of x. Fields of
  /// rank 1, or 2 with several vectors. Collective over the mesh the first time, then among
  /// neighbours. Throws ArgumentError if x or y isn't of the matrix' spaces, or y has memory of x.
  template <class Space, AnyShardedView Y, AnyShardedView X>
  void apply(const Space& space, const Y& y, const X& x) const {
    require_spaces(y, x);
    impl::require_apart("SparseMatrix", y, x);
    auto pending = start_exchange(space, x);
    multiply(space, y, x, inner_rows_);
    pending.finish();
    multiply(space, y, x, outer_rows_);
    mark_written(space, y);
  }

  /// x = A' y (complex values are conjugated), summed in the order of rows on each rank, then of
  /// ranks. Sets the halo of x to zero. Errors as apply.
  template <class Space, AnyShardedView X, AnyShardedView Y>
  void apply_adjoint(const Space& space, const X& x, const Y& y) const {
    require_spaces(y, x);
    impl::require_apart("SparseMatrix", x, y);
    launch(space, x, y, transposed_begin_, transposed_row_, transposed_entry_.data(), nullptr,
           columns_.places());
    exchange_adjoint(space, x);
  }

  /// dvalues += scale times the derivative of y' (A x) with respect to values(), in their order.
  /// Fills the halo of x. Errors and messages as apply. See LinearSolve::add_coefficient_gradient.
  template <class Space, AnyShardedView Y, AnyShardedView X>
  void add_coefficient_gradient(const Space& space, const Array<T>& dvalues, double scale,
                                const Y& y, const X& x) const {
    static_assert(std::is_floating_point_v<T>, "gradients are of real values");
    require_spaces(y, x);
    start_exchange(space, x).finish();
    constexpr int last = X::rank - 1;
    impl::launch(
        "shard::sparse_gradient", space, rows_.owned(),
        impl::SparseGradientKernel<T>{row_begin_.data(), column_.data(), dvalues.data(), y.origin(),
                                      x.origin(), x.stride(0), x.stride(last), y.stride(0),
                                      y.stride(last), X::rank == 2 ? x.extent(last) : 1, scale});
  }

  /// d = the diagonal, 0 where a row has none. Local. Throws ArgumentError for a field of other
  /// elements.
  template <class Space, AnyShardedView D>
  void diagonal(const Space& space, const D& d) const {
    static_assert(std::is_same_v<Row, Column>, "only a square matrix has a diagonal");
    impl::require_owned("SparseMatrix", d.geometry(), 0, rows_.partition());
    impl::launch("shard::sparse_diagonal", space, rows_.owned(),
                 impl::DiagonalKernel<T>{row_begin_.data(), column_.data(), value_.data(),
                                         d.origin(), d.stride(0)});
    mark_written(space, d);
  }
  /// Throws ArgumentError unless y is of the rows and x of the columns. For adapters. Local.
  template <class Y, class X>
  void require_spaces(const Y& y, const X& x) const {
    static_assert(
        X::rank == Y::rank && X::rank <= 2 && impl::index_dim<X>() == 0 &&
            impl::index_dim<Y>() == 0,
        "a SparseMatrix is applied to fields of rank 1 or 2 whose first dimension is of an "
        "index space");
    static_assert(std::is_same_v<typename X::non_const_value_type, T> &&
                      std::is_same_v<typename Y::value_type, T>,
                  "a SparseMatrix and its vectors have one value type");
    if (x.partition(0).index_halo() != columns_.partition().index_halo() ||
        y.partition(0).index_halo() != rows_.partition().index_halo())
      impl::throw_argument(
          "SparseMatrix", {"\"", x.label(), "\" or \"", y.label(),
                           "\" isn't of the matrix' columns or rows; make it by make_column_vector "
                           "and make_row_vector, or of columns() and rows()"});
    if constexpr (X::rank == 2)
      if (x.extent(1) != y.extent(1))
        impl::throw_argument(
            "SparseMatrix", {"\"", x.label(), "\" has ", impl::text(x.extent(1)), " vectors and \"",
                             y.label(), "\" ", impl::text(y.extent(1))});
  }

 private:
  template <class MeshType>
  SparseMatrix(const MeshType& mesh, const std::vector<std::int64_t>& rows,
               const std::vector<std::int64_t>& columns, const std::vector<MatrixEntry<T>>& entries,
               bool square)
      : SparseMatrix(mesh, rows, columns, square,
                     impl::assemble(mesh.template communicator<Axis>(), rows, columns, entries)) {}

  template <class MeshType>
  SparseMatrix(const MeshType& mesh, const std::vector<std::int64_t>& rows,
               std::vector<std::int64_t> columns, bool square, const impl::AssembledRows<T>& made)
      : columns_(mesh, by_global_ids(with(columns, made.halo), static_cast<index_t>(columns.size()))
                           .named("SparseMatrix")),
        rows_(row_space(mesh, rows, square)) {
    rows_geometry_    = row_vector("rows", mesh, {rows_.partition()}).geometry();
    columns_geometry_ = column_vector("columns", mesh, {columns_.partition()}).geometry();
    keep(made);
  }

  static std::vector<std::int64_t> with(std::vector<std::int64_t> ids,
                                        const std::vector<std::int64_t>& more) {
    ids.insert(ids.end(), more.begin(), more.end());
    return ids;
  }
  template <class MeshType>
  IndexSpace<Row, Axis> row_space(const MeshType& mesh, const std::vector<std::int64_t>& rows,
                                  bool square) const {
    if constexpr (std::is_same_v<Row, Column>)
      if (square) return columns_;
    return IndexSpace<Row, Axis>(
        mesh, by_global_ids(rows, static_cast<index_t>(rows.size())).named("SparseMatrix"));
  }

  void keep(const impl::AssembledRows<T>& made) {
    const index_t owned = columns_.owned();
    const std::size_t n = made.row_begin.size() - 1;
    std::vector<int> inner, outer;
    for (std::size_t r = 0; r < n; ++r) {
      bool reads_halo = false;
      for (index_t e = made.row_begin[r]; e < made.row_begin[r + 1]; ++e)
        reads_halo = reads_halo || made.column[static_cast<std::size_t>(e)] >= owned;
      (reads_halo ? outer : inner).push_back(static_cast<int>(r));
    }
    // the entries by column, in the order of rows
    const auto places = static_cast<std::size_t>(columns_.places());
    std::vector<index_t> begin(places + 1), entry(made.column.size());
    std::vector<int> row(made.column.size());
    for (const int c : made.column) ++begin[static_cast<std::size_t>(c) + 1];
    for (std::size_t c = 0; c < places; ++c) begin[c + 1] += begin[c];
    std::vector<index_t> next(begin.begin(), begin.end() - 1);
    for (std::size_t r = 0; r < n; ++r)
      for (index_t e = made.row_begin[r]; e < made.row_begin[r + 1]; ++e) {
        const auto c  = static_cast<std::size_t>(made.column[static_cast<std::size_t>(e)]);
        const auto at = static_cast<std::size_t>(next[c]++);
        row[at]       = static_cast<int>(r);
        entry[at]     = e;
      }
    row_begin_        = impl::array_of<Memory>("row_begin", made.row_begin);
    column_           = impl::array_of<Memory>("column", made.column);
    value_            = impl::array_of<Memory>("value", made.value);
    inner_rows_       = impl::array_of<Memory>("inner_rows", inner);
    outer_rows_       = impl::array_of<Memory>("outer_rows", outer);
    transposed_begin_ = impl::array_of<Memory>("transposed_begin", begin);
    transposed_row_   = impl::array_of<Memory>("transposed_row", row);
    transposed_entry_ = impl::array_of<Memory>("transposed_entry", entry);
  }
  template <class Space, class Y, class X>
  void multiply(const Space& space, const Y& y, const X& x, const Array<int>& which) const {
    launch(space, y, x, row_begin_, column_, nullptr, which.data(),
           static_cast<index_t>(which.extent(0)));
  }
  template <class Space, class Y, class X>
  void launch(const Space& space, const Y& y, const X& x, const Array<index_t>& begin,
              const Array<int>& column, const index_t* entry, const int* which,
              index_t count) const {
    constexpr bool lines = impl::is_host_space_v<Space>;
    constexpr int last   = X::rank - 1;
    const index_t inner  = X::rank == 2 ? x.extent(last) : 1;
    impl::launch("shard::sparse_rows", space, lines ? count : count * inner,
                 impl::SparseRowsKernel<T, lines>{
                     begin.data(), column.data(), entry, value_.data(), which, x.origin(),
                     y.origin(), x.stride(0), x.stride(last), y.stride(0), y.stride(last), inner});
  }

  IndexSpace<Column, Axis> columns_;
  IndexSpace<Row, Axis> rows_;
  impl::Geometry rows_geometry_, columns_geometry_;
  Array<index_t> row_begin_, transposed_begin_, transposed_entry_;
  Array<int> column_, inner_rows_, outer_rows_, transposed_row_;
  Array<T> value_;
};

}  // namespace shard

#endif
