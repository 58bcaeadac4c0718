// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TRAIN_GRADIENT_NORM_HPP
#define SHARD_TRAIN_GRADIENT_NORM_HPP

#include <mpi.h>

#include <Kokkos_Core.hpp>

#include <cmath>
#include <cstddef>

#include "shard/base/impl/same_options.hpp"
#include "shard/model/optimiser_kernels.hpp"

namespace shard {

namespace impl {

/// The sum of all ranks' values, in rank order. Collective over `comm`.
double sum_in_rank_order(MPI_Comm comm, double mine);
/// Whether `flag` holds on every rank. Collective over `comm`.
bool holds_everywhere(MPI_Comm comm, bool flag);

}  // namespace impl

/// The 2-norm of all gradients of a model together, and clipping by it. Squares are summed in
/// double, in an order that depends only on the number of values. So the result is bitwise the same
/// on every rank, from run to run and for any number of threads. The constructor allocates all
/// memory.
template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
class GradientNorm {
 public:
  using View = Kokkos::View<T*, Kokkos::LayoutRight, Memory>;  ///< gradients

  /// For `replicated` gradients (already summed over the ranks), followed by `sharded` ones, of
  /// which each rank of `comm` (`mesh.communicator<Axis>()`) has its own. Sharded ones are summed
  /// over the ranks of `comm`, replicated ones counted once. Collective over `comm`. Throws
  /// ArgumentError for an intercommunicator, AgreementError if the ranks give other numbers of
  /// replicated ones.
  explicit GradientNorm(index_t replicated, index_t sharded = 0, MPI_Comm comm = MPI_COMM_NULL)
      : replicated_(replicated),
        sharded_(sharded),
        comm_(comm == MPI_COMM_NULL ? comm : impl::require_communicator(comm, "GradientNorm")),
        sums_("shard::gradient squares",
              static_cast<std::size_t>(impl::sum_blocks(replicated) + impl::sum_blocks(sharded))),
        sums_host_(Kokkos::create_mirror_view(sums_)) {
    if (comm_ != MPI_COMM_NULL)
      impl::require_same_options(comm_, "GradientNorm", {{"replicated gradients", replicated}});
  }

  /// The norm. Fences `space`; collective over the communicator if one was given. Throws
  /// ArgumentError for another number of values.
  template <class Space>
  double operator()(const Space& space, const View& gradients) const {
    if (static_cast<index_t>(gradients.extent(0)) != replicated_ + sharded_)
      impl::throw_argument("GradientNorm",
                           {"made for ", impl::text(replicated_ + sharded_), " gradients, given ",
                            impl::text(static_cast<index_t>(gradients.extent(0)))});
    using Kernels        = impl::OptimiserKernels<Space, T>;
    const index_t blocks = impl::sum_blocks(replicated_);
    Kernels::squares(space, sums_.data(), gradients.data(), replicated_);
    Kernels::squares(space, sums_.data() + blocks, gradients.data() + replicated_, sharded_);
    Kokkos::deep_copy(space, sums_host_, sums_);
    space.fence("shard::GradientNorm: squares are summed on the host");
    double whole = sum(0, blocks), parts = sum(blocks, static_cast<index_t>(sums_.extent(0)));
    if (comm_ != MPI_COMM_NULL) parts = impl::sum_in_rank_order(comm_, parts);
    return std::sqrt(whole + parts);
  }

  /// Multiplies the gradients by largest / (norm + 1e-6) if that is less than 1, as PyTorch's
  /// clip_grad_norm_. Gradients with a norm that isn't finite are unchanged. Returns the norm
  /// before clipping.
  template <class Space>
  double clip(const Space& space, const View& gradients, double largest) const {
    const double norm = (*this)(space, gradients), factor = largest / (norm + 1e-6);
    if (std::isfinite(norm) && factor < 1.0)
      impl::OptimiserKernels<Space, T>::scale(space, gradients.data(), replicated_ + sharded_,
                                              factor);
    return norm;
  }

 private:
  double sum(index_t first, index_t last) const {
    double s = 0.0;
    for (index_t b = first; b < last; ++b) s += sums_host_(static_cast<std::size_t>(b));
    return s;
  }

  index_t replicated_, sharded_;
  MPI_Comm comm_;
  Kokkos::View<double*, Memory> sums_;
  typename Kokkos::View<double*, Memory>::host_mirror_type sums_host_;
};

}  // namespace shard

#endif
