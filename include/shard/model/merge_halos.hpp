// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_MERGE_HALOS_HPP
#define SHARD_MODEL_MERGE_HALOS_HPP

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "shard/exchange/exchange_tangent.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/layers/impl/convolution_kernels.hpp"
#include "shard/model/domain_parallel.hpp"
#include "shard/model/merge_plan.hpp"
#include "shard/model/impl/merged_level.hpp"

/// \file
/// Merged exchanges of consecutive layers: the input's halo is as deep as the sum of their halos,
/// each layer computes the owned points and the remaining halo, and points outside the domain are
/// updated before each layer. The intermediate values are plain local arrays.

namespace shard {

namespace impl {

/// Modules with one merged exchange, in a MergedList.
template <class... Children>
struct MergedModule {
  std::tuple<Children...> children;  ///< Child<...> in order
};

/// The modules of a list with merged exchanges as given by `Chains`. Names and numbers are those of
/// the list.
template <class Chains, class Grouped, class... Children>
struct MergedList : ModuleList<Children...> {
  using chains = Chains;  ///< ListChains
  Grouped grouped;        ///< the same modules as they run: a ModuleList with MergedModules
};

/// The halo and boundary of a chain's input: the deep halo, with the first layer's boundary.
template <class Cuts, class... Children>
struct ChainWantsOf {
  static constexpr std::array<MergeLayer, sizeof...(Children)> layers{
      MergeLayerOf<decltype(Children::module), Cuts, true>::value...};
  static constexpr MergeChain chain{layers.data(), static_cast<int>(sizeof...(Children))};
  using First =
      typename std::tuple_element_t<0, std::tuple<decltype(Children::module)...>>::layer_type;

  template <int D>
  static constexpr LowHigh halo() {
    if constexpr (Cuts::template is_cut<D>)
      return chain.halo(0, D);
    else
      return halo_of_layer<First, Cuts, D>();
  }
  template <int D>
  static auto boundary() {
    if constexpr (halo<D>().lo + halo<D>().hi == 0)
      return std::type_identity<Zero>{};
    else if constexpr (!Cuts::template is_cut<D> || layers[0].at(D).reaches())
      return std::type_identity<typename BoundaryOfLayer<First, D>::type>{};
    else
      return std::type_identity<std::conditional_t<chain.wraps(0, D), Periodic, Zero>>{};
  }
  template <int... D>
  static auto make(std::integer_sequence<int, D...>)
      -> Wants<Want<halo<D>().lo, halo<D>().hi, typename decltype(boundary<D>())::type>...>;
  using type = decltype(make(std::make_integer_sequence<int, Cuts::dims>{}));
};

/// Layers with one merged exchange. The intermediate values are no fields, so the model doesn't
/// place them.
template <class Types, class Space, class... Children>
class MergedRecord final
    : public FieldsRecord<Types, typename ChainWantsOf<typename Types::Cuts, Children...>::type,
                          NoWants<Types::Cuts::dims>, 1, Space> {
  using Plan                 = ChainWantsOf<typename Types::Cuts, Children...>;
  static constexpr int count = static_cast<int>(sizeof...(Children));
  using Fields = FieldsRecord<Types, typename Plan::type, NoWants<Types::Cuts::dims>, 1, Space>;
  using Base   = typename Types::Base;

 public:
  using Node       = MergedModule<Children...>;
  using Wants      = typename Plan::type;
  using In         = typename Fields::In;
  using Partitions = typename Types::Partitions;

  explicit MergedRecord(const Node& node) : node_(node) {}

  static Partitions partitions(const Node& node, const Partitions& in) {
    Partitions out = in;
    std::apply([&](const auto&... c) { ((out = partitions_after(c.module.layer(), out)), ...); },
               node.children);
    return out;
  }
  /// Allocates the intermediate values.
  void build() override {
    const In& x    = Fields::in(FieldKind::values)[0];
    auto layers    = Plan::layers;
    std::size_t at = 0;
    std::apply([&](const auto&... c) { (read_figures(layers[at++], c.module.layer()), ...); },
               node_.children);
    out_ = partitions(node_, x.partitions());
    plan_levels(layers.data(), count, x.geometry(), out_.data() + 2, levels_.data());
    batch_ = x.extent(0);
    for (int l = 1; l < count; ++l) {
      values_[place(l)] = Cells("shard::merged activation", size_of(l));
      if (layers[place(l)].kind == MergeKind::max_pool)
        taps_[place(l)] = Taps("shard::max_pool taps", static_cast<std::size_t>(outputs_of(l)));
    }
    if (layers[0].kind == MergeKind::max_pool)
      taps_[0] = Taps("shard::max_pool taps", static_cast<std::size_t>(outputs_of(0)));
  }

  void apply(const Space& space) override {
    const Base& y = Fields::out(FieldKind::values);
    const In& x   = Fields::in(FieldKind::values)[0];
    require(y);
    exchange(space, x);
    for_layers(space, [&]<int L>(Index<L>, const auto& here) {
      here.apply(output<L>(values_, owned_block(local(y))), input<L>(values_, x));
      renew<L>(space, values_, false);
    });
    mark_written(space, y);
  }
  void pushforward(const Space& space) override {
    const Base& ty = Fields::out(FieldKind::tangents);
    const In &tx = Fields::in(FieldKind::tangents)[0], &x = Fields::in(FieldKind::values)[0];
    require(ty);
    make_partners();
    exchange_tangent(space, tx);
    for_layers(space, [&]<int L>(Index<L>, const auto& here) {
      here.pushforward(output<L>(partners_, owned_block(local(ty))), input<L>(partners_, tx),
                       input<L>(values_, x));
      renew<L>(space, partners_, true);
    });
    mark_written(space, ty);
  }
  void pullback(const Space& space, const std::vector<bool>& wanted) override {
    require(Fields::out(FieldKind::adjoints));
    const int least = wanted[0] ? 0 : first_learning();
    if (least >= count) return;
    make_partners();
    pull<count - 1>(space, least, wanted[0]);
    if (wanted[0]) exchange_adjoint(space, Fields::in(FieldKind::adjoints)[0]);
  }

 private:
  using T      = typename In::non_const_value_type;
  using Memory = typename In::memory_space;
  using Cells  = Kokkos::View<T*, Memory>;
  using Taps   = Kokkos::View<int*, Memory>;
  template <int L>
  using Index  = std::integral_constant<int, L>;
  using Arrays = std::array<Cells, static_cast<std::size_t>(count)>;

  static constexpr std::size_t place(int l) { return static_cast<std::size_t>(l); }

  template <class Layer>
  static void read_figures(MergeLayer& to, const Layer& layer) {
    if constexpr (Merging<Layer>::kind == MergeKind::convolution) {
      to.in     = layer.in;
      to.out    = layer.out;
      to.groups = layer.groups;
    }
  }

  std::size_t size_of(int l) const {
    return static_cast<std::size_t>(batch_ * levels_[place(l)].cells());
  }
  index_t outputs_of(int l) const {
    const MergedLevel& level = levels_[place(l + 1)];
    return batch_ * level.channels * level_block<T>(level, 1, nullptr, false).cells();
  }
  /// Adjoints or tangents: only those of one layer's input and output are needed at a time.
  void make_partners() {
    if (has_partners_) return;
    has_partners_       = true;
    std::size_t most[2] = {0, 0};
    for (int l = 1; l < count; ++l) most[l % 2] = std::max(most[l % 2], size_of(l));
    for (int l = 1; l < count; ++l)
      partners_[place(l)] =
          l < 3 ? Cells("shard::merged adjoint", most[l % 2]) : partners_[place(l - 2)];
  }

  /// The first layer whose parameters aren't frozen; none: count.
  int first_learning() const {
    int first = count, l = 0;
    const auto look = [&](const auto& module) {
      using M = std::remove_cvref_t<decltype(module)>;
      if (has_parameters_v<typename M::layer_type, T, typename M::memory_space> &&
          !module.is_frozen() && first == count)
        first = l;
      ++l;
    };
    std::apply([&](const auto&... c) { (look(c.module), ...); }, node_.children);
    return first;
  }

  template <class Y>
  void require(const Y& y) const {
    for (int d = 0; d < Y::rank; ++d)
      require_same_partition("domain_parallel: merged layers", y.label(), d, y.partition(d),
                             out_[place(d)]);
  }

  /// The points that layer L computes and reads.
  template <int L>
  Block<T> output(const Arrays& arrays, const Block<T>& last) const {
    if constexpr (L + 1 == count)
      return last;
    else
      return level_block(levels_[L + 1], batch_, arrays[L + 1].data(), false);
  }
  template <int L, class X>
  Block<const T> input(const Arrays& arrays, const X& x) const {
    if constexpr (L == 0)
      return haloed_input(x);
    else
      return as_const(level_block(levels_[L], batch_, arrays[L].data(), true));
  }
  /// Sets the points outside the domain for the layer after L.
  template <int L>
  void renew(const Space& space, const Arrays& arrays, bool tangent) const {
    if constexpr (L + 1 < count)
      if (levels_[L + 1].any_beyond)
        OutsideKernels<Space, T>::fill(
            space, level_block(levels_[L + 1], batch_, arrays[L + 1].data(), true),
            levels_[L + 1].edges, tangent);
  }

  template <int L>
  auto layer(const Space& space) const {
    const auto& module = std::get<L>(node_.children).module;
    return MergedLayer<std::remove_cvref_t<decltype(module)>, Space>{module, space, levels_[L],
                                                                     taps_[L].data()};
  }
  template <class Call>
  void for_layers(const Space& space, const Call& call) const {
    [&]<int... L>(std::integer_sequence<int, L...>) { (call(Index<L>{}, layer<L>(space)), ...); }
    (std::make_integer_sequence<int, count>{});
  }

  /// Layers L and below, down to the first whose gradients are wanted, `least`.
  template <int L>
  void pull(const Space& space, int least, bool wants_dx) {
    using M         = std::remove_cvref_t<decltype(std::get<L>(node_.children).module)>;
    const In& x     = Fields::in(FieldKind::values)[0];
    const auto here = layer<L>(space);
    const auto from = [&] {
      if constexpr (L + 1 == count)
        return owned_input(Fields::out(FieldKind::adjoints));
      else
        return as_const(level_block(levels_[L + 1], batch_, partners_[L + 1].data(), false));
    }();
    if constexpr (MergedLayer<M, Space>::has_parameters)
      if (!here.owner.is_frozen()) here.pullback_parameters(from, input<L>(values_, x));
    if constexpr (L > 0) {
      if (L <= least) return;
      const auto to = level_block(levels_[L], batch_, partners_[L].data(), true);
      here.pullback_input(to, from, input<L>(values_, x));
      if (levels_[L].any_beyond) OutsideKernels<Space, T>::gather(space, to, levels_[L].edges);
      pull<L - 1>(space, least, wants_dx);
    } else if (wants_dx) {
      here.pullback_input(haloed_block(local(Fields::in(FieldKind::adjoints)[0])), from,
                          input<L>(values_, x));
    }
  }

  Node node_;
  std::array<MergedLevel, static_cast<std::size_t>(count) + 1> levels_;
  Partitions out_;
  index_t batch_     = 0;
  bool has_partners_ = false;
  Arrays values_, partners_;
  std::array<Taps, static_cast<std::size_t>(count)> taps_;
};

template <class Cuts, class... Children>
struct NodeWants<Cuts, MergedModule<Children...>> : ChainWantsOf<Cuts, Children...> {};
template <class Cuts, class Chains, class Grouped, class... Children>
struct NodeWants<Cuts, MergedList<Chains, Grouped, Children...>> : NodeWants<Cuts, Grouped> {};

template <class Recorder, class... Children>
int run_node(Recorder& recorder, const MergedModule<Children...>& node, int x,
             const typename Recorder::Partitions*) {
  using Record =
      MergedRecord<typename Recorder::ModelTypes, typename Recorder::execution_space, Children...>;
  return recorder.template record<typename Record::Wants>(
      std::make_unique<Record>(node), std::array{x},
      {Record::partitions(node, recorder.partitions(x)), recorder.is_replicated(x)},
      std::array{false}, true);
}
template <class Recorder, class Chains, class Grouped, class... Children>
int run_node(Recorder& recorder, const MergedList<Chains, Grouped, Children...>& list, int x,
             const typename Recorder::Partitions* meet) {
  return run_node(recorder, list.grouped, x, meet);
}

/// Groups the modules of a model that domain_parallel made.
template <class Cuts, class Merging, std::size_t ValueBytes>
struct HaloMerger {
  template <class... Children>
  static auto merge(const ModuleList<Children...>& list) {
    const auto inside = merge_inside(list);
    using Flat        = typename Flattened<std::remove_cv_t<decltype(inside)>>::type;
    using Chains      = ListChains<Flat, Cuts, Merging, ValueBytes, true>;
    if constexpr (Chains::any)
      return grouped<Chains>(inside, flat(inside));
    else
      return inside;
  }

  /// The blocks that are members of a struct.
  template <class S, class List>
  static auto merge(const StructModule<S, List>& m) {
    auto inner = std::apply(
        [](const auto&... c) {
          const auto one = [](const auto& child) {
            auto node = merge_member(child.module);
            return Child<std::remove_cvref_t<decltype(child)>::name, decltype(node)>{
                std::move(node)};
          };
          return ModuleList<decltype(one(c))...>{{one(c)...}};
        },
        m.inner.children);
    return StructModule<S, decltype(inner)>{m.self, std::move(inner)};
  }

 private:
  template <class Node>
  static auto merge_member(const Node& m) {
    return visit(m);
  }
  template <class... Children>
  static auto merge_member(const ModuleList<Children...>& list) {
    return merge(list);
  }
  template <class Node>
  static auto visit(const Node& m) {
    return m;
  }
  template <class... Children>
  static auto visit(const ModuleList<Children...>& list) {
    if constexpr (joins_list_v<ModuleList<Children...>>)
      return merge_inside(list);
    else
      return merge(list);
  }
  template <class M>
  static auto visit(const ModuleArray<M>& array) {
    ModuleArray<decltype(merge_member(std::declval<const M&>()))> merged;
    for (const M& item : array.items) merged.items.push_back(merge_member(item));
    return merged;
  }
  template <class S, class List>
  static auto visit(const StructModule<S, List>& m) {
    return merge(m);
  }
  template <class List>
  static auto visit(const ResidualModule<List>& m) {
    auto inner = merge(m.inner);
    return ResidualModule<decltype(inner)>{std::move(inner)};
  }
  template <class List>
  static auto visit(const ConcatModule<List>& m) {
    auto inner = merge(m.inner);
    return ConcatModule<decltype(inner)>{std::move(inner)};
  }

  template <class... Children>
  static auto merge_inside(const ModuleList<Children...>& list) {
    return std::apply(
        [](const auto&... c) {
          const auto one = [](const auto& child) {
            auto m = visit(child.module);
            return Child<std::remove_cvref_t<decltype(child)>::name, decltype(m)>{std::move(m)};
          };
          return ModuleList<decltype(one(c))...>{{one(c)...}};
        },
        list.children);
  }

  /// The children as a tuple, with blocks flattened.
  template <class... Children>
  static auto flat(const ModuleList<Children...>& list) {
    return std::apply([](const auto&... c) { return std::tuple_cat(flat_child(c, c.module)...); },
                      list.children);
  }
  template <class C, class Node>
  static auto flat_child(const C& child, const Node&) {
    return std::tuple<C>(child);
  }
  template <class C, class... Inner>
  static auto flat_child(const C& child, const ModuleList<Inner...>& list) {
    if constexpr (joins_list_v<ModuleList<Inner...>>)
      return flat(list);
    else
      return std::tuple<C>(child);
  }

  template <class Chains, class... Children, class Flat>
  static auto grouped(const ModuleList<Children...>& list, const Flat& all) {
    return [&]<int... C>(std::integer_sequence<int, C...>) {
      using Grouped = ModuleList<decltype(chain<Chains, C>(all))...>;
      return MergedList<Chains, Grouped, Children...>{list, {{chain<Chains, C>(all)...}}};
    }
    (std::make_integer_sequence<int, Chains::plan.chains>{});
  }
  template <class Chains, int C, class Flat>
  static auto chain(const Flat& all) {
    constexpr int begin = Chains::begin(C), count = Chains::begin(C + 1) - begin;
    return group<begin>(all, std::make_index_sequence<static_cast<std::size_t>(count)>{});
  }
  template <int Begin, class Flat, std::size_t... I>
  static auto group(const Flat& all, std::index_sequence<I...>) {
    if constexpr (sizeof...(I) == 1) {
      return std::get<Begin>(all);
    } else {
      using Merged = MergedModule<std::tuple_element_t<Begin + I, Flat>...>;
      return Child<FixedString<1>{""}, Merged>{Merged{{std::get<Begin + I>(all)...}}};
    }
  }
};

}  // namespace impl

/// The same with merged exchanges (see merge_halos), an argument before the converters. The forward
/// result is bitwise that of the model without merging.
template <class... Cuts, class T, class Memory, class Root, class... MeshAxes, class... Options,
          class... Converters>
auto domain_parallel(const Model<T, Memory, Root>& model, const Mesh<MeshAxes...>& mesh,
                     const MergeHalos<Options...>&, const Converters&... converters) {
  using Axes   = typename impl::CutAxesOf<impl::model_dims_v<Root, Cuts...>, Cuts...>::type;
  using Merger = impl::HaloMerger<Axes, MergeHalos<Options...>, sizeof(T)>;
  const auto merged =
      Merger::merge(impl::Converter<Axes, Cuts...>::own(model.root(), converters...));
  return ShardedModel<T, Memory, std::remove_cv_t<decltype(merged)>, Mesh<MeshAxes...>, Axes>(
      mesh, merged, model);
}

}  // namespace shard

#endif
