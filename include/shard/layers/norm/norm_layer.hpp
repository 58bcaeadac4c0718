// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_NORM_NORM_LAYER_HPP
#define SHARD_LAYERS_NORM_NORM_LAYER_HPP

#include <Kokkos_Core.hpp>

#include <memory>
#include <string_view>
#include <vector>

#include "shard/base/wanted.hpp"
#include "shard/base/impl/host_space.hpp"
#include "shard/base/impl/same_options.hpp"
#include "shard/comm/impl/device_gather.hpp"
#include "shard/comm/impl/rank_group.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/layers/impl/layer_checks.hpp"
#include "shard/layers/impl/norm_kernels.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"
#include "shard/view/sharded_view.hpp"

/// \file
/// Common code of the norms whose statistics are sums over points: one collective forward (weight,
/// mean and squares, merged in rank order), one backward, one for a tangent (two sums).

namespace shard::impl {

/// The parameters of a norm, for the functions below.
struct NormOptions {
  std::string_view name;
  NormGroups groups;
  double eps  = 1e-5;
  bool affine = true;
};

/// The state of one use of a norm: data of apply for pullback, and scratch memory. Allocates
/// everything when it is made.
template <class Memory>
struct NormState {
  using DeviceView = Kokkos::View<double*, Memory>;
  using HostView   = typename DeviceView::host_mirror_type;
  std::shared_ptr<MeshState> mesh;   ///< whose communicator the group may use
  std::shared_ptr<RankGroup> group;  ///< the ranks that share statistics; null: each has its own
  NormGroups groups;                 ///< the groups whose statistics this rank has
  DeviceView channels;               ///< moments, or sums, per (batch, owned channel)
  DeviceView statistics;             ///< global, per slot
  DeviceView sums;                   ///< two per slot
  DeviceView row_weights;            ///< of this rank's rows; empty: all are 1
  DeviceView parts;                  ///< of moments and sums; see CellPieces
  double plane = 0.0;                ///< weight of this rank's points of one channel
  HostView channels_host, statistics_host, sums_host;
  Kokkos::View<double*, Kokkos::HostSpace> slots, gathered;  ///< this rank's moments; all ranks'
  std::shared_ptr<DeviceGather<Memory>> gather;  ///< of moments and sums on a device, if possible
  double total      = 0.0;                       ///< weight of a slot
  double correction = 1.0;                       ///< of the variance that is averaged

  NormRows rows(int rank) const {
    return {row_weights.extent(0) > 0 ? row_weights.data() : nullptr, 5 - rank};
  }
};

template <class Memory>
void allocate_norm_state(NormState<Memory>& s, index_t batch, index_t owned, index_t cells) {
  const auto slots      = static_cast<std::size_t>(s.groups.slots(batch));
  const auto channels   = static_cast<std::size_t>(batch * owned);
  const std::size_t all = s.group == nullptr ? 1 : static_cast<std::size_t>(s.group->size());
  using View            = typename NormState<Memory>::DeviceView;
  s.channels            = View("shard::norm channels", 3 * channels);
  s.statistics          = View("shard::norm statistics", statistics_per_slot * slots);
  s.sums                = View("shard::norm sums", 2 * slots);
  s.plane               = static_cast<double>(cells);
  s.parts           = View("shard::norm parts", CellPieces::room<Memory>(batch * owned, cells, 3));
  s.channels_host   = Kokkos::create_mirror_view(s.channels);
  s.statistics_host = Kokkos::create_mirror_view(s.statistics);
  s.sums_host       = Kokkos::create_mirror_view(s.sums);
  using Host        = Kokkos::View<double*, Kokkos::HostSpace>;
  s.slots           = Host("shard::norm moments", 3 * slots);
  s.gathered        = Host("shard::norm gathered", 3 * slots * all);
}

/// Collective: throws AgreementError unless all ranks have the same options.
inline void require_same_norm(const NormOptions& norm, MPI_Comm comm) {
  require_same_options(comm, norm.name,
                       {{"groups", norm.groups.groups},
                        {"channels", norm.groups.channels},
                        {"eps", norm.eps},
                        {"affine", norm.affine ? 1.0 : 0.0}});
}

/// The state for fields with x's mesh and partitions. Collective over the mesh, unless every rank
/// has its own statistics. AgreementError if the ranks have other options.
template <class State, class X>
State norm_state(const X& x, const NormOptions& norm, bool shared = true) {
  State s;
  s.groups      = own_groups(norm.groups, x.geometry());
  unsigned dims = (norm.groups.over_batch ? 1U : 0U) | (s.groups.across ? 2U : 0U);
  for (int d = 2; d < X::rank; ++d) dims |= 1U << d;
  s.mesh = x.geometry().mesh;
  if (shared) {
    require_same_norm(norm, x.communicator());
    s.group = RankGroup::of(x.geometry(), dims);
  }
  index_t cells = 1;
  for (int d = 2; d < X::rank; ++d) cells *= x.extent(d);
  allocate_norm_state(s, x.extent(0), x.extent(1), cells);
  if (s.group != nullptr)
    s.gather = DeviceGather<typename X::memory_space>::of(*s.mesh, *s.group,
                                                          3 * s.groups.slots(x.extent(0)));
  return s;
}

/// Sets the weights of x's rows in the state.
template <class State, class X>
void set_row_weights(State& s, const X& x, std::string_view function,
                     const std::vector<double>& weights) {
  require_same_options(x.communicator(), function, {}, weights);
  require_area_weights(function, x.label(), x.global_extent(2), weights);
  using View    = decltype(s.row_weights);
  s.row_weights = View("shard::norm row weights", static_cast<std::size_t>(x.extent(2)));
  const Kokkos::View<const double*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>
      mine(weights.data() + x.begin(2), static_cast<std::size_t>(x.extent(2)));
  Kokkos::deep_copy(s.row_weights, mine);
  double sum = 0.0;
  for (std::size_t r = 0; r < mine.extent(0); ++r) sum += mine(r);
  s.total = 0.0;  // isn't known any more
  s.plane = mine.extent(0) > 0 ? sum * (s.plane / static_cast<double>(mine.extent(0))) : 0.0;
}

template <class Y, class X>
void require_norm(const NormOptions& norm, const Y& y, const X& x) {
  require_groups(norm.name, norm.groups.channels, norm.groups.channels, norm.groups.groups);
  require_extent(norm.name, x.label(), "channels", x.global_extent(1), norm.groups.channels);
  require_extent(norm.name, y.label(), "channels", y.global_extent(1), norm.groups.channels);
  require_same_cells(norm.name, x, y);
  require_same_partition(norm.name, y.label(), 1, y.partition(1), x.partition(1));
}

/// Computes y from the state's statistics.
template <class Space, class State, class P, class Y, class X>
void norm_apply(const Space& space, const State& state, const NormOptions& norm,
                const P& parameters, const Y& y, const X& x) {
  using T         = typename Y::non_const_value_type;
  const T *weight = nullptr, *bias = nullptr;
  if constexpr (is_wanted_v<P>)
    if (norm.affine) {
      weight = parameters.weight.data();
      bias   = parameters.bias.data();
    }
  NormKernels<Space, T>::apply(space, owned_block(local(y)), owned_input(x),
                               state.statistics.data(), weight, bias, state.groups);
  mark_written(space, y);
}

/// The weight of a slot on all ranks, from that of each rank's points of a channel. Collective over
/// the group.
template <class State, class X>
double slot_weight(const State& state, const X& x) {
  double weight = state.plane * static_cast<double>(x.extent(0) * x.extent(1));
  if (state.group != nullptr) state.group->sum_few(&weight, 1, state.gathered.data());
  return weight / static_cast<double>(state.groups.slots(x.extent(0)));
}

/// The statistics of x: one collective, fences `space`. On a device it is asynchronous if there are
/// no other ranks, or if NCCL or RCCL gathers their moments; but the first use waits.
template <class Space, class State, class X>
void norm_statistics(const Space& space, State& state, const NormOptions& norm, const X& x) {
  using T             = typename X::non_const_value_type;
  const index_t slots = state.groups.slots(x.extent(0));
  NormKernels<Space, T>::moments(space, state.channels.data(), owned_input(x), state.rows(X::rank),
                                 state.parts.data());
  if constexpr (!is_host_space_v<Space>) {
    using Kernels    = NormKernels<Space, T>;
    const bool alone = (state.group == nullptr || state.group->size() == 1) && !state.groups.across;
    if (slots > 0 && (alone || state.gather)) {
      if (state.total == 0.0) state.total = slot_weight(state, x);
      if (alone) {
        Kernels::statistics(space, state.statistics.data(), state.channels.data(), x.extent(0),
                            x.extent(1), state.groups, norm.eps, state.correction);
        return;
      }
      Kernels::slot_moments(space, state.gather->mine(), state.channels.data(), x.extent(0),
                            x.extent(1), state.groups);
      state.gather->run(space, 3 * slots);
      Kernels::merge_ranks(space, state.statistics.data(), state.gather->all(), slots,
                           state.gather->ranks(), norm.eps, state.correction);
      return;
    }
  }
  Kokkos::deep_copy(space, state.channels_host, state.channels);
  space.fence("shard::norm: moments for the collective");
  merge_channels(state.channels_host.data(), x.extent(0), x.extent(1), state.groups,
                 state.slots.data());
  const double* all = state.slots.data();
  if (state.group != nullptr) {
    state.group->gather(all, static_cast<int>(3 * slots), state.gathered.data());
    all = state.gathered.data();
  }
  state.total = merge_moments(all, slots, state.group != nullptr ? state.group->size() : 1,
                              norm.eps, state.correction, state.statistics_host.data());
  Kokkos::deep_copy(space, state.statistics, state.statistics_host);
}

/// On a host, computes the statistics and y at once if all slots are this rank's alone and there
/// are enough for its threads. Returns whether it did.
template <class Space, class State, class P, class Y, class X>
bool norm_slots(const Space& space, State& state, const NormOptions& norm, const P& parameters,
                const Y& y, const X& x) {
  if constexpr (is_host_space_v<Space>) {
    using T             = typename Y::non_const_value_type;
    const index_t slots = state.groups.slots(x.extent(0));
    if ((state.group != nullptr && state.group->size() > 1) || state.groups.across ||
        slots < 2 * static_cast<index_t>(space.concurrency()))
      return false;
    const T *weight = nullptr, *bias = nullptr;
    if constexpr (is_wanted_v<P>)
      if (norm.affine) {
        weight = parameters.weight.data();
        bias   = parameters.bias.data();
      }
    NormKernels<Space, T>::norm_slots(space, owned_block(local(y)), owned_input(x),
                                      state.channels.data(), state.statistics.data(), weight, bias,
                                      state.groups, state.rows(X::rank), norm.eps,
                                      state.correction);
    if (state.total == 0.0)
      state.total =
          state.plane * static_cast<double>(x.extent(0) * x.extent(1)) / static_cast<double>(slots);
    mark_written(space, y);
    return true;
  } else {
    return false;
  }
}

/// Where this rank's two sums of each slot go before `sum_slots`.
template <class State>
double* slot_sums(const State& state) {
  return state.gather ? state.gather->mine() : state.sums.data();
}
/// Sums the slots' two sums over the ranks that share them. Fences `space`, unless NCCL or RCCL
/// gathers them.
template <class T, class Space, class State>
void sum_slots(const Space& space, State& state, index_t slots) {
  if (state.group == nullptr || state.group->size() == 1) return;
  if constexpr (!is_host_space_v<Space>)
    if (state.gather) {
      state.gather->run(space, 2 * slots);
      NormKernels<Space, T>::add_ranks(space, state.sums.data(), state.gather->all(), 2 * slots,
                                       state.gather->ranks());
      return;
    }
  Kokkos::deep_copy(space, state.sums_host, state.sums);
  space.fence("shard::norm: sums for the collective");
  state.group->sum_few(state.sums_host.data(), static_cast<int>(2 * slots), state.gathered.data());
  Kokkos::deep_copy(space, state.sums, state.sums_host);
}

/// Computes dx and the parameters' gradients that are wanted; `fixed` statistics don't depend on x.
template <class Space, class State, class P, class G, class DX, class DY, class X>
void norm_pullback(const Space& space, State& state, const NormOptions& norm, bool fixed,
                   const P& parameters, const G& gradients, const DX& dx, const DY& dy,
                   const X& x) {
  require_norm(norm, dy, x);
  if constexpr (is_wanted_v<DX>) require_norm(norm, dx, x);
  using T                  = typename DY::non_const_value_type;
  using Kernels            = NormKernels<Space, T>;
  const double* statistics = state.statistics.data();
  const bool input         = is_wanted_v<DX> && !fixed;
  const bool affine        = is_wanted_v<G> && norm.affine;
  if (input || affine)
    Kernels::pair_sums(space, state.channels.data(), owned_input(dy), owned_input(x), statistics,
                       state.groups, NormRows{}, state.parts.data());
  if constexpr (is_wanted_v<G>)
    if (affine)
      Kernels::fold_parameters(space, gradients.weight.data(), gradients.bias.data(),
                               state.channels.data(), x.extent(0), x.extent(1));
  if constexpr (is_wanted_v<DX>) {
    const T* weight = nullptr;
    if constexpr (is_wanted_v<P>)
      if (norm.affine) weight = parameters.weight.data();
    if (input) {
      Kernels::fold_slots(space, slot_sums(state), state.channels.data(), weight, x.extent(0),
                          x.extent(1), state.groups);
      sum_slots<T>(space, state, state.groups.slots(x.extent(0)));
    }
    Kernels::pullback(space, owned_block(local(dx)), owned_input(dy), owned_input(x), statistics,
                      input ? state.sums.data() : nullptr, weight, state.groups,
                      state.rows(X::rank), state.total);
  }
}

/// Computes the tangent `ty` from `tx` and the parameter tangents. A parameter without a tangent is
/// constant.
template <class Space, class State, class P, class TP, class TY, class TX, class X>
void norm_pushforward(const Space& space, State& state, const NormOptions& norm, bool fixed,
                      const P& parameters, const TP& tangents, const TY& ty, const TX& tx,
                      const X& x) {
  require_norm(norm, ty, x);
  using T                  = typename TY::non_const_value_type;
  using Kernels            = NormKernels<Space, T>;
  const double* statistics = state.statistics.data();
  const T *weight = nullptr, *weight_tangent = nullptr, *bias_tangent = nullptr;
  if constexpr (is_wanted_v<P>)
    if (norm.affine) weight = parameters.weight.data();
  if constexpr (is_wanted_v<TP>)
    if (norm.affine) {
      weight_tangent = tangents.weight.data();
      bias_tangent   = tangents.bias.data();
    }
  const double* sums         = nullptr;
  Block<const T> input_block = owned_input(x);
  if constexpr (is_wanted_v<TX>) {
    require_norm(norm, tx, x);
    input_block = owned_input(tx);
    if (!fixed) {
      Kernels::pair_sums(space, state.channels.data(), input_block, owned_input(x), statistics,
                         state.groups, state.rows(X::rank), state.parts.data());
      Kernels::fold_slots(space, slot_sums(state), state.channels.data(),
                          static_cast<const T*>(nullptr), x.extent(0), x.extent(1), state.groups);
      sum_slots<T>(space, state, state.groups.slots(x.extent(0)));
      sums = state.sums.data();
    }
  }
  Kernels::pushforward(space, owned_block(local(ty)), input_block, is_wanted_v<TX>, owned_input(x),
                       statistics, sums, weight, weight_tangent, bias_tangent, state.groups,
                       state.total);
  mark_written(space, ty);
}

}  // namespace shard::impl

namespace shard {

/// The two parts of the pullback of the layer `Norm`.
template <class Norm>
struct NormPullbackParts {
  /// Only the parameters' part. Local.
  template <class Space, class S, class G, class DY, class X>
  void pullback_parameters(const Space& space, S& state, const G& gradients, const DY& dy,
                           const X& x) const {
    layer().pullback(space, state, not_wanted, gradients, not_wanted, dy, x);
  }
  /// Only the input's part. Collective as apply.
  template <class Space, class S, class P, class DX, class DY, class X>
  void pullback_input(const Space& space, S& state, const P& parameters, const DX& dx, const DY& dy,
                      const X& x) const {
    layer().pullback(space, state, parameters, not_wanted, dx, dy, x);
  }

 private:
  const Norm& layer() const { return static_cast<const Norm&>(*this); }
};

/// Base of norms with global statistics. `Norm` has the members `channels`, `eps` and `affine`;
/// `fixed()` returns whether its statistics are constants.
template <class Norm>
struct NormLayer : NormPullbackParts<Norm> {
  static constexpr LayerSharding sharding = LayerSharding::collective;  ///< global moments

  /// Weight and bias, one value per channel, as in PyTorch; of the owned channels where channels
  /// are sharded (see OwnedChannels).
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = impl::WeightAndBias<T, 1, Memory>;

  /// Weight (1) and bias (0); none unless affine.
  std::vector<ParameterShape> parameter_shapes() const {
    if (!norm().affine) return {};
    return {{"weight", {norm().channels}, 0.0, 1.0}, {"bias", {norm().channels}, 0.0, 0.0}};
  }
  /// Those of the owned channels.
  std::vector<ParameterShape> parameter_shapes(const OwnedChannels& owned) const {
    return impl::owned_shapes(parameter_shapes(), owned);
  }

  /// The state of one use of the layer: data of apply for pullback, and scratch memory. Allocates
  /// everything when it is made.
  template <class Memory>
  using State = impl::NormState<Memory>;

  /// Collective over the mesh: the state for fields with x's mesh and partitions.
  template <class X>
  auto state(const X& x) const {
    return impl::norm_state<State<typename X::memory_space>>(x, norm().options());
  }

  /// Computes y's owned points. Collective over the ranks that share x's points. y may be x.
  template <class Space, class S, class P, class Y, class X>
  void apply(const Space& space, S& state, const P& parameters, const Y& y, const X& x) const {
    impl::require_norm(norm().options(), y, x);
    if (impl::norm_slots(space, state, norm().options(), parameters, y, x)) return;
    impl::norm_statistics(space, state, norm().options(), x);
    impl::norm_apply(space, state, norm().options(), parameters, y, x);
  }

  /// The tangent of y for the tangents of x and of the parameters, either of which may be
  /// not_wanted (zero). x and the state must be unchanged since `apply`. Collective as apply,
  /// unless tx is not_wanted. ty may be tx.
  template <class Space, class S, class P, class TP, class TY, class TX, class X>
  void pushforward(const Space& space, S& state, const P& parameters, const TP& parameter_tangents,
                   const TY& ty, const TX& tx, const X& x) const {
    impl::norm_pushforward(space, state, norm().options(), norm().fixed(), parameters,
                           parameter_tangents, ty, tx, x);
  }

  /// From dy = dJ/dy: adds this rank's part to the parameters' gradients and sets dx = dJ/dx.
  /// Either may be not_wanted. x and the state must be unchanged since apply. Collective as apply,
  /// unless dx is not_wanted. dx may be dy.
  template <class Space, class S, class P, class G, class DX, class DY, class X>
  void pullback(const Space& space, S& state, const P& parameters, const G& gradients, const DX& dx,
                const DY& dy, const X& x) const {
    impl::norm_pullback(space, state, norm().options(), norm().fixed(), parameters, gradients, dx,
                        dy, x);
  }

 protected:
  /// False: statistics are those of x.
  static constexpr bool fixed() { return false; }

 private:
  const Norm& norm() const { return static_cast<const Norm&>(*this); }
};

/// A norm whose mean and variance are weighted by rows (the first spatial dimension, such as
/// latitudes by their areas): mean = sum of w x / sum of w, variance = sum of w (x - mean)^2 / sum
/// of w. `AreaWeighted<GroupNorm>{{8, 32}, weights}`.
template <class Norm>
struct AreaWeighted : Norm {
  std::vector<double> row_weights;  ///< one for each global row

  /// As the norm's; throws ArgumentError on every rank unless there is a weight >= 0 for each row.
  template <class X>
  auto state(const X& x) const {
    auto s = Norm::state(x);
    impl::set_row_weights(s, x, "AreaWeighted", row_weights);
    return s;
  }
};

}  // namespace shard

#endif
