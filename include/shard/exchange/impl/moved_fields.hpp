// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_IMPL_MOVED_FIELDS_HPP
#define SHARD_EXCHANGE_IMPL_MOVED_FIELDS_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <vector>

#include "shard/exchange/exchange.hpp"
#include "shard/exchange/impl/shared_points.hpp"
#include "shard/exchange/overlapped.hpp"

namespace shard::impl {

/// Pairs of fields of one rank between which values move together, with one message for each peer:
/// `to` is `from` in other partitions, or under other indices (see Reindexing). The transpose adds
/// `to` to `from`. Owned points only.
template <class Memory>
class MovedFields {
 public:
  /// `function` for error messages.
  explicit MovedFields(const char* function) : function_(function) {}

  /// Adds a pair; `dims`: a Reindexing for each dimension. Throws ArgumentError if the fields have
  /// memory in common.
  template <class To, class From>
  void add(const To& to, const From& from, const Reindexing* dims) {
    static_assert(To::rank == From::rank && cut_alike_v<To, From>,
                  "the fields are sharded over the same mesh axes; redistribute one of them first");
    to_.push_back(field_args(to));
    from_.push_back(field_args(from));
    writes_.push_back(AddressOf()(to));
    reads_.push_back(AddressOf()(from));
    geometries_.push_back(&from.geometry());
    dims_.insert(dims_.end(), dims, dims + To::rank);
    if (share_points(to_.back(), writes_.back(), from_.back(), reads_.back()))
      throw_shared(function_, to.geometry(), from.geometry());
  }

  /// Begins the move. The fields must live until it is finished. Collective where the plan has to
  /// be made.
  template <class Space>
  Pending<Space> start(const Space& space, Direction direction) {
    const auto count = static_cast<int>(to_.size());
    auto plan =
        FieldPlan<Memory>::find_move(function_, to_.data(), from_.data(), count, dims_.data());
    const auto started =
        plan->start(space, {reads_.data(), writes_.data(), geometries_.data()}, direction);
    return Pending<Space>(plan, space, started);
  }
  /// Both halves at once. Does nothing if there are no fields.
  template <class Space>
  void run(const Space& space, Direction direction) {
    if (!to_.empty()) start(space, direction).finish();
  }

 private:
  const char* function_;
  std::vector<FieldArgs> to_, from_;
  std::vector<void*> writes_, reads_;
  std::vector<const Geometry*> geometries_;
  std::vector<Reindexing> dims_;
};

}  // namespace shard::impl

#endif
