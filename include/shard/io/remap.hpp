// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_IO_REMAP_HPP
#define SHARD_IO_REMAP_HPP

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/io/impl/remap_file.hpp"
#include "shard/io/matrix_market.hpp"
#include "shard/reduce/reduce.hpp"
#include "shard/view/copy.hpp"

/// \file
/// Regridding by weights from files of ESMF, TempestRemap or SCRIP. Link with shard::solve and
/// shard::io.

namespace shard {

/// A regridding: the matrix, whose rows are the target's cells and whose columns are the source's,
/// and what it conserves. `matrix.apply_adjoint` is its adjoint.
template <class T, class Axis, class Target, class Source>
struct Remap {
  using Matrix = SparseMatrix<T, Axis, Target, Source>;  ///< of the weights
  using Entry  = MatrixEntry<T>;                         ///< one weight
  Matrix matrix;                                         ///< target = matrix source
  /// The sums of area times value are the same on both sides: areas of the target's cells (with
  /// the normalisation fracarea their covered parts).
  typename Matrix::row_vector target_area;
  typename Matrix::column_vector source_area;  ///< the covered parts of the source's cells
  /// What each row adds up to: 1, or the part of the target's cell that is covered.
  typename Matrix::row_vector row_sum;
};

namespace impl {

/// Sets a vector's owned elements to values by id.
template <class Vector>
void set_by_id(const Vector& v, const std::vector<std::int64_t>& ids,
               const std::vector<double>& values) {
  const auto host = Kokkos::create_mirror_view(v.view());
  for (std::size_t i = 0; i < ids.size(); ++i)
    host(i) = static_cast<typename Vector::value_type>(values[static_cast<std::size_t>(ids[i])]);
  Kokkos::deep_copy(v.view(), host);
}

/// |a - b|, and |b|.
template <class Field>
struct DifferenceTerm {
  Field a, b;
  KOKKOS_FUNCTION Kokkos::Array<double, 2> operator()(int i) const {
    return {Kokkos::fabs(static_cast<double>(a(i)) - static_cast<double>(b(i))),
            Kokkos::fabs(static_cast<double>(b(i)))};
  }
};

/// Reads a part of the weights on each rank. Collective over `comm`; throws on every rank.
inline RemapFile read_remap_part(MPI_Comm comm, const std::string& path) {
  int rank = 0, size = 1;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  RemapFile file;
  std::string wrong;
  try {
    file = read_remap_file(path, static_cast<std::size_t>(rank), static_cast<std::size_t>(size));
  } catch (const std::exception& e) {
    wrong = e.what();
  }
  require_no_error(comm, "read_remap", wrong);
  return file;
}

template <class Made, class MeshType>
Made make_remap(const MeshType& mesh, const RemapFile& file,
                const std::vector<std::int64_t>& targets,
                const std::vector<std::int64_t>& sources) {
  std::vector<typename Made::Entry> entries;
  entries.reserve(file.weight.size());
  for (std::size_t k = 0; k < file.weight.size(); ++k)
    entries.push_back(
        {file.row[k], file.column[k], static_cast<decltype(Made::Entry::value)>(file.weight[k])});
  const typename Made::Matrix matrix(mesh, targets, sources, entries);
  const Made made{matrix, matrix.make_row_vector("target_area"),
                  matrix.make_column_vector("source_area"), matrix.make_row_vector("row_sum")};
  set_by_id(made.target_area, targets, file.target_area);
  set_by_id(made.row_sum, targets, file.row_sum);
  set_by_id(made.source_area, sources, file.source_area);
  return made;
}

}  // namespace impl

/// Reads a file of weights: `row`, `col` and `S` of ESMF and TempestRemap, or SCRIP's
/// `dst_address`, `src_address` and `remap_matrix` with one weight for each link. `targets` and
/// `sources` are the cells that this rank owns, by their addresses in the file less 1. Each rank
/// reads a part of the weights, and the areas of all cells. Collective over the mesh. Throws
/// ArgumentError on every rank for a file that can't be read or isn't of this kind, and for a cell
/// that it hasn't.
///
///   auto remap = shard::read_remap<double, Ranks, Ocean, Atmosphere>(mesh, path, mine, theirs);
///   remap.matrix.apply(space, on_ocean, on_atmosphere);
template <class T, class Axis, class Target, class Source, class... MeshAxes>
Remap<T, Axis, Target, Source> read_remap(const Mesh<MeshAxes...>& mesh, const std::string& path,
                                          const std::vector<std::int64_t>& targets,
                                          const std::vector<std::int64_t>& sources) {
  const MPI_Comm comm = mesh.template communicator<Axis>();
  const auto file     = impl::read_remap_part(comm, path);
  const auto outside  = [](const std::vector<std::int64_t>& ids, std::size_t size) {
    return std::any_of(ids.begin(), ids.end(), [&](std::int64_t id) {
      return id < 0 || id >= static_cast<std::int64_t>(size);
    });
  };
  const bool wrong =
      outside(targets, file.target_area.size()) || outside(sources, file.source_area.size());
  impl::require_no_error(comm, "read_remap",
                         wrong
                             ? "a rank owns a cell that '" + path + "' hasn't: there are " +
                                   std::to_string(file.target_area.size()) + " target cells and " +
                                   std::to_string(file.source_area.size()) + " source cells, from 0"
                             : std::string());
  return impl::make_remap<Remap<T, Axis, Target, Source>>(mesh, file, targets, sources);
}
/// The same with the cells of both grids balanced over the axis, in the order of the file.
template <class T, class Axis, class Target, class Source, class... MeshAxes>
Remap<T, Axis, Target, Source> read_remap(const Mesh<MeshAxes...>& mesh, const std::string& path) {
  const MPI_Comm comm = mesh.template communicator<Axis>();
  const auto file     = impl::read_remap_part(comm, path);
  const int ranks = mesh.template size<Axis>(), me = mesh.template coordinate<Axis>();
  const auto mine = [&](std::size_t cells) {
    return impl::balanced_ids(static_cast<index_t>(cells), ranks, me);
  };
  return impl::make_remap<Remap<T, Axis, Target, Source>>(mesh, file, mine(file.target_area.size()),
                                                          mine(file.source_area.size()));
}

/// How far a regridding is from its two properties.
struct RemapErrors {
  /// The largest |A' target_area - source_area|, relative to the largest source_area: 0 to rounding
  /// if the map conserves integrals. Only conservative maps do.
  double conservation = 0.0;
  double consistency  = 0.0;  ///< the largest |A 1 - row_sum|: 0 if a constant stays one
};
/// Checks a regridding. Allocates; collective over the mesh; fences `space`.
template <class Space, class T, class Axis, class Target, class Source>
RemapErrors remap_errors(const Space& space, const Remap<T, Axis, Target, Source>& remap) {
  const auto x = remap.source_area.like("shard::remap");
  const auto y = remap.target_area.like("shard::remap");
  using X      = std::remove_const_t<decltype(x)>;
  using Y      = std::remove_const_t<decltype(y)>;
  remap.matrix.apply_adjoint(space, x, remap.target_area);
  const auto integrals = reduce<Max, Max>(space, x, impl::DifferenceTerm<X>{x, remap.source_area});
  deep_copy(space, x, T(1));
  remap.matrix.apply(space, y, x);
  const auto sums = reduce<Max, Max>(space, y, impl::DifferenceTerm<Y>{y, remap.row_sum});
  return {integrals[1] > 0.0 ? integrals[0] / integrals[1] : integrals[0], sums[0]};
}

}  // namespace shard

#endif
