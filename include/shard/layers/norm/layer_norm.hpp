// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_NORM_LAYER_NORM_HPP
#define SHARD_LAYERS_NORM_LAYER_NORM_HPP

#include <Kokkos_Core.hpp>

#include <memory>
#include <type_traits>
#include <vector>

#include "shard/comm/impl/group_merge.hpp"
#include "shard/comm/impl/rank_group.hpp"
#include "shard/layers/impl/channel_kernels.hpp"
#include "shard/layers/norm/norm_layer.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"

namespace shard::impl {

/// Common code of the norms over the channels of each point.
template <class Norm>
struct ChannelNorm : NormPullbackParts<Norm> {
  static constexpr LayerSharding sharding = LayerSharding::local;  ///< local in space

  /// One value per channel, as in PyTorch; of the owned channels where channels are sharded (see
  /// OwnedChannels).
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = WeightAndBias<T, 1, Memory>;

  /// Weight (1) and, for LayerNorm, bias (0); none unless affine.
  std::vector<ParameterShape> parameter_shapes() const {
    if (!norm().affine) return {};
    std::vector<ParameterShape> shapes{{"weight", {norm().channels}, 0.0, 1.0}};
    if (Norm::centred) shapes.push_back({"bias", {norm().channels}, 0.0, 0.0});
    return shapes;
  }
  /// Those of the owned channels.
  std::vector<ParameterShape> parameter_shapes(const OwnedChannels& owned) const {
    return owned_shapes(parameter_shapes(), owned);
  }

  /// The state of one use of the layer: data of apply for pullback, and scratch memory.
  template <class Memory>
  struct State {
    using View = Kokkos::View<double*, Memory>;  ///< memory of the fields' space
    View statistics;  ///< mean and 1 / sqrt(var + eps) of each owned point
    View sums;        ///< two per batch entry and owned channel
    View parts;       ///< of these sums; see CellPieces
    // Where channels are sharded over several ranks:
    std::shared_ptr<GroupMerge<Memory>> others;  ///< the ranks that share points, or null
    View cell_sums;                              ///< two per owned point
    View owned;                                  ///< how many channels each rank has
    typename View::host_mirror_type owned_host;  ///< the same on the host
  };

  /// The state for fields with x's partitions. Collective over the mesh if channels are sharded,
  /// else local.
  template <class X>
  auto state(const X& x) const {
    index_t plane = 1;
    for (int d = 2; d < X::rank; ++d) plane *= x.extent(d);
    const index_t cells = x.extent(0) * plane;
    using S             = State<typename X::memory_space>;
    const auto n        = static_cast<std::size_t>(2 * cells);
    S s;
    s.statistics = typename S::View("shard::norm statistics", n);
    s.sums       = typename S::View("shard::norm sums",
                                    static_cast<std::size_t>(2 * x.extent(0) * x.extent(1)));
    s.parts      = typename S::View("shard::norm parts", CellPieces::room<typename X::memory_space>(
                                                        x.extent(0) * x.extent(1), plane, 2));
    if constexpr (is_cut_v<X, 1>) {
      const auto mesh  = x.geometry().mesh;
      const auto group = RankGroup::of(x.geometry(), 2U);
      if (group->size() > 1) {
        require_same_norm(options(), x.communicator());
        using Merge = GroupMerge<typename X::memory_space>;
        s.others    = std::make_shared<Merge>(mesh, group, 2 * cells);
        s.cell_sums = typename S::View("shard::norm sums", n);
        s.owned = typename S::View("shard::norm channels", static_cast<std::size_t>(group->size()));
        s.owned_host    = Kokkos::create_mirror_view(s.owned);
        const auto mine = static_cast<double>(x.extent(1));
        group->gather(&mine, 1, s.owned_host.data());
        Kokkos::deep_copy(s.owned, s.owned_host);
      }
    }
    return s;
  }

  /// Computes y's owned points. Local, or collective over the ranks that share x's points if
  /// channels are sharded. y may be x.
  template <class Space, class S, class P, class Y, class X>
  void apply(const Space& space, S& state, const P& parameters, const Y& y, const X& x) const {
    using T = typename Y::non_const_value_type;
    require_norm(options(), y, x);
    const T *weight = nullptr, *bias = nullptr;
    if (norm().affine) {
      weight = parameters.weight.data();
      bias   = parameters.bias.data();
    }
    const bool given = merge_moments(space, state, x);
    ChannelKernels<Space, T>::norm(space, owned_block(local(y)), owned_input(x),
                                   state.statistics.data(), weight, bias, statistics_options<T>(),
                                   given);
    mark_written(space, y);
  }

  /// The tangent of y for the tangents of x and of the parameters, either of which may be
  /// not_wanted (zero). x and the state must be unchanged since `apply`. Local, or collective as
  /// apply unless tx is not_wanted. ty may be tx.
  template <class Space, class S, class P, class TP, class TY, class TX, class X>
  void pushforward(const Space& space, S& state, const P& parameters, const TP& parameter_tangents,
                   const TY& ty, const TX& tx, const X& x) const {
    using T = typename TY::non_const_value_type;
    require_norm(options(), ty, x);
    const T *weight = nullptr, *weight_tangent = nullptr, *bias_tangent = nullptr;
    if (norm().affine) {
      weight = parameters.weight.data();
      if constexpr (is_wanted_v<TP>) {
        weight_tangent = parameter_tangents.weight.data();
        bias_tangent   = parameter_tangents.bias.data();
      }
    }
    auto input = owned_input(x);
    CellSums given;
    if constexpr (is_wanted_v<TX>) {
      require_norm(options(), tx, x);
      input = owned_input(tx);
      given = sum_cells(space, state, tx, x, static_cast<const T*>(nullptr));
    }
    ChannelKernels<Space, T>::norm_pushforward(
        space, owned_block(local(ty)), input, is_wanted_v<TX>, owned_input(x),
        state.statistics.data(), weight, weight_tangent, bias_tangent, Norm::centred, given);
    mark_written(space, ty);
  }

  /// From dy = dJ/dy: adds this rank's part to the parameters' gradients and sets dx = dJ/dx.
  /// Either may be not_wanted. x and the state must be unchanged since apply. Local, or collective
  /// as apply unless dx is not_wanted. dx may be dy.
  template <class Space, class S, class P, class G, class DX, class DY, class X>
  void pullback(const Space& space, S& state, const P& parameters, const G& gradients, const DX& dx,
                const DY& dy, const X& x) const {
    using T = typename DY::non_const_value_type;
    require_norm(options(), dy, x);
    if constexpr (is_wanted_v<DX>) require_norm(options(), dx, x);
    if constexpr (is_wanted_v<G>)
      if (norm().affine) {
        ChannelKernels<Space, T>::norm_sums(space, state.sums.data(), owned_input(dy),
                                            owned_input(x), state.statistics.data(),
                                            state.parts.data());
        NormKernels<Space, T>::fold_parameters(space, gradients.weight.data(),
                                               gradients.bias.data(), state.sums.data(),
                                               x.extent(0), x.extent(1));
      }
    if constexpr (is_wanted_v<DX>) {
      const T* weight = nullptr;
      if (norm().affine) weight = parameters.weight.data();
      ChannelKernels<Space, T>::norm_pullback(
          space, owned_block(local(dx)), owned_input(dy), owned_input(x), state.statistics.data(),
          weight, Norm::centred, sum_cells(space, state, dy, x, weight));
    }
  }

 private:
  /// The statistics over all ranks' channels, if channels are sharded.
  template <class Space, class S, class X>
  bool merge_moments(const Space& space, S& state, const X& x) const {
    if (!state.others) return false;
    using T             = typename X::non_const_value_type;
    const index_t count = static_cast<index_t>(state.statistics.extent(0));
    ChannelKernels<Space, T>::norm_moments(space, state.others->mine(), owned_input(x),
                                           Norm::centred);
    state.others->run(space, state.statistics.data(), count,
                      [&]<class On>(const On& on, double* statistics, const double* gathered) {
                        const double* owned = std::is_same_v<On, Space> ? state.owned.data()
                                                                        : state.owned_host.data();
                        ChannelKernels<On, T>::merge_moments(on, statistics, gathered, count / 2,
                                                             owned, state.others->ranks(),
                                                             statistics_options<T>().eps);
                      });
    return true;
  }

  /// The two sums of each point over all ranks' channels, if channels are sharded.
  template <class Space, class S, class A, class X, class T>
  CellSums sum_cells(const Space& space, S& state, const A& a, const X& x, const T* weight) const {
    if (!state.others) return {};
    const index_t count = static_cast<index_t>(state.cell_sums.extent(0));
    ChannelKernels<Space, T>::norm_cell_sums(space, state.others->mine(), owned_input(a),
                                             owned_input(x), state.statistics.data(), weight);
    state.others->run(space, state.cell_sums.data(), count,
                      [&]<class On>(const On& on, double* sums, const double* gathered) {
                        NormKernels<On, T>::add_ranks(on, sums, gathered, count,
                                                      state.others->ranks());
                      });
    return {state.cell_sums.data(), static_cast<double>(norm().channels)};
  }

  NormOptions options() const {
    return {Norm::name, {1, norm().channels, false}, norm().eps, norm().affine};
  }
  template <class T>
  ChannelNormOptions statistics_options() const {
    return {norm().template eps_for<T>(), Norm::centred};
  }
  const Norm& norm() const { return static_cast<const Norm&>(*this); }
};

}  // namespace shard::impl

namespace shard {

/// Layer normalisation over the channels of each point (Ba, Kiros and Hinton 2016; PyTorch's
/// LayerNorm([C]) on channels-last data, here channels first, as in ConvNeXt): y = (x - mean) /
/// sqrt(var + eps) * weight + bias, the variance biased. Fields are [batch, channel, space...],
/// sharded in any way. Without sharded channels it sends nothing, and the output and the input's
/// gradient are bitwise the same for any number of ranks: sums are in double, over ascending
/// channels. With sharded channels the ranks along that axis gather mean and squared differences of
/// each point in one collective, and merge them in rank order. Pullback and tangent gather two sums
/// per point.
struct LayerNorm : impl::ChannelNorm<LayerNorm> {
  index_t channels = 1;     ///< channels
  double eps       = 1e-5;  ///< added to the variance
  bool affine      = true;  ///< whether there are a weight and a bias per channel

  /// With a weight and a bias by default.
  constexpr LayerNorm(index_t channels_ = 1, double eps_ = 1e-5, bool affine_ = true)
      : channels(channels_), eps(eps_), affine(affine_) {}

 private:
  friend impl::ChannelNorm<LayerNorm>;
  static constexpr const char* name = "LayerNorm";
  static constexpr bool centred     = true;
  template <class T>
  double eps_for() const {
    return eps;
  }
};

/// Root mean square normalisation over the channels of each point (Zhang and Sennrich 2019;
/// PyTorch's RMSNorm([C]) on channels-last data, here channels first): y = x / sqrt(mean of x^2 +
/// eps) * weight. There is no bias. As in PyTorch the default eps is the machine epsilon of the
/// value type: 1.19e-7 for float, not 1e-5. Otherwise as LayerNorm: sharded in any way, without
/// messages and bitwise the same for any number of ranks unless channels are sharded.
struct RMSNorm : impl::ChannelNorm<RMSNorm> {
  static constexpr double machine_eps = -1.0;  ///< the machine epsilon of the value type

  index_t channels = 1;            ///< channels
  double eps       = machine_eps;  ///< added to the mean of squares
  bool affine      = true;         ///< whether there is a weight per channel

  /// With a weight by default.
  constexpr RMSNorm(index_t channels_ = 1, double eps_ = machine_eps, bool affine_ = true)
      : channels(channels_), eps(eps_), affine(affine_) {}

 private:
  friend impl::ChannelNorm<RMSNorm>;
  static constexpr const char* name = "RMSNorm";
  static constexpr bool centred     = false;
  template <class T>
  double eps_for() const {
    return eps < 0.0 ? static_cast<double>(Kokkos::Experimental::epsilon_v<T>) : eps;
  }
};

}  // namespace shard

#endif
