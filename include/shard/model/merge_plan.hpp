// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_MERGE_PLAN_HPP
#define SHARD_MODEL_MERGE_PLAN_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "shard/model/domain_parallel.hpp"
#include "shard/model/impl/flat_list.hpp"
#include "shard/model/impl/merge_layer.hpp"

/// \file
/// The compile-time choice, by a cost model, between one exchange per layer and one deeper exchange
/// for a chain of layers with redundant computation. merge_halos.hpp runs such a chain.

namespace shard {

/// The expected extents [batch, channel, space...] of a shard; the channels are typical of the
/// activations.
template <index_t... N>
struct ExpectedShard {
  static_assert(sizeof...(N) >= 3 && sizeof...(N) <= 5 && ((N >= 1) && ...),
                "an ExpectedShard has the extents [batch, channel, space...] of a shard");
};

/// The cost of messages and arithmetic of a machine. The defaults are for two ranks on two cores of
/// one host.
struct MergeMachine {
  double message               = 4e-6;    ///< seconds for a message, however short
  double bytes_per_second      = 3.3e9;   ///< of a rank's messages
  double operations_per_second = 7.5e10;  ///< multiplications and additions of a rank
};

/// Another machine: `OnMachine<machine>` with `inline constexpr MergeMachine machine{...}`.
template <const MergeMachine& Machine>
struct OnMachine {};
/// The smallest number of exchanges, at any cost.
struct MergeAlways {};
/// An exchange for each layer.
struct MergeNever {};

/// An option of domain_parallel: how the exchanges of consecutive layers are merged. Made by
/// `merge_halos`.
template <class... Options>
struct MergeHalos {};

/// Merges the exchanges of consecutive layers if the cost model predicts that it is faster:
/// `domain_parallel<Lat>(model, mesh, merge_halos<ExpectedShard<1, 64, 90, 180>>())`. Options: an
/// ExpectedShard, MergeAlways or MergeNever; OnMachine.
template <class... Options>
constexpr MergeHalos<Options...> merge_halos() {
  return {};
}

/// Layers with one merged exchange.
struct HaloChain {
  int first  = 0;                            ///< counted from 0 in the order of the model
  int layers = 0;                            ///< number of layers
  std::array<std::array<int, 2>, 3> halo{};  ///< low and high, of its input in each dimension

  /// Whether all members are equal.
  friend constexpr bool operator==(const HaloChain&, const HaloChain&) = default;
};

/// The chains of a model, in order. Chains beyond `room` are only counted.
struct HaloChains {
  static constexpr int room        = 64;    ///< capacity of the list
  std::array<HaloChain, room> list = {};    ///< the first `count`
  int count                        = 0;     ///< number of chains, also those beyond `room`
  constexpr void add(const HaloChain& c) {  ///< adds one
    if (count < room) list[static_cast<std::size_t>(count)] = c;
    ++count;
  }
};

/// Seconds per step, forward and backward, of layers on a rank in the interior of the mesh.
struct MergingCost {
  double separate = 0.0;  ///< with an exchange for each layer
  double merged   = 0.0;  ///< with one for all of them
};

namespace impl {

constexpr bool is_mirrored(const BoundarySide& side) {
  return side.kind != BoundaryKind::constant && side.kind != BoundaryKind::periodic &&
         side.kind != BoundaryKind::clamp;
}

/// A chain of consecutive layers.
struct MergeChain {
  const MergeLayer* layers;
  int count;

  /// Whether dimension `d` of layer `l`'s input is periodic.
  constexpr bool wraps(int l, int d) const {
    for (int k = l; k < count; ++k)
      if (layers[k].at(d).cut && layers[k].at(d).reaches() && layers[k].at(d).periodic())
        return true;
    return false;
  }

  /// The halo of layer `l`'s input along a sharded dimension. The sources of points outside the
  /// domain are as far from its edge as these points.
  constexpr LowHigh halo(int l, int d) const {
    LowHigh h{0, 0};
    for (int k = count - 1; k >= l; --k) {
      const MergeDim& dim = layers[k].at(d);
      if (!dim.cut) continue;
      h = {h.lo + dim.halo.lo, h.hi + dim.halo.hi};
      if (k == 0 || !dim.reaches() || wraps(k, d)) continue;
      h = {is_mirrored(dim.high) ? larger(h.lo, h.hi) : h.lo,
           is_mirrored(dim.low) ? larger(h.lo, h.hi) : h.hi};
    }
    return h;
  }

  /// Whether the chain can be merged: its layers are supported, the first and the last need points
  /// outside their shard, and the boundary points of each but the first have their source on this
  /// rank.
  constexpr bool is_served() const {
    if (count < 2 || !layers[0].looks_past || !layers[count - 1].looks_past) return false;
    for (int l = 0; l < count; ++l) {
      if (layers[l].kind == MergeKind::none) return false;
      for (int d = 0; d < layers[l].dims && l > 0; ++d)
        if (!is_served(l, d)) return false;
    }
    return true;
  }

 private:
  constexpr bool is_served(int l, int d) const {
    const MergeDim& dim = layers[l].at(d);
    if (dim.cut && dim.reaches() && dim.periodic())
      for (int k = 0; k < l; ++k) {
        const MergeDim& before = layers[k].at(d);
        if (before.reaches() &&
            (!before.periodic() ||
             before.window.padding_lo + before.window.padding_hi != before.window.reach()))
          return false;
      }
    if (dim.window.padding_lo + dim.window.padding_hi == 0) return true;
    for (const BoundarySide& side : {dim.low, dim.high}) {
      if (side.longitude < 0) continue;
      const int longitude = side.longitude - 2;
      if (longitude < 0 || longitude >= layers[l].dims) return false;
      const MergeDim& turned = layers[l].at(longitude);
      if (turned.cut || turned.low.longitude >= 0 || turned.high.longitude >= 0) return false;
    }
    return true;
  }
};

/// The parameters of the cost model.
struct MergeFigures {
  enum class Choice : std::uint8_t { never, cheapest, always } choice = Choice::never;
  std::array<double, 5> shard{};  ///< [batch, channel, space...]
  MergeMachine machine{};
  double value_bytes = 4.0;
};

/// Seconds per step of a chain, forward and backward: two exchanges, and three times the
/// operations.
constexpr double chain_seconds(const MergeChain& chain, const MergeFigures& f) {
  const int dims   = chain.layers[0].dims;
  const auto cells = [&](int l) {
    double n = f.shard[0];
    for (int d = 0; d < dims; ++d) {
      const LowHigh h = l < chain.count ? chain.halo(l, d) : LowHigh{0, 0};
      n *= f.shard[static_cast<std::size_t>(d) + 2] + h.lo + h.hi;
    }
    return n;
  };
  const auto channels = [&](index_t known) {
    return known > 0 ? static_cast<double>(known) : f.shard[1];
  };
  int around = 1;
  for (int d = 0; d < dims; ++d) {
    const LowHigh h = chain.halo(0, d);
    around *= 1 + (h.lo > 0 ? 1 : 0) + (h.hi > 0 ? 1 : 0);
  }
  const double exchange = (around - 1) * f.machine.message +
                          (cells(0) - cells(chain.count)) * channels(chain.layers[0].in) *
                              f.value_bytes / f.machine.bytes_per_second;
  double operations = 0.0;
  for (int l = 0; l < chain.count; ++l) {
    const MergeLayer& layer = chain.layers[l];
    double each             = channels(layer.out);
    for (int d = 0; d < dims; ++d) each *= layer.at(d).window.kernel;
    if (layer.kind == MergeKind::convolution)
      each *= 2.0 * channels(layer.in) / static_cast<double>(layer.groups);
    if (layer.kind == MergeKind::pointwise) each *= 10.0;
    operations += each * cells(l + 1);
  }
  return 2.0 * exchange + 3.0 * operations / f.machine.operations_per_second;
}

/// Consecutive layers divided into chains: chain c begins with layer begin[c].
template <std::size_t N>
struct MergePlan {
  std::array<int, N + 1> begin{};
  int chains = 0;
};

/// The cheapest division of layers into chains (of one layer too), by dynamic programming over the
/// begin of the last chain; among equal ones that with fewer merged layers.
template <std::size_t N>
constexpr MergePlan<N> plan_chains(const std::array<MergeLayer, N>& layers, const MergeFigures& f) {
  using Choice       = MergeFigures::Choice;
  constexpr int n    = static_cast<int>(N);
  const auto seconds = [&](int i, int j) {
    const MergeChain chain{layers.data() + i, j - i};
    if (layers[static_cast<std::size_t>(i)].kind == MergeKind::none) return 0.0;
    if (f.choice != Choice::always) return chain_seconds(chain, f);
    double more = 0.0;  // with equal numbers of exchanges, prefer smaller halos
    for (int d = 0; d < chain.layers[0].dims; ++d)
      more += chain.halo(0, d).lo + chain.halo(0, d).hi;
    return chain.layers[0].looks_past ? 1.0 + 1e-6 * more * more : 0.0;
  };
  std::array<double, N + 1> best{};
  std::array<int, N + 1> from{};
  for (int j = 1; j <= n; ++j)
    for (int i = j - 1; i >= 0; --i) {
      const bool alone = i == j - 1;
      if (!alone && (f.choice == Choice::never ||
                     layers[static_cast<std::size_t>(i)].kind == MergeKind::none))
        break;
      if (!alone && !MergeChain{layers.data() + i, j - i}.is_served()) continue;
      const double all = best[static_cast<std::size_t>(i)] + seconds(i, j);
      if (!alone && !(all < best[static_cast<std::size_t>(j)])) continue;
      best[static_cast<std::size_t>(j)] = all;
      from[static_cast<std::size_t>(j)] = i;
    }
  MergePlan<N> plan;
  for (int j = n; j > 0; j = from[static_cast<std::size_t>(j)]) ++plan.chains;
  int c                                     = plan.chains;
  plan.begin[static_cast<std::size_t>(c--)] = n;
  for (int j = n; j > 0; j = from[static_cast<std::size_t>(j)])
    plan.begin[static_cast<std::size_t>(c--)] = from[static_cast<std::size_t>(j)];
  return plan;
}

template <class Option>
inline constexpr int expected_extents_v = 0;
template <index_t... N>
inline constexpr int expected_extents_v<ExpectedShard<N...>> = static_cast<int>(sizeof...(N));

/// The parameters from the options of a MergeHalos.
template <class Merging>
struct MergeFiguresOf;
template <class... Options>
struct MergeFiguresOf<MergeHalos<Options...>> {
  static constexpr bool is_choice = (std::is_same_v<Options, MergeAlways> || ... || false) ||
                                    (std::is_same_v<Options, MergeNever> || ... || false);
  template <index_t... N>
  static constexpr void read(MergeFigures& f, ExpectedShard<N...>) {
    std::size_t d = 0;
    ((f.shard[d++] = static_cast<double>(N)), ...);
  }
  template <const MergeMachine& Machine>
  static constexpr void read(MergeFigures& f, OnMachine<Machine>) {
    f.machine = Machine;
  }
  static constexpr void read(MergeFigures& f, MergeAlways) {
    f.choice = MergeFigures::Choice::always;
  }
  static constexpr void read(MergeFigures& f, MergeNever) {
    f.choice = MergeFigures::Choice::never;
  }
  template <class Other>
  static constexpr void read(MergeFigures&, Other) {
    static_assert(!std::is_same_v<Other, Other>,
                  "merge_halos takes an ExpectedShard, MergeAlways or MergeNever, and OnMachine");
  }

  /// For a model of values of ValueBytes bytes, with `Dims` spatial dimensions.
  template <int Dims>
  static constexpr MergeFigures make(std::size_t value_bytes) {
    static_assert(is_choice || (expected_extents_v<Options> + ... + 0) == Dims + 2,
                  "merge_halos needs an ExpectedShard<batch, channels, space...> with all "
                  "dimensions of the model, or MergeAlways, or MergeNever");
    MergeFigures f;
    f.choice      = MergeFigures::Choice::cheapest;
    f.value_bytes = static_cast<double>(value_bytes);
    (read(f, Options{}), ...);
    return f;
  }
};

/// The chains of a list of modules.
template <class List, class Cuts, class Merging, std::size_t ValueBytes, bool Converted>
struct ListChains;
template <class... Children, class Cuts, class Merging, std::size_t ValueBytes, bool Converted>
struct ListChains<ModuleList<Children...>, Cuts, Merging, ValueBytes, Converted> {
  static constexpr std::size_t size = sizeof...(Children);
  static constexpr std::array<MergeLayer, size> layers{
      MergeLayerOf<decltype(Children::module), Cuts, Converted>::value...};
  static constexpr MergePlan<size> plan =
      plan_chains(layers, MergeFiguresOf<Merging>::template make<Cuts::dims>(ValueBytes));
  static constexpr bool any = plan.chains < static_cast<int>(size);
  static constexpr int begin(int chain) { return plan.begin[static_cast<std::size_t>(chain)]; }

  /// Chain `c`, its first layer being number `first` of the model.
  static constexpr HaloChain chain(int c, int first) {
    const MergeChain of{layers.data() + begin(c), begin(c + 1) - begin(c)};
    HaloChain result{first, of.count, {}};
    for (int d = 0; d < Cuts::dims; ++d)
      result.halo[static_cast<std::size_t>(d)] = {of.halo(0, d).lo, of.halo(0, d).hi};
    return result;
  }
};

/// Walks a model's type.
template <class Cuts, class Merging, std::size_t ValueBytes>
struct ChainFinder {
  HaloChains found;
  int layer = 0;

  template <class Node>
  constexpr void visit(const Node*) {
    ++layer;
  }
  template <class... Children>
  constexpr void visit(const ModuleList<Children...>*) {
    list(static_cast<typename Flattened<ModuleList<Children...>>::type*>(nullptr));
  }
  template <class List>
  constexpr void visit(const ResidualModule<List>*) {
    visit(static_cast<const List*>(nullptr));
  }
  template <class List>
  constexpr void visit(const ConcatModule<List>*) {
    visit(static_cast<const List*>(nullptr));
  }

 private:
  template <class... Children>
  constexpr void list(const ModuleList<Children...>*) {
    using Chains = ListChains<ModuleList<Children...>, Cuts, Merging, ValueBytes, false>;
    int child = 0, c = 0;
    const auto one = [&](const auto* module) {
      if (Chains::begin(c) == child) {
        if (Chains::begin(c + 1) - child > 1) found.add(Chains::chain(c, layer));
        ++c;
      }
      ++child;
      visit(module);
    };
    (one(static_cast<const decltype(Children::module)*>(nullptr)), ...);
  }
};

}  // namespace impl

/// The chains into which `Merging`, a MergeHalos<...>, merges the layers of a model of this type,
/// its fields sharded by `Cuts` (see domain_parallel): at compile time.
template <class ModelType, class Merging, class... Cuts>
constexpr HaloChains halo_chains() {
  using Root = typename ModelType::root_type;
  using Axes = typename impl::CutAxesOf<impl::model_dims_v<Root, Cuts...>, Cuts...>::type;
  impl::ChainFinder<Axes, Merging, sizeof(typename ModelType::value_type)> finder{};
  finder.visit(static_cast<const Root*>(nullptr));
  return finder.found;
}

/// The cost of consecutive layers on shards of the extents [batch, channel, space...], sharded by
/// `Cuts`, for values of this many bytes. Channels are the layers' own. Layers that can't be merged
/// (see docs/models.md) have an infinite merged cost.
template <class... Cuts, std::size_t Rank, class... Layers>
constexpr MergingCost merging_cost(const std::array<index_t, Rank>& shard, int value_bytes,
                                   const MergeMachine& machine, const Layers&... layers) {
  using Axes = typename impl::CutAxesOf<static_cast<int>(Rank) - 2, Cuts...>::type;
  impl::MergeFigures f;
  for (std::size_t d = 0; d < Rank; ++d) f.shard[d] = static_cast<double>(shard[d]);
  f.machine            = machine;
  f.value_bytes        = value_bytes;
  index_t channels     = shard[1];
  const auto described = [&](const auto& layer) {
    auto l = impl::merge_layer<std::remove_cvref_t<decltype(layer)>, Axes>();
    l.in   = channels;
    if constexpr (requires { layer.groups, layer.out; }) {
      l.groups = layer.groups;
      channels = layer.out;
    }
    l.out = channels;
    return l;
  };
  const std::array<impl::MergeLayer, sizeof...(Layers)> all{described(layers)...};
  MergingCost cost;
  for (const impl::MergeLayer& l : all)
    cost.separate += impl::chain_seconds(impl::MergeChain{&l, 1}, f);
  const impl::MergeChain chain{all.data(), static_cast<int>(all.size())};
  cost.merged =
      chain.is_served() ? impl::chain_seconds(chain, f) : std::numeric_limits<double>::infinity();
  return cost;
}

}  // namespace shard

#endif
