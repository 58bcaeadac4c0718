// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "field_multigrid.hpp"

#include <mpi.h>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "../exchange/for_each_space.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/solve/galerkin_multigrid.hpp"
#include "shard/solve/sparse_matrix.hpp"

namespace shard::c {

struct Owners;    // the ranks that share the elements
struct Unknowns;  // the elements, in row-major order of all ranks'

/// Elements of a Vector to or from those of a matrix' vector.
template <class V>
struct UnknownsKernel {
  V vector;
  double* unknowns;
  bool loads;
  KOKKOS_FUNCTION void operator()(int i, int j, int k) const {
    double& u = unknowns[(i * vector.extent(1) + j) * vector.extent(2) + k];
    if (loads)
      vector(i, j, k) = u;
    else
      u = vector(i, j, k);
  }
};
/// Each element's number + 1.
template <class V>
struct NumberKernel {
  V vector;
  Kokkos::Array<index_t, 3> begin, extent;
  KOKKOS_FUNCTION void operator()(int i, int j, int k) const {
    vector(i, j, k) = static_cast<double>(((begin[0] + i) * extent[1] + begin[1] + j) * extent[2] +
                                          begin[2] + k + 1);
  }
};

using Box3 = Kokkos::Array<index_t, 3>;

/// A level's elements: all, and this rank's.
struct LevelBox {
  Box3 extent{1, 1, 1}, begin{}, end{1, 1, 1};

  explicit LevelBox(const impl::Geometry& geometry) {
    for (int d = 0; d < geometry.rank; ++d) {
      const auto at = impl::Geometry::at(rank_of_solver - geometry.rank + d);
      extent[at]    = geometry.global(d);
      begin[at]     = geometry.begin(d);
      end[at]       = geometry.begin(d) + geometry.owned(d);
    }
  }
  std::int64_t number(index_t i, index_t j, index_t k) const {
    return (i * extent[1] + j) * extent[2] + k;
  }
  index_t count() const { return extent[0] * extent[1] * extent[2]; }
  /// Those of this rank's, in order.
  std::vector<std::int64_t> numbers() const {
    std::vector<std::int64_t> list;
    for (index_t i = begin[0]; i < end[0]; ++i)
      for (index_t j = begin[1]; j < end[1]; ++j)
        for (index_t k = begin[2]; k < end[2]; ++k) list.push_back(number(i, j, k));
    return list;
  }
};

namespace {

using Weights = std::vector<std::pair<index_t, double>>;

/// The coarse elements that element i of a row is interpolated from. Coarse element c covers 2c and
/// 2c + 1.
Weights weights(index_t i, index_t n, bool is_coarsened, bool is_periodic) {
  if (!is_coarsened) return {{i, 1.0}};
  const index_t coarse = (n + 1) / 2, own = i / 2;
  index_t beside = i % 2 == 1 ? own + 1 : own - 1;
  if (is_periodic) beside = (beside + coarse) % coarse;
  // beyond the domain the element itself, so that constants are interpolated as they are
  if (beside < 0 || beside >= coarse || beside == own) return {{own, 1.0}};
  return {{own, 0.75}, {beside, 0.25}};
}

/// The next level, and the interpolation from it.
std::pair<LevelBox, CoarseLevel<double>> coarsen(const LevelBox& fine,
                                                 const std::array<bool, 3>& coarsened,
                                                 const std::array<bool, 3>& periodic) {
  LevelBox next = fine;
  for (std::size_t d = 0; d < 3; ++d) {
    if (!coarsened[d]) continue;
    // a rank has the coarse elements whose first fine one it has
    next.extent[d] = (fine.extent[d] + 1) / 2;
    next.begin[d]  = (fine.begin[d] + 1) / 2;
    next.end[d]    = (fine.end[d] + 1) / 2;
  }
  std::vector<MatrixEntry<double>> entries;
  for (index_t i = fine.begin[0]; i < fine.end[0]; ++i)
    for (index_t j = fine.begin[1]; j < fine.end[1]; ++j)
      for (index_t k = fine.begin[2]; k < fine.end[2]; ++k)
        for (const auto& [a, u] : weights(i, fine.extent[0], coarsened[0], periodic[0]))
          for (const auto& [b, v] : weights(j, fine.extent[1], coarsened[1], periodic[1]))
            for (const auto& [c, w] : weights(k, fine.extent[2], coarsened[2], periodic[2]))
              entries.push_back({fine.number(i, j, k), next.number(a, b, c), u * v * w});
  return {next, CoarseLevel<double>(next.numbers(), std::move(entries))};
}

/// The ranks that share the elements of a field: not its replicas.
MPI_Comm owners_of(const impl::Geometry& geometry) {
  unsigned cut = 0;
  for (int d = 0; d < geometry.rank; ++d) {
    const auto& dim = geometry.dims[impl::Geometry::at(d)];
    for (int a = 0; a < dim.axis_count; ++a) cut |= 1U << dim.axes[static_cast<std::size_t>(a)];
  }
  int replica = 0;
  for (int axis = 0; axis < geometry.mesh->axes(); ++axis)
    if ((cut >> axis & 1U) == 0)
      replica = replica * geometry.mesh->extent(axis) + geometry.mesh->coordinate(axis);
  MPI_Comm owners = MPI_COMM_NULL;
  impl::await_mpi("MPI_Comm_split", MPI_Comm_split, geometry.mesh->comm(), replica,
                  geometry.mesh->rank(), &owners);
  return owners;
}

}  // namespace

template <class Memory>
struct FieldMultigrid<Memory>::Levels {
  using V      = Vector<Memory>;
  using Matrix = SparseMatrix<double, Owners, Unknowns, Unknowns, Memory>;

  Levels(const FieldOperator<Memory>& a, int smoothing, MPI_Comm owners)
      : mesh(owners, {0}),
        box(a.like().geometry),
        matrix(mesh, box.numbers(), entries(a)),
        cycle(mesh, matrix, coarse_levels(a.like(), owners),
              {.cycle = MultigridCycle::v, .smoothing = smoothing}),
        z(matrix.make_column_vector("z")),
        r(matrix.make_column_vector("r")) {}

  Mesh<Owners> mesh;
  LevelBox box;
  std::array<double, 3> strength{};  // the largest coupling along each dimension
  Matrix matrix;
  GalerkinMultigrid<Matrix> cycle;
  typename Matrix::column_vector z, r;

 private:
  /// This rank's entries of the operator. Sets `strength`.
  std::vector<MatrixEntry<double>> entries(const FieldOperator<Memory>& a) {
    const auto space          = space_of<Memory>();
    const shard_field_s& like = a.like();
    const auto& stencil       = a.stencil();
    const std::size_t points  = stencil.offsets.size();
    const V x                 = vector_like<Memory>(like);
    // the boundaries, filled with the elements' numbers, tell which element is read there, and with
    // which sign; 0: none
    impl::write_points("shard::numbers", space, x, NumberKernel<V>{x, box.begin, box.extent});
    const std::vector<double> read          = a.around(space, x);
    const std::vector<std::int64_t> numbers = box.numbers();
    std::vector<Kokkos::Array<double, 3>> sums(numbers.size());
    std::vector<MatrixEntry<double>> list;
    for (std::size_t p = 0; p < points; ++p) {
      const shard_field_s& c = *stencil.coefficients[p];
      impl::write_points("shard::field_to_vector", space, x,
                         LoadVectorKernel<V>{x, values_of(c), strides_of(c)});
      space.fence("shard_solver: coefficients");
      const auto values = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), x.view());
      int along = -1, dimensions = 0;
      for (int d = 0; d < like.geometry.rank; ++d)
        if (stencil.offsets[p][impl::Geometry::at(d)] != 0) {
          along = rank_of_solver - like.geometry.rank + d;
          ++dimensions;
        }
      for (std::size_t n = 0; n < numbers.size(); ++n) {
        const double from = read[n * points + p];
        if (from == 0.0) continue;
        const double value = values.data()[n];
        list.push_back({numbers[n], static_cast<std::int64_t>(std::abs(from)) - 1,
                        from < 0.0 ? -value : value});
        if (dimensions == 1) sums[n][static_cast<std::size_t>(along)] += std::abs(value);
      }
    }
    for (const auto& of : sums)
      for (std::size_t d = 0; d < 3; ++d) strength[d] = std::max(strength[d], of[d]);
    return list;
  }

  std::vector<CoarseLevel<double>> coarse_levels(const shard_field_s& like, MPI_Comm owners) {
    constexpr index_t most = 256;  // unknowns of the last level, which a dense inverse solves
    impl::await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE,
                    static_cast<void*>(strength.data()), 3, MPI_DOUBLE, MPI_MAX, owners);
    std::array<bool, 3> periodic{}, coarsened{};
    const int first = rank_of_solver - like.geometry.rank;
    for (int d = 0; d < like.geometry.rank; ++d)
      periodic[impl::Geometry::at(first + d)] =
          like.types[impl::Geometry::at(d)].low.kind == BoundaryKind::periodic;
    std::vector<CoarseLevel<double>> levels;
    LevelBox level = box;
    do {
      double strongest = 0.0;
      for (std::size_t d = 0; d < 3; ++d)
        if (level.extent[d] > 1) strongest = std::max(strongest, strength[d]);
      for (std::size_t d = 0; d < 3; ++d) {
        coarsened[d] = level.extent[d] > 1 && strength[d] >= 0.3 * strongest;
        if (coarsened[d]) strength[d] *= 0.25;  // elements twice as far apart
      }
      auto [next, made] = coarsen(level, coarsened, periodic);
      levels.push_back(std::move(made));
      level = next;
    } while (level.count() > most);
    return levels;
  }
};

template <class Memory>
FieldMultigrid<Memory>::FieldMultigrid(const FieldOperator<Memory>& a, int smoothing) {
  MPI_Comm owners = owners_of(a.like().geometry);
  try {
    levels_ = std::make_shared<Levels>(a, smoothing, owners);
  } catch (...) {
    MPI_Comm_free(&owners);
    throw;
  }
  MPI_Comm_free(&owners);
}

template <class Memory>
void FieldMultigrid<Memory>::run(const Vector<Memory>& z, const Vector<Memory>& r) const {
  using V          = Vector<Memory>;
  const auto space = space_of<Memory>();
  const Levels& l  = *levels_;
  parallel_for("shard::vector_to_unknowns", space, owned_region(r),
               UnknownsKernel<V>{r, l.r.origin(), false});
  mark_written(space, l.r);
  l.cycle.apply(space, l.z, l.r);
  impl::write_points("shard::unknowns_to_vector", space, z,
                     UnknownsKernel<V>{z, l.z.origin(), true});
}

#define SHARD_CLASS(Memory) template class FieldMultigrid<Memory>;
SHARD_FOR_EACH_MEMORY(SHARD_CLASS)
#undef SHARD_CLASS

}  // namespace shard::c
