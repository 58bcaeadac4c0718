// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_WEIGHTED_GATHER_HPP
#define SHARD_SOLVE_WEIGHTED_GATHER_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/base/wanted.hpp"
#include "shard/solve/sparse_gather.hpp"
#include "shard/solve/vector.hpp"

namespace shard {

/// A SparseGather whose coefficients are an input too: y_i = sum_j w_ij x_j, an operation of x and
/// w for tapes, such as a layer of a graph network with learnt or computed weights. w is a View of
/// this rank's coefficients, in the order of product().matrix().entries().
///
/// Applying it writes w into the product's matrices. The transpose's rows are on other ranks, so
/// each call sends coefficients, one message for each neighbour. Bits as a SparseGather's.
///
/// \code
/// shard::WeightedGather near(mesh, shard::SparseGather<double, Ranks, Node>(mesh, ids,
/// entries)); auto y = tape.run(near, x, w); \endcode
template <class T, class Axis, class Row, class Column = Row,
          class Memory = Kokkos::DefaultExecutionSpace::memory_space>
class WeightedGather {
  static_assert(std::is_floating_point_v<T>, "a WeightedGather is of float or double");
  struct Entry;  // the coefficients are elements of an index space
  using Links = ShardedView<T*, Kokkos::LayoutRight, ShardDim<0, Axis, Indices<Entry>>, Memory>;

 public:
  using Product = SparseGather<T, Axis, Row, Column, Memory>;  ///< with coefficients of its own
  using Weights = Kokkos::View<T*, Memory>;                    ///< a rank's coefficients

  /// Over the pattern of a product, whose matrices it shares. Collective over the mesh.
  template <class... MeshAxes>
  WeightedGather(const Mesh<MeshAxes...>& mesh, const Product& product)
      : product_(product), links_(links_of(mesh, product)) {}

  /// The product with the coefficients of the last call.
  const Product& product() const { return product_; }
  /// A new y for this x. Local.
  template <AnyShardedView X>
  auto output(const X& x, const Weights&) const {
    return product_.output(x);
  }

  /// y = A(w) x. Collective over the mesh: each call compares the length of w, in one reduction of
  /// a number. Throws ArgumentError on every rank for a field of other owned ids, and for a View of
  /// another length on any rank.
  template <class Space, AnyShardedView Y, AnyShardedView X>
  void apply(const Space& space, const Y& y, const X& x, const Weights& w) const {
    require(w);
    Kokkos::deep_copy(space, product_.matrix().values(), w);
    product_.apply(space, y, x);
  }
  /// ty = A(w) tx + A(tw) x.
  template <class Space, AnyShardedView TY, class TX, class TW, AnyShardedView X>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const TW& tw, const X& x,
                   const Weights& w) const {
    if constexpr (is_wanted_v<TX>) apply(space, ty, tx, w);
    if constexpr (is_wanted_v<TW>) {
      if constexpr (is_wanted_v<TX>) {
        const auto more = ty.like("tangent");
        apply(space, more, x, tw);
        axpby(space, ty, 1.0, more, 1.0);
      } else {
        apply(space, ty, x, tw);
      }
    }
  }
  /// dx = A(w)' dy, dw_ij = dy_i x_j summed over levels.
  template <class Space, class DX, class DW, AnyShardedView DY, AnyShardedView X>
  void pullback(const Space& space, const DX& dx, const DW& dw, const DY& dy, const X& x,
                const Weights& w) const {
    require(w);
    if constexpr (is_wanted_v<DX>) {
      set_transpose(space, w);
      product_.pullback(space, dx, dy);
    }
    if constexpr (is_wanted_v<DW>) {
      Kokkos::deep_copy(space, dw, T(0));
      product_.add_coefficient_gradient(space, dw, dy, x);
    }
  }

 private:
  /// Collective over the mesh: the coefficients of the matrix, and behind them, as a halo, those of
  /// the transpose in the order of its values.
  template <class... MeshAxes>
  static Links links_of(const Mesh<MeshAxes...>& mesh, const Product& product) {
    const MPI_Comm comm = mesh.template communicator<Axis>();
    const auto entries  = product.matrix().entries();
    const auto count    = static_cast<std::int64_t>(entries.size());
    std::int64_t number = 0;  // of this rank's first coefficient
    impl::await_mpi("MPI_Scan", MPI_Scan, &count, &number, 1, MPI_INT64_T, MPI_SUM, comm);
    number -= count;
    // the transpose of a matrix whose values are the coefficients' numbers
    std::vector<MatrixEntry<double>> numbered;
    std::vector<std::int64_t> ids;
    for (const auto& e : entries) {
      numbered.push_back({e.column, e.row, static_cast<double>(number)});
      ids.push_back(number++);
    }
    const auto transposed =
        impl::assemble(comm, impl::owned_ids_of(product.transpose().rows()),
                       impl::owned_ids_of(product.transpose().columns()), numbered);
    for (const double id : transposed.value) ids.push_back(static_cast<std::int64_t>(id));
    const IndexSpace<Entry, Axis> space(mesh, by_global_ids(std::move(ids), count));
    return Links("coefficients", mesh, {space.partition()});
  }
  void require(const Weights& w) const {
    const std::size_t entries = product_.matrix().values().extent(0);
    const std::string wrong   = w.extent(0) == entries
                                    ? std::string()
                                    : impl::text(static_cast<index_t>(w.extent(0))) +
                                        " coefficients are given, and this rank's rows have " +
                                        impl::text(static_cast<index_t>(entries)) +
                                        " entries; give one for each of matrix().entries()";
    impl::require_no_error(product_.matrix().mesh_communicator(), "WeightedGather", wrong);
  }
  template <class Space>
  void set_transpose(const Space& space, const Weights& w) const {
    const auto& values    = product_.transpose().values();
    const std::size_t own = w.extent(0);
    Kokkos::deep_copy(space, links_.owned(), w);
    exchange(space, links_);
    Kokkos::deep_copy(space, values,
                      Kokkos::subview(links_.view(), std::pair(own, own + values.extent(0))));
  }

  Product product_;
  Links links_;
};

/// Of the product's types.
template <class T, class Axis, class Row, class Column, class Memory, class... MeshAxes>
WeightedGather(const Mesh<MeshAxes...>&, const SparseGather<T, Axis, Row, Column, Memory>&)
    -> WeightedGather<T, Axis, Row, Column, Memory>;

}  // namespace shard

#endif
