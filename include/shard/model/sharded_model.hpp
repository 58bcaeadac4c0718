// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_SHARDED_MODEL_HPP
#define SHARD_MODEL_SHARDED_MODEL_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "shard/mesh/mesh.hpp"
#include "shard/model/arena.hpp"
#include "shard/model/impl/model_fields.hpp"
#include "shard/model/impl/runner.hpp"
#include "shard/model/impl/runner_skips.hpp"
#include "shard/model/sequential.hpp"

namespace shard {

/// A model on a mesh, with fields sharded by `Cuts`. Made by `domain_parallel`. It is an operation
/// (see autodiff/operation.hpp) for tapes and chains. Copies share all memory.
template <class T, class Memory, class Root, class MeshType, class Axes>
class ShardedModel : public ModelModules<T, Memory, Root> {
  using Modules = ModelModules<T, Memory, Root>;
  using Modules::root_;
  using Modules::run_;
  using Types  = impl::RunTypes<T, Memory, Axes>;
  using Runner = impl::Runner<Types, Axes, Root, impl::NoWants<Axes::dims>>;

 public:
  static constexpr bool remembers        = true;        ///< its activations
  static constexpr bool takes_not_wanted = true;        ///< the input's adjoint may be not_wanted
  using axes_type                        = Axes;        ///< the axes that shard its fields
  static constexpr int rank              = Axes::rank;  ///< of its fields
  using Input      = typename Runner::In;         ///< the input field, with the first layer's halo
  using Output     = typename Runner::Out;        ///< the output field, without halo
  using Partitions = typename Types::Partitions;  ///< of [batch, channel, space...]

  /// For the library's own use: see domain_parallel.
  template <class Original>
  ShardedModel(const MeshType& mesh, const Root& root, const Original& model)
      : Modules(root, model.parameters(), model.gradients(), model.buffers(), model.run()),
        mesh_(mesh),
        shared_(std::make_shared<Shared>()) {}

  /// A new input field of global extents [batch, channel, space...]. Collective over the mesh.
  Input input(std::string_view label, const Extents<rank>& extents) const {
    return Input(label, mesh_, extents);
  }
  /// A new output field for this x. Collective over the mesh.
  Output output(const Input& x) const {
    return Output("shard::model output", mesh_, Runner::partitions(root_, x.partitions(), nullptr));
  }

  /// Stores activations in this format, in two bytes per value, until the pullback. Layers and
  /// adjoints still compute in T, from rounded activations and unrounded parameters. The next call
  /// allocates all memory again. Local; call it on every rank.
  void keep_activations(LowPrecision format) const {
    shared_->keeps_apart = true;
    shared_->format      = format;
    forget();
  }
  /// Stores activations in T, the default.
  void keep_activations_whole() const {
    shared_->keeps_apart = false;
    forget();
  }

  /// Allocates the layers' memory for fields like x, if needed. Otherwise the first apply does it,
  /// and an apply with other partitions. (The first pullback or pushforward allocates the
  /// adjoints.) Collective over the mesh.
  void prepare(const Input& x) const {
    bool ready = shared_->work != nullptr;
    for (int d = 0; d < rank; ++d)
      ready = ready && shared_->work->partitions[static_cast<std::size_t>(d)] == x.partition(d);
    if (ready) return;
    forget();  // free the old memory first
    auto work        = std::make_unique<Work>();
    work->partitions = x.partitions();
    if (shared_->keeps_apart)
      place_apart(*work);
    else
      place_whole(*work);
    work->runner.build(root_, mesh_, x, nullptr);
    shared_->work = std::move(work);
  }

  /// Memory of the fields between layers on this rank, after the last `prepare` or `apply` (zero
  /// before). Adjoints and tangents share one allocation. Layers' states, the input and output
  /// fields and their adjoints are not included. Local.
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
    ++shared_->applied;
    run_->mark = shared_->mark;
    shared_->work->runner.apply(root_, space, y, x);
    if (run_->training) ++shared_->mark.step;
  }
  /// A number that changes when the activations are overwritten, by any copy.
  std::uint64_t applied() const { return shared_->applied; }
  /// Whether it has parameters, frozen ones included.
  bool has_parameters() const { return !this->parameters().entries().empty(); }
  /// The number of applies in training, which Dropout's masks depend on. Tapes save and restore it
  /// (see autodiff/operation.hpp).
  ModelMark mark() const { return shared_->mark; }
  /// Sets the mark. Local; call it on every rank.
  void set_mark(const ModelMark& mark) const { shared_->mark = mark; }
  /// y = model(x), a field owned by the model: the next call overwrites it.
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
    Work& work = work_of("pushforward");
    place_partners(work);
    work.runner.pushforward(root_, space, ty, tx, x);
  }
  /// From dy = dJ/dy at the x of the last apply: adds this rank's part to the gradients of all
  /// parameters that aren't frozen, and sets dx = dJ/dx (unless it is `not_wanted`). Collective
  /// over the mesh. Throws ArgumentError on every rank if there was no apply.
  template <class Space, class DX>
  void pullback(const Space& space, const DX& dx, const Output& dy, const Input& x) const {
    Work& work = work_of("pullback");
    place_partners(work);
    work.runner.pullback(root_, space, dx, dy, x);
  }

  /// The mesh.
  const MeshType& mesh() const { return mesh_; }

 private:
  using Array      = Kokkos::View<T*, Kokkos::LayoutRight, Memory>;
  using FieldArena = impl::FieldArena<T>;

  struct Work {
    Partitions partitions;
    Array memory;    ///< of activations
    Array partners;  ///< of their adjoints and tangents
    Kokkos::View<std::uint16_t*, Kokkos::LayoutRight, Memory>
        kept;  ///< activations in two bytes per value, if used
    FieldArena activations, adjoints, tangents;
    bool has_partners = false;
    Runner runner;
    std::unique_ptr<Output> y;
  };
  /// State shared by all copies.
  struct Shared {
    ModelMark mark;
    std::uint64_t applied = 0;
    bool keeps_apart      = false;
    LowPrecision format   = LowPrecision::bfloat16;
    std::unique_ptr<Work> work;
  };
  static constexpr int io = FieldArena::none;  ///< input and output aren't the model's memory

  static std::size_t values_in(index_t bytes) {
    return static_cast<std::size_t>(bytes) / sizeof(T);
  }
  /// Frees the fields of the last apply.
  void forget() const {
    ++shared_->applied;
    shared_->work.reset();
  }
  Work& work_of(std::string_view function) const {
    if (shared_->work == nullptr)
      impl::throw_argument("ShardedModel::" + std::string(function),
                           {"it needs the x of the last apply, and there was none"});
    return *shared_->work;
  }
  /// Places permanent activations, and adjoints and tangents.
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
  /// Places all of them in one arena, activations only while layers work on them.
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
  /// Allocates adjoints and tangents, if needed.
  static void place_partners(Work& work) {
    if (work.has_partners) return;
    const index_t bytes = std::max(work.adjoints.bytes(), work.tangents.bytes());
    work.partners       = Array("shard::adjoints", values_in(bytes));
    work.adjoints.place(work.partners.data());
    work.tangents.place(work.partners.data());
    work.has_partners = true;
  }

  MeshType mesh_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace shard

#endif
