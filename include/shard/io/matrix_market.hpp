// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_IO_MATRIX_MARKET_HPP
#define SHARD_IO_MATRIX_MARKET_HPP

#include <mpi.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "shard/solve/sparse_matrix.hpp"

/// \file
/// Sparse matrices in files of the Matrix Market format (coordinate; Boisvert, Pozo and Remington
/// 1996). Link with shard::solve.

namespace shard {

namespace impl {

/// A rank's part of a file's entries, with ids from 0.
struct MatrixMarketPart {
  index_t rows = 0, columns = 0;
  std::vector<MatrixEntry<double>> entries;
};
/// Each rank reads a range of the lines. Collective over `comm`; throws on every rank.
MatrixMarketPart read_matrix_market(MPI_Comm comm, const std::string& path);
/// Writes the entries of the ranks of `axis`, in their order; `writes` is true on the ranks of one
/// such communicator. Collective over `comm`, which has all of them; throws on every rank.
void write_matrix_market(MPI_Comm comm, MPI_Comm axis, bool writes, const std::string& path,
                         const MatrixMarketPart& part);

inline std::vector<std::int64_t> balanced_ids(index_t size, int parts, int part) {
  const Partition p = Partition::balanced(size, parts);
  std::vector<std::int64_t> ids;
  for (index_t i = p.begin(part); i < p.end(part); ++i) ids.push_back(i);
  return ids;
}

}  // namespace impl

/// Reads a matrix of real, integer or pattern (all 1) entries: general, symmetric or
/// skew-symmetric. Ids are those of the file less 1; rows and columns are balanced over the axis.
/// Each rank reads a range of the file's lines. Collective over the mesh. Throws IoError on every
/// rank for a file that can't be read or isn't of this format, and ArgumentError for one that isn't
/// square if `Column` is `Row`.
///
///   auto a = shard::read_matrix_market<double, Ranks, Node>(mesh, "west0479.mtx");
template <class T, class Axis, class Row, class Column = Row, class... MeshAxes>
SparseMatrix<T, Axis, Row, Column> read_matrix_market(const Mesh<MeshAxes...>& mesh,
                                                      const std::string& path) {
  const MPI_Comm comm = mesh.template communicator<Axis>();
  const auto read     = impl::read_matrix_market(comm, path);
  std::vector<MatrixEntry<T>> entries;
  entries.reserve(read.entries.size());
  for (const auto& e : read.entries) entries.push_back({e.row, e.column, static_cast<T>(e.value)});
  int rank = 0, size = 1;
  impl::check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  impl::check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  const auto rows = impl::balanced_ids(read.rows, size, rank);
  if constexpr (std::is_same_v<Row, Column>) {
    if (read.rows != read.columns)
      impl::throw_argument(
          "read_matrix_market",
          {"the matrix has ", impl::text(read.rows), " rows and ", impl::text(read.columns),
           " columns; pass a type for the columns' index space too"});
    return {mesh, rows, entries};
  } else {
    return {mesh, rows, impl::balanced_ids(read.columns, size, rank), entries};
  }
}

/// Writes a matrix whose ids count from 0: real, general, in the order of ranks and places, with 17
/// digits; of replicas along other axes the first one. The file is replaced when it is complete.
/// Collective over the mesh. Throws IoError on every rank; AgreementError if the ranks gave other
/// paths.
template <class T, class Axis, class Row, class Column, class Memory, class... MeshAxes>
void write_matrix_market(const Mesh<MeshAxes...>& mesh, const std::string& path,
                         const SparseMatrix<T, Axis, Row, Column, Memory>& a) {
  impl::MatrixMarketPart part{a.rows().size(), a.columns().size(), {}};
  for (const auto& e : a.entries())
    part.entries.push_back({e.row, e.column, static_cast<double>(e.value)});
  const bool writes =
      ((std::is_same_v<MeshAxes, Axis> || mesh.template coordinate<MeshAxes>() == 0) && ...);
  impl::write_matrix_market(mesh.communicator(), mesh.template communicator<Axis>(), writes, path,
                            part);
}

}  // namespace shard

#endif
