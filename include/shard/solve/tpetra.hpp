// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_TPETRA_HPP
#define SHARD_SOLVE_TPETRA_HPP

#include <Kokkos_Core.hpp>
#include <Teuchos_DefaultMpiComm.hpp>
#include <Teuchos_ParameterList.hpp>
#include <Tpetra_CrsMatrix.hpp>
#include <Tpetra_Map.hpp>
#include <Tpetra_MultiVector.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "shard/base/impl/watchdog.hpp"
#include "shard/solve/sparse_matrix.hpp"

/// \file
/// Tpetra's CrsMatrix and MultiVector of a SparseMatrix and its vectors, as views of the same
/// memory, with the global ids. Their maps are on the ranks of the matrix' mesh axis, so each group
/// of replicas has its own. Link with Tpetra, whose Kokkos must be shard's.

namespace shard {

namespace impl {

/// The map of the first `count` places of an index space. Collective.
inline Teuchos::RCP<const Tpetra::Map<>> tpetra_map(MPI_Comm comm, const IndexHalo& space,
                                                    index_t count) {
  using Global = Tpetra::Map<>::global_ordinal_type;
  const std::vector<Global> ids(space.ids.begin(), space.ids.begin() + count);
  std::int64_t base = 0;  // no id of any rank may be smaller
  for (const Global id : ids) base = id < base ? id : base;
  await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, static_cast<void*>(&base), 1, MPI_INT64_T,
            MPI_MIN, comm);
  return Teuchos::rcp(new Tpetra::Map<>(Teuchos::OrdinalTraits<Tpetra::global_size_t>::invalid(),
                                        Teuchos::ArrayView<const Global>(ids.data(), count),
                                        static_cast<Global>(base),
                                        Teuchos::rcp(new Teuchos::MpiComm<int>(comm))));
}

}  // namespace impl

/// A vector's owned elements as a MultiVector of one column: a view of the same memory, which the
/// vector keeps. Collective over the mesh axis. Throws ArgumentError on every rank for elements
/// with a stride.
template <AnyShardedView Vector>
Tpetra::MultiVector<typename Vector::value_type> tpetra_view(const Vector& v) {
  using Made   = Tpetra::MultiVector<typename Vector::value_type>;
  using Values = typename Made::dual_view_type::t_dev;
  static_assert(
      Vector::rank == 1 && impl::index_dim<Vector>() == 0 &&
          std::is_same_v<typename Vector::memory_space, typename Made::device_type::memory_space>,
      "tpetra_view takes vectors over an index space in the memory of Tpetra's node");
  const MPI_Comm comm = impl::owners_of("tpetra_view", v.geometry(), 0);
  impl::require_contiguous(comm, "tpetra_view", v.geometry(), v.extent(0), v.stride(0));
  return Made(impl::tpetra_map(comm, *v.partition(0).index_halo(), v.extent(0)),
              Values(v.origin(), static_cast<std::size_t>(v.extent(0)), 1));
}

/// A matrix as a CrsMatrix, filled completely: a view of the columns and the values, which the
/// matrix keeps, with a copy of where rows begin. Collective over the mesh axis.
///
/// \code
/// const auto view = shard::tpetra_view(a);
/// auto from = shard::tpetra_view(x), to = shard::tpetra_view(y);
/// view->apply(from, to);  // y = A x
/// \endcode
template <class T, class Axis, class Row, class Column, class Memory>
Teuchos::RCP<const Tpetra::CrsMatrix<T>> tpetra_view(
    const SparseMatrix<T, Axis, Row, Column, Memory>& a) {
  using Made  = Tpetra::CrsMatrix<T>;
  using Local = typename Made::local_matrix_device_type;
  static_assert(std::is_same_v<Memory, typename Made::device_type::memory_space>,
                "tpetra_view takes matrices in the memory of Tpetra's node");
  typename Local::row_map_type::non_const_type begin("shard::tpetra", a.row_begin().extent(0));
  Kokkos::deep_copy(begin, a.row_begin());
  const Local local("shard::tpetra", static_cast<int>(a.rows().owned()),
                    static_cast<int>(a.columns().places()), a.values().extent(0), a.values(), begin,
                    a.column());
  const MPI_Comm comm            = a.communicator();
  const impl::IndexHalo &rows    = *a.rows().partition().index_halo(),
                        &columns = *a.columns().partition().index_halo();
  const auto of_rows             = impl::tpetra_map(comm, rows, a.rows().owned());
  // columns are in the order of ids, not of places
  const auto options = Teuchos::rcp(new Teuchos::ParameterList);
  options->set("sorted", false);
  return Teuchos::rcp(
      new Made(local, of_rows, impl::tpetra_map(comm, columns, a.columns().places()),
               impl::tpetra_map(comm, columns, a.columns().owned()), of_rows, options));
}

}  // namespace shard

#endif
