// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_ENSEMBLE_FIELDS_HPP
#define SHARD_LAYERS_IMPL_ENSEMBLE_FIELDS_HPP

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <vector>

#include "shard/base/impl/same_options.hpp"
#include "shard/layers/impl/ensemble_kernels.hpp"
#include "shard/layers/impl/error_sums.hpp"
#include "shard/redistribute/redistribute.hpp"

namespace shard::impl {

/// The type of a field of members, or of the target, with channels sharded over `Axis` in place of
/// the batch, without halos.
template <class Field, class Axis>
struct ChannelsOver;
template <class T, class Layout, class... Options, class Axis>
struct ChannelsOver<ShardedView<T, Layout, Options...>, Axis> {
  template <class Option>
  struct Without {
    using type = Option;
  };
  template <class... O>
  struct Without<ShardDim<0, Axis, O...>> {
    using type = ShardDim<1, Axis>;
  };
  template <class Field, bool IsCut>
  struct With {
    using type = Field;
  };
  template <class U, class L, class... O>
  struct With<ShardedView<U, L, O...>, false> {
    using type = ShardedView<U, L, ShardDim<1, Axis>, O...>;
  };
  using moved =
      ShardedView<typename ShardedView<T, Layout, Options...>::view_type::non_const_data_type,
                  Layout, typename Without<Options>::type...>;
  using type = OwnedOnlyOf<typename With<moved, is_cut_v<moved, 1>>::type>;
};

/// The fields of an ensemble's score: members and target, with all members of a sample on one rank.
template <class Y, class Target>
class EnsembleFields : protected WeightedSums<typename Y::memory_space> {
  static_assert(is_cut_v<Y, 0> || !is_cut_v<Target, 0>,
                "the batch of the target is sharded as that of the members, or not at all");

 protected:
  static constexpr bool moves = is_cut_v<Y, 0> && !is_cut_v<Target, 0>;
  static_assert(!moves || !(is_cut_v<Y, 1> || is_cut_v<Target, 1>),
                "channels can't be sharded where members are sharded over a mesh axis");
  template <class Field>
  using Work = typename std::conditional_t<moves, ChannelsOver<Field, typename Y::template axis<0>>,
                                           std::type_identity<Field>>::type;
  using Sums = WeightedSums<typename Y::memory_space>;

  EnsembleFields(std::string_view name, const Y& y, const Target& target,
                 const std::vector<double>& row_weights, double alpha)
      : EnsembleFields(name, y, target, make<Target>(target), row_weights, alpha) {}

  /// Memory for a field with all of its members; nothing where they don't move.
  template <class Field>
  static Work<Field> make(const Field& field) {
    if constexpr (moves)
      return placed_anew<Work<Field>>(field.any_geometry(), {});
    else
      return field;
  }
  /// A field with all of its members.
  template <class Space, class Field>
  const Work<Field>& together(const Space& space, const Field& field, const Work<Field>& to) const {
    require_like(field);
    if constexpr (moves) {
      redistribute(space, to, field);
      return to;
    } else {
      return field;
    }
  }
  /// Calls derive(dx) for a field with all members, which become those of dy.
  template <class Space, class DY, class Derive>
  void apart(const Space& space, const DY& dy, const Derive& derive) const {
    require_like(dy);
    if constexpr (moves) {
      derive(dx_);
      redistribute(space, dy, dx_);
    } else {
      derive(dy);
    }
  }

  EnsembleScore score_;
  Work<Y> x_, dx_;
  Work<Target> t_;

 private:
  EnsembleFields(std::string_view name, const Y& y, const Target& target, const Work<Target>& work,
                 const std::vector<double>& row_weights, double alpha)
      : Sums(name, work, row_weights, 1, alpha),
        partitions_(y.partitions()),
        target_partitions_(target.partitions()) {
    static_assert(Y::rank == Target::rank, "a loss's fields have the same rank");
    const index_t samples = target.global_extent(0);
    if (samples < 1 || y.global_extent(0) % samples != 0)
      throw_argument(name, {text(y.global_extent(0)), " members of ", text(samples),
                            " samples; each has the same number"});
    for (int d = 1; d < Y::rank; ++d)
      require_same_partition(name, target.label(), d, target.partition(d), y.partition(d));
    const index_t members = y.global_extent(0) / samples;
    score_                = EnsembleScore::of(name, members, alpha);
    if constexpr (moves) {
      t_  = work;
      x_  = make<Y>(y);
      dx_ = make<Y>(y);
    } else {
      require_whole_groups(name, y.label(), y.partition(0), members);
      require_same_partition(name, target.label(), 0, target.partition(0),
                             regrouped(y.partition(0), members, 1));
    }
  }
  template <class Field>
  void require_like(const Field& field) const {
    const auto& partitions =
        field.global_extent(0) == partitions_[0].size() ? partitions_ : target_partitions_;
    for (int d = 0; d < Y::rank; ++d)
      require_same_partition(this->name_, field.label(), d, field.partition(d),
                             partitions[static_cast<std::size_t>(d)]);
  }

  std::array<Partition, static_cast<std::size_t>(Y::rank)> partitions_, target_partitions_;
};

}  // namespace shard::impl

#endif
