// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_AUTODIFF_COUPLE_HPP
#define SHARD_AUTODIFF_COUPLE_HPP

#include <mpi.h>

#include <Kokkos_Core.hpp>

#include <memory>

#include "shard/autodiff/operation.hpp"
#include "shard/redistribute/coupling.hpp"

namespace shard {

/// A Coupling as an operation: y on the mesh of its `To` field is x on that of its `From` field.
/// Gradients cross to the other ranks, so all ranks of both sides run it on their tapes. For the
/// side that a rank isn't on it has a field without points:
///
/// \code
/// Air nothing("nothing", shard::Mesh<Lat, Lon>(MPI_COMM_SELF, {1, 1}), {0, 0});
/// shard::Couple<Sea, Air> couple(comm, is_sea ? sst : no_sst, is_air ? wind : nothing);
/// auto y = tape.run(couple, is_air ? wind : nothing);
/// \endcode
///
/// Copies share a pair of fields, through which the values go.
template <AnyShardedView To, AnyShardedView From>
class Couple {
  static_assert(
      To::partial_axes::count == 0 && From::partial_axes::count == 0,
      "a Couple is between fields of values; redistribute a Partial on its own mesh first");

 public:
  /// Collective over `comm`; y and x are like these fields. If `from` is replicated, x counts once:
  /// every replica of dx gets the whole sum. Throws as Coupling.
  Couple(MPI_Comm comm, const To& to, const From& from, const CouplingOptions& options = {})
      : ends_(std::make_shared<Ends>(Ends{to.like(to.label()), from.like(from.label()), {}})) {
    CouplingOptions used = options;
    used.sums_replicas   = true;
    ends_->coupling      = Coupling<To, From>(comm, is_to() ? &ends_->to : nullptr,
                                         is_from() ? &ends_->from : nullptr, used);
  }

  /// A new y. Local.
  To output(const From&) const { return ends_->to.like(ends_->to.label()); }
  /// y = x. Waits for the ranks that it shares points with.
  template <class Space, AnyShardedView Y, AnyShardedView X>
  void apply(const Space& space, const Y& y, const X& x) const {
    if (is_from()) Kokkos::deep_copy(space, ends_->from.owned(), x.owned());
    ends_->coupling(space);
    if (is_to()) Kokkos::deep_copy(space, y.owned(), ends_->to.owned());
  }
  /// ty = tx
  template <class Space, AnyShardedView TY, AnyShardedView TX>
  void pushforward(const Space& space, const TY& ty, const TX& tx) const {
    apply(space, ty, tx);
  }
  /// dx = the sum of dy over the points that are copies of x.
  template <class Space, AnyShardedView DX, AnyShardedView DY>
  void pullback(const Space& space, const DX& dx, const DY& dy) const {
    if (is_to()) Kokkos::deep_copy(space, ends_->to.owned(), dy.owned());
    impl::zero_owned(space, ends_->from);
    ends_->coupling.adjoint(space);
    if (is_from()) Kokkos::deep_copy(space, dx.owned(), ends_->from.owned());
  }

 private:
  struct Ends {
    To to;
    From from;
    Coupling<To, From> coupling;
  };
  template <class Field>
  static bool has_points(const Field& field) {
    index_t points = 1;
    for (int d = 0; d < Field::rank; ++d) points *= field.global_extent(d);
    return points > 0;
  }
  bool is_to() const { return has_points(ends_->to); }
  bool is_from() const { return has_points(ends_->from); }

  std::shared_ptr<Ends> ends_;
};

}  // namespace shard

#endif
