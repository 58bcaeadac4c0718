// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_DOMAIN_PARALLEL_HPP
#define SHARD_MODEL_DOMAIN_PARALLEL_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "shard/autodiff/halo_exchange.hpp"
#include "shard/mesh/mesh.hpp"
#include "shard/model/arena.hpp"
#include "shard/model/cut.hpp"
#include "shard/model/runner.hpp"
#include "shard/model/runner_skips.hpp"
#include "shard/model/sequential.hpp"

namespace shard {

/// A layer that looks past its shard where fields are cut by `Cuts` (see domain_parallel): the
/// layer itself, which exchanges what it needs. Made by `domain_parallel`.
template <class Layer, class... Cuts>
struct DomainParallel : Layer {
  using serial_type = Layer;  ///< what was replaced

  DomainParallel() = default;
  /// The layer itself.
  explicit DomainParallel(const Layer& serial) : Layer(serial) {}

  /// What was replaced.
  const Layer& layer() const { return *this; }
  /// The halo that shards need in dimension `D` in space where they begin and end at multiples of
  /// the stride: that of most fields.
  template <int D>
  using aligned_halo = Halo<impl::aligned_sides<Layer>(D).lo, impl::aligned_sides<Layer>(D).hi>;
  /// The halo of the fields that it is given in a model: enough for every partition.
  template <int D>
  using required_halo = Halo<impl::required_sides<Layer>(D).lo, impl::required_sides<Layer>(D).hi>;
  /// A GroupNorm's groups and channels, under PyTorch's names.
  index_t num_groups() const requires requires(const Layer& l) { l.groups, l.channels; }
  { return this->groups; }
  index_t num_channels() const requires requires(const Layer& l) { l.channels; }
  { return this->channels; }
  /// Cells of a window along dimension `d` in space, and from one to the next.
  static constexpr int kernel(int d) requires requires { Layer::window(0); }
  { return Layer::window(d).kernel; }
  static constexpr int stride(int d) requires requires { Layer::window(0); }
  { return Layer::window(d).stride; }
  /// An Interpolate's rule, under PyTorch's name: "nearest", "linear", "bicubic" or "area".
  static constexpr std::string_view mode() requires requires { Layer::rule; }
  {
    using Rule = std::remove_const_t<decltype(Layer::rule)>;
    return Layer::rule == Rule::nearest ? "nearest"
           : Layer::rule == Rule::cubic ? "bicubic"
           : Layer::rule == Rule::area  ? "area"
                                        : "linear";
  }
  /// The exchange that it makes of its input [batch, channel, space...], as an operation.
  static constexpr auto halo_exchange() {
    using Axes = typename impl::CutAxesOf<Layer::dims, Cuts...>::type;
    return []<int... D>(std::integer_sequence<int, D...>) {
      return HaloExchange<
          ShardDim<D + 2, typename Axes::template axis<D>, required_halo_t<Layer, D>,
                   typename impl::BoundaryOfLayer<Layer, D>::type>...>{};
    }
    (std::make_integer_sequence<int, Layer::dims>{});
  }
};

/// Where the layer itself says how it is cut, so does the one that replaces it.
template <class Layer, class... Cuts>
requires(!requires { Layer::sharding; }) struct sharding_rule<DomainParallel<Layer, Cuts...>>
    : sharding_rule<Layer> {
};

namespace impl {

/// Whether a module's layer is a `Layer<...>`.
template <class M, template <class...> class Layer>
struct IsModuleOfTemplate : std::false_type {};
template <class T, class Memory, template <class...> class Layer, class... Arguments>
struct IsModuleOfTemplate<Module<T, Memory, Layer<Arguments...>>, Layer> : std::true_type {};

/// Whether it is this one.
template <class M, class Layer>
struct IsModuleOf : std::false_type {};
template <class T, class Memory, class Layer>
struct IsModuleOf<Module<T, Memory, Layer>, Layer> : std::true_type {};

}  // namespace impl

/// A converter of modules of a template of layers or of one type: what `on` makes.
template <template <class...> class Layer, class Make>
struct ConverterOf {
  Make make;  ///< from the module, another module
  /// Whether it is for this module.
  template <class M>
  static constexpr bool matches() {
    return impl::IsModuleOfTemplate<M, Layer>::value;
  }
};
/// The same of one type of layer.
template <class Layer, class Make>
struct ConverterOfType {
  Make make;  ///< from the module, another module
  /// Whether it is for this module.
  template <class M>
  static constexpr bool matches() {
    return impl::IsModuleOf<M, Layer>::value;
  }
};

/// A custom converter: modules of any `Layer<...>` are replaced by what make(module) returns, a
/// module (see `with_layer`), or a block of them.
template <template <class...> class Layer, class Make>
ConverterOf<Layer, Make> on(const Make& make) {
  return {make};
}
/// The same of one type of layer.
template <class Layer, class Make>
ConverterOfType<Layer, Make> on(const Make& make) {
  return {make};
}

/// Another layer with the same parameters, the same memory.
template <class T, class Memory, class Layer, class Other>
Module<T, Memory, Other> with_layer(const Module<T, Memory, Layer>& module, const Other& layer) {
  return {
      layer,       module.parameters(), module.gradients(), module.frozen_state(), module.buffers(),
      module.run()};
}

namespace impl {

/// Modules as they run cut by `Cuts`.
template <class Axes, class... Cuts>
struct Converter {
  template <class Node, class First, class... Rest>
  static constexpr bool any_matches() {
    if constexpr (First::template matches<Node>())
      return true;
    else if constexpr (sizeof...(Rest) > 0)
      return any_matches<Node, Rest...>();
    else
      return false;
  }
  template <class Node, class First, class... Rest>
  static auto custom(const Node& node, const First& first, const Rest&... rest) {
    if constexpr (First::template matches<Node>())
      return first.make(node);
    else
      return custom(node, rest...);
  }

  template <class Node, class... Converters>
  static auto convert(const Node& node, const Converters&... converters) {
    if constexpr (any_matches_of<Node, Converters...>())
      return custom(node, converters...);
    else
      return own(node, converters...);
  }
  template <class Node, class... Converters>
  static constexpr bool any_matches_of() {
    if constexpr (sizeof...(Converters) == 0)
      return false;
    else
      return any_matches<Node, Converters...>();
  }

  template <class T, class Memory, class Layer, class... Converters>
  static auto own(const Module<T, Memory, Layer>& m, const Converters&...) {
    static_assert(require_sharding_rules<Layer, Axes>());
    if constexpr (looks_past_any_shard_v<Layer, Axes>)
      return with_layer(m, DomainParallel<Layer, Cuts...>(m.layer()));
    else
      return m;
  }
  template <class... Children, class... Converters>
  static auto own(const ModuleList<Children...>& list, const Converters&... converters) {
    return std::apply(
        [&](const auto&... c) {
          const auto one = [&](const auto& child) {
            auto m = convert(child.module, converters...);
            return Child<std::remove_cvref_t<decltype(child)>::name, decltype(m)>{std::move(m)};
          };
          return ModuleList<decltype(one(c))...>{{one(c)...}};
        },
        list.children);
  }
  template <class List, class... Converters>
  static auto own(const ResidualModule<List>& m, const Converters&... converters) {
    auto inner = own(m.inner, converters...);
    return ResidualModule<decltype(inner)>{std::move(inner)};
  }
  template <class List, class... Converters>
  static auto own(const ConcatModule<List>& m, const Converters&... converters) {
    auto inner = own(m.inner, converters...);
    return ConcatModule<decltype(inner)>{std::move(inner)};
  }
};

/// Dimensions in space of the first window in a module, 0 if it has none.
template <class Node>
struct DimsOfNode {
  static constexpr int value = 0;
};
template <class T, class Memory, class Layer>
struct DimsOfNode<Module<T, Memory, Layer>> {
  static constexpr int value = [] {
    if constexpr (requires { Layer::dims; })
      return Layer::dims;
    else
      return 0;
  }();
};
template <class... Children>
struct DimsOfNode<ModuleList<Children...>> {
  static constexpr int value = [] {
    int dims = 0;
    ((dims = dims > 0 ? dims : DimsOfNode<decltype(Children::module)>::value), ...);
    return dims;
  }();
};
template <class List>
struct DimsOfNode<ResidualModule<List>> : DimsOfNode<List> {};
template <class List>
struct DimsOfNode<ConcatModule<List>> : DimsOfNode<List> {};

/// The dimensions in space that there must be for a cut: none for a mesh axis by itself.
template <class C>
inline constexpr int dims_for_cut_v = 0;
template <int Dim, class Axis>
inline constexpr int dims_for_cut_v<Cut<Dim, Axis>> = Dim < 0 ? -Dim : Dim - 1;

/// Dimensions in space of a model: its windows', else as few as serve the cuts.
template <class Root, class... Cuts>
inline constexpr int model_dims_v = [] {
  if (DimsOfNode<Root>::value > 0) return DimsOfNode<Root>::value;
  int dims = sizeof...(Cuts) > 0 ? static_cast<int>(sizeof...(Cuts)) : 2;
  ((dims = dims > dims_for_cut_v<Cuts> ? dims : dims_for_cut_v<Cuts>), ...);
  return dims;
}();

}  // namespace impl

/// A model on a mesh, its fields cut by `Cuts`: what `domain_parallel` makes. It is an operation
/// (see autodiff/operation.hpp): it stands on a tape and in a chain. Copies share all memory.
template <class T, class Memory, class Root, class MeshType, class Axes>
class ShardedModel {
  using Types  = impl::RunTypes<T, Memory, Axes>;
  using Runner = impl::Runner<Types, Axes, Root, impl::NoWants<Axes::dims>>;

 public:
  static constexpr bool remembers        = true;        ///< its activations
  static constexpr bool takes_not_wanted = true;        ///< the input's adjoint may be left out
  using axes_type                        = Axes;        ///< what cuts its fields
  static constexpr int rank              = Axes::rank;  ///< of its fields
  using Input      = typename Runner::In;   ///< the field that goes in, with the first layer's halo
  using Output     = typename Runner::Out;  ///< the field that comes out, without halo
  using Partitions = typename Types::Partitions;  ///< of [batch, channel, space...]

  /// For the library's own use: see domain_parallel.
  template <class Original>
  ShardedModel(const MeshType& mesh, const Root& root, const Original& model)
      : mesh_(mesh),
        root_(root),
        parameters_(model.parameters()),
        gradients_(model.gradients()),
        buffers_(model.buffers()),
        run_(model.run()),
        shared_(std::make_shared<Shared>()) {}

  /// A field to put in: global extents [batch, channel, space...]. Collective over the mesh.
  Input input(std::string_view label, const Extents<rank>& extents) const {
    return Input(label, mesh_, extents);
  }
  /// A field for what comes out for this x. Collective over the mesh.
  Output output(const Input& x) const {
    return Output("shard::model output", mesh_, Runner::partitions(root_, x.partitions(), nullptr));
  }

  /// From now on what lies between layers is rounded to this format, and kept in two bytes a value
  /// until the pullback: layers compute in T all the same, of rounded values and of parameters that
  /// aren't rounded, and so do adjoints. All memory is made anew at the next call. Local; the same
  /// on every rank.
  void keep_activations(LowPrecision format) const {
    shared_->keeps_apart = true;
    shared_->format      = format;
    shared_->work.reset();
  }
  /// From now on activations are kept as they are, as in a new model.
  void keep_activations_whole() const {
    shared_->keeps_apart = false;
    shared_->work.reset();
  }

  /// Makes all memory that the layers need for fields like x, if it isn't there; apply does it
  /// otherwise, the first time and where x has other partitions than the last one. (That of
  /// adjoints is made with the first pullback, or pushforward.) Collective over the mesh.
  void prepare(const Input& x) const {
    bool ready = shared_->work != nullptr;
    for (int d = 0; d < rank; ++d)
      ready = ready && shared_->work->partitions[static_cast<std::size_t>(d)] == x.partition(d);
    if (ready) return;
    shared_->work.reset();  // both at once may be too much
    auto work        = std::make_unique<Work>();
    work->partitions = x.partitions();
    if (shared_->keeps_apart)
      place_apart(*work);
    else
      place_whole(*work);
    work->runner.build(root_, mesh_, x, nullptr);
    shared_->work = std::move(work);
  }

  /// What the fields between layers take on this rank, those of the last `prepare` or `apply`
  /// (nothing before it). Adjoints and tangents share one allocation, which is as large as the
  /// larger ones of those that live at the same time. Layers' states, the fields of input and
  /// output and their adjoints come on top. Local.
  ModelMemory memory() const {
    if (shared_->work == nullptr) return {};
    const Work& work = *shared_->work;
    if (shared_->keeps_apart)
      return {2 * work.activations.kept_values(), work.activations.bytes(),
              work.activations.apart()};
    return {work.activations.bytes(), std::max(work.adjoints.bytes(), work.tangents.bytes()),
            work.adjoints.apart()};
  }

  /// y = model(x); fills x's halo. Collective over the mesh.
  template <class Space>
  void apply(const Space& space, const Output& y, const Input& x) const {
    prepare(x);
    run_->mark = shared_->mark;
    shared_->work->runner.apply(root_, space, y, x);
    if (run_->training) ++shared_->mark.step;
  }
  /// How often it was applied in training: Dropout's numbers follow from it. A tape notes it and
  /// sets it (see autodiff/operation.hpp).
  ModelMark mark() const { return shared_->mark; }
  /// A run is taken up again there. Local; the same on every rank.
  void set_mark(const ModelMark& mark) const { shared_->mark = mark; }
  /// y = model(x), a field of the model's: it changes with the next call.
  template <class Space>
  const Output& operator()(const Space& space, const Input& x) const {
    prepare(x);
    Work& work = *shared_->work;
    if (!work.y) work.y = std::make_unique<Output>(output(x));
    apply(space, *work.y, x);
    return *work.y;
  }
  /// ty = J tx at the x of the last apply, parameters being constants. Collective over the mesh.
  /// Throws ArgumentError on every rank if there was no apply.
  template <class Space>
  void pushforward(const Space& space, const Output& ty, const Input& tx, const Input& x) const {
    Work& work = applied("pushforward");
    place_partners(work);
    work.runner.pushforward(root_, space, ty, tx, x);
  }
  /// From dy = dJ/dy at the x of the last apply: adds this rank's part to the gradients of all
  /// parameters that aren't frozen, and sets dx = dJ/dx (unless it is `not_wanted`). Collective
  /// over the mesh. Throws ArgumentError on every rank if there was no apply.
  template <class Space, class DX>
  void pullback(const Space& space, const DX& dx, const Output& dy, const Input& x) const {
    Work& work = applied("pullback");
    place_partners(work);
    work.runner.pullback(root_, space, dx, dy, x);
  }

  /// The module of layer `I`.
  template <int I>
  const auto& get() const {
    return std::get<static_cast<std::size_t>(I)>(root_.children).module;
  }
  /// The module at a path of names and numbers.
  template <impl::FixedString Path>
  const auto& get() const {
    return impl::module_at<Path>(root_);
  }
  /// All modules as they run.
  const Root& root() const { return root_; }
  /// The mesh.
  const MeshType& mesh() const { return mesh_; }
  /// All parameters: the model's that it was made of.
  const ParameterArena<T, Memory>& parameters() const { return parameters_; }
  /// This rank's part of their gradients.
  const ParameterArena<T, Memory>& gradients() const { return gradients_; }
  /// What layers keep besides: the model's that it was made of.
  const ParameterArena<double, Memory>& buffers() const { return buffers_; }
  /// As the model's that it was made of, which is set too.
  void set_training(bool training) const { run_->training = training; }
  /// Whether it is trained.
  bool is_training() const { return run_->training; }

 private:
  using Array      = Kokkos::View<T*, Kokkos::LayoutRight, Memory>;
  using FieldArena = impl::FieldArena<T>;

  struct Work {
    Partitions partitions;
    Array memory;    ///< of activations
    Array partners;  ///< of their adjoints and tangents
    Kokkos::View<std::uint16_t*, Kokkos::LayoutRight, Memory> kept;  ///< activations, if so
    FieldArena activations, adjoints, tangents;
    bool has_partners = false;
    Runner runner;
    std::unique_ptr<Output> y;
  };
  /// By all copies.
  struct Shared {
    ModelMark mark;
    bool keeps_apart    = false;
    LowPrecision format = LowPrecision::bfloat16;
    std::unique_ptr<Work> work;
  };
  static constexpr int io = FieldArena::none;  ///< what goes in and comes out isn't the model's

  static std::size_t values_in(index_t bytes) {
    return static_cast<std::size_t>(bytes) / sizeof(T);
  }
  Work& applied(std::string_view function) const {
    if (shared_->work == nullptr)
      impl::throw_argument("ShardedModel::" + std::string(function),
                           {"it is at the x of the last apply, and there was none"});
    return *shared_->work;
  }
  /// Activations that live all the time, and places for adjoints and tangents.
  void place_whole(Work& work) const {
    work.runner.activations(work.activations, root_, mesh_, work.partitions, nullptr);
    work.activations.close();
    work.memory = Array("shard::activations", values_in(work.activations.bytes()));
    work.activations.place(work.memory.data());
    work.runner.adjoints(work.adjoints, io, io);
    work.runner.tangents(work.tangents, io, io);
    work.adjoints.close();
    work.tangents.close();
  }
  /// All of them in one arena, activations as long as layers work on them.
  void place_apart(Work& work) const {
    FieldArena& all = work.activations;
    all.keeps_apart = true;
    work.runner.activations(all, root_, mesh_, work.partitions, nullptr);
    work.runner.outputs(all, io, io);
    work.runner.adjoints(all, io, io);
    work.runner.tangents(all, io, io);
    all.close();
    work.kept =
        decltype(work.kept)("shard::activations", static_cast<std::size_t>(all.kept_values()));
    work.memory = Array("shard::adjoints", values_in(all.bytes()));
    all.place(work.memory.data(), work.kept.data(), shared_->format);
    work.has_partners = true;
  }
  /// Makes the memory of adjoints and tangents, if it isn't there.
  static void place_partners(Work& work) {
    if (work.has_partners) return;
    const index_t bytes = std::max(work.adjoints.bytes(), work.tangents.bytes());
    work.partners       = Array("shard::adjoints", values_in(bytes));
    work.adjoints.place(work.partners.data());
    work.tangents.place(work.partners.data());
    work.has_partners = true;
  }

  MeshType mesh_;
  Root root_;
  ParameterArena<T, Memory> parameters_, gradients_;
  ParameterArena<double, Memory> buffers_;
  std::shared_ptr<impl::ModelRun> run_;
  std::shared_ptr<Shared> shared_;
};

/// The model with its fields cut over the mesh: layers that look past their shard are replaced by
/// DomainParallel<Layer, Cuts...>, the others stay; parameters are shared, nothing is copied. A cut
/// is a mesh axis (the first cuts the first dimension in space, and so on; `Unsharded` for none) or
/// a `Cut<Dim, Axis>`. Converters (see `on`) come first. A layer that has no rule for a dimension
/// that is cut does not compile. Local.
template <class... Cuts, class T, class Memory, class Root, class... MeshAxes, class... Converters>
auto domain_parallel(const Model<T, Memory, Root>& model, const Mesh<MeshAxes...>& mesh,
                     const Converters&... converters) {
  using Axes      = typename impl::CutAxesOf<impl::model_dims_v<Root, Cuts...>, Cuts...>::type;
  const auto root = impl::Converter<Axes, Cuts...>::own(model.root(), converters...);
  return ShardedModel<T, Memory, std::remove_cv_t<decltype(root)>, Mesh<MeshAxes...>, Axes>(
      mesh, root, model);
}

/// One module: the layer replaced if it looks past its shard, with the same parameters.
template <class... Cuts, class T, class Memory, class Layer, class... MeshAxes>
auto domain_parallel(const Module<T, Memory, Layer>& module, const Mesh<MeshAxes...>&) {
  using Axes = typename impl::CutAxesOf<impl::model_dims_v<Module<T, Memory, Layer>, Cuts...>,
                                        Cuts...>::type;
  return impl::Converter<Axes, Cuts...>::own(module);
}

}  // namespace shard

#endif
