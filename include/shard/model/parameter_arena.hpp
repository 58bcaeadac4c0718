// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_PARAMETER_ARENA_HPP
#define SHARD_MODEL_PARAMETER_ARENA_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/comm/impl/rank_group.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

/// One array in a ParameterArena.
struct ParameterEntry {
  std::string name;              ///< "<layer>.weight", "<layer>.bias", as in PyTorch's state_dict
  std::vector<index_t> extents;  ///< as in PyTorch
  index_t offset = 0;            ///< in the arena, in values
  bool linear    = false;        ///< see ParameterShape

  /// Number of values.
  index_t count() const {
    index_t n = 1;
    for (index_t e : extents) n *= e;
    return n;
  }
};

/// All parameters of a model, or all gradients, one after the other in one allocation: one sum over
/// ranks, one optimiser kernel, one copy to a file. Layers' Parameters are Views into it. Every
/// rank holds all of them.
template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
class ParameterArena {
 public:
  ParameterArena() = default;
  /// Room for `count` values (the sum of the layers' parameter_count), set to zero. Local.
  ParameterArena(const std::string& label, index_t count)
      : values_(label, static_cast<std::size_t>(count)) {}

  /// The parameters of the next layer. Throws ArgumentError where there is no room left.
  template <class Layer>
  auto take(const std::string& name, const Layer& layer) {
    return wrap_parameters<T, Memory>(layer, take_arrays(name, layer.parameter_shapes()).data());
  }
  /// Arrays of these shapes, one after the other. Throws ArgumentError where there is no room left.
  Kokkos::View<T*, Kokkos::LayoutRight, Memory> take_arrays(
      const std::string& name, const std::vector<ParameterShape>& shapes) {
    const index_t first = used_, room = static_cast<index_t>(values_.extent(0)) - first;
    index_t count = 0;
    for (const ParameterShape& shape : shapes) count += shape.count();
    if (count > room)
      impl::throw_argument("ParameterArena::take",
                           {"layer \"", name, "\" has ", impl::text(count),
                            " parameters, there is room for ", impl::text(room)});
    for (const ParameterShape& shape : shapes) {
      entries_.push_back({name + "." + shape.name, shape.extents, used_, shape.linear});
      used_ += shape.count();
    }
    return Kokkos::subview(values_, std::pair<index_t, index_t>(first, used_));
  }

  /// All values.
  const Kokkos::View<T*, Kokkos::LayoutRight, Memory>& values() const { return values_; }
  /// Names, extents and places of all arrays taken so far.
  const std::vector<ParameterEntry>& entries() const { return entries_; }

 private:
  Kokkos::View<T*, Kokkos::LayoutRight, Memory> values_;
  std::vector<ParameterEntry> entries_;
  index_t used_ = 0;
};

/// Of which channels a rank has parameters, where channels are cut.
enum class GradientsOf : std::uint8_t {
  all_channels,   ///< every rank has all of them
  owned_channels  ///< those of its own channels, see OwnedChannels
};

/// Sums gradients of parameters over the ranks that share a field's cells, many arrays at once:
/// each rank sums a part of the values, in rank order, and all get all parts, so that every rank
/// has the same bits, from run to run. Its memory is made once.
template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
class GradientSum {
 public:
  using View = Kokkos::View<T*, Kokkos::LayoutRight, Memory>;  ///< gradients

  /// Collective over the mesh of `like`: sums of `count` values over the axes that cut it (batch
  /// too); for parameters of the owned channels of `like` not over those that cut its dimension 1.
  template <class Field>
  GradientSum(const Field& like, index_t count, GradientsOf channels = GradientsOf::all_channels)
      : mesh_(like.geometry().mesh),
        group_(impl::RankGroup::of(like.geometry(),
                                   channels == GradientsOf::all_channels ? ~0U : ~2U)),
        scratch_("shard::gradient sum", static_cast<std::size_t>(group_->scratch_size(count))) {
    if constexpr (!on_host)
      host_ = Kokkos::View<T*, impl::StagingMemory<Memory>>("shard::gradients",
                                                            static_cast<std::size_t>(count));
  }

  /// The sum in place. Collective over the same ranks; waits for `space`.
  template <class Space>
  void operator()(const Space& space, const View& gradients) const {
    const auto count = static_cast<index_t>(gradients.extent(0));
    if (static_cast<std::size_t>(group_->scratch_size(count)) > scratch_.extent(0))
      impl::throw_argument("GradientSum",
                           {"made for fewer than the ", impl::text(count), " values given"});
    if (group_->size() == 1) return;
    if constexpr (on_host) {
      space.fence("shard::GradientSum: gradients for the collective");
      group_->sum(gradients.data(), count, scratch_.data());
    } else {
      Kokkos::deep_copy(space, host_, gradients);
      space.fence("shard::GradientSum: gradients for the collective");
      group_->sum(host_.data(), count, scratch_.data());
      Kokkos::deep_copy(space, gradients, host_);
    }
  }

 private:
  static constexpr bool on_host = std::is_same_v<Memory, Kokkos::HostSpace>;
  std::shared_ptr<impl::MeshState> mesh_;  // whose communicator the group may use
  std::shared_ptr<impl::RankGroup> group_;
  Kokkos::View<T*, Kokkos::HostSpace> scratch_;
  Kokkos::View<T*, impl::StagingMemory<Memory>> host_;
};

}  // namespace shard

#endif
