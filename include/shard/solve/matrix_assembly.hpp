// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_MATRIX_ASSEMBLY_HPP
#define SHARD_SOLVE_MATRIX_ASSEMBLY_HPP

#include <Kokkos_Core.hpp>

#include <vector>

#include "shard/solve/sparse_matrix.hpp"

namespace shard {

namespace impl {

/// value = the sum of what is given to an entry, 0 without any.
template <class T>
struct SumGivenKernel {
  const index_t* begin;
  const index_t* source;
  const T* given;
  T* value;

  KOKKOS_FUNCTION void operator()(index_t e) const {
    T sum = begin[e] < begin[e + 1] ? given[source[begin[e]]] : T(0);
    for (index_t s = begin[e] + 1; s < begin[e + 1]; ++s) sum += given[source[s]];
    value[e] = sum;
  }
};

}  // namespace impl

/// Values of a matrix from lists of entries of any rank's rows, again and again: the pattern once,
/// the values many times. Entries of one place are added in the order of ranks, then of their
/// lists, as by the matrix' constructor. Copies share the memory.
///
/// \code
/// shard::SparseMatrix<double, Ranks, Node> a(mesh, own_ids, entries);
/// const shard::MatrixAssembly assembly(mesh, a, entries);
/// Kokkos::deep_copy(assembly.given(), element_values);  // in the order of `entries`
/// assembly.set_values(space);                           // a.values()
/// \endcode
template <class T, class Axis, class Row, class Column, class Memory>
class MatrixAssembly {
  using Matrix = SparseMatrix<T, Axis, Row, Column, Memory>;
  using Field  = impl::EntryField<T, Axis, Memory>;

 public:
  /// For this matrix, and the places of `entries`, whose values aren't read; its other entries get
  /// 0. `mesh` is the matrix'. Collective over the mesh. Throws ArgumentError on every rank, with
  /// row and column, for an entry that the matrix hasn't.
  template <class... MeshAxes>
  MatrixAssembly(const Mesh<MeshAxes...>& mesh, const Matrix& a,
                 const std::vector<MatrixEntry<T>>& entries)
      : MatrixAssembly(mesh, a, static_cast<index_t>(entries.size()),
                       impl::assembly_sources(mesh.template communicator<Axis>(),
                                              impl::owned_ids_of(a.rows()), a.entries(), entries)) {
  }
  /// The values of this rank's list, in its order, to be written.
  auto given() const { return given_.owned(); }
  /// Sets the matrix' values from all ranks' given(): one exchange among neighbours and one kernel,
  /// no allocation. Collective.
  template <class Space>
  void set_values(const Space& space) const {
    exchange(space, given_);
    impl::launch("shard::sparse_assembly", space, static_cast<index_t>(a_.values().extent(0)),
                 impl::SumGivenKernel<T>{begin_.data(), source_.data(), given_.origin(),
                                         a_.values().data()});
  }

 private:
  template <class MeshType>
  MatrixAssembly(const MeshType& mesh, const Matrix& a, index_t count,
                 const impl::AssemblySources& sources)
      : a_(a),
        given_("shard::given", mesh,
               {IndexSpace<impl::EntryIndices, Axis>(
                   mesh, by_owner(sources.owner, sources.place, count))}),
        begin_(impl::array_of<Memory>("sources", sources.begin)),
        source_(impl::array_of<Memory>("sources", sources.source)) {}

  Matrix a_;
  Field given_;
  Kokkos::View<index_t*, Memory> begin_, source_;
};

}  // namespace shard

#endif
