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
#include "shard/model/impl/recorder.hpp"
#include "shard/model/impl/run_node.hpp"
#include "shard/model/sequential.hpp"

namespace shard {

/// A model on a mesh, with fields sharded by `Cuts`. Made by `domain_parallel`. It is an operation
/// (see autodiff/operation.hpp) for tapes and chains. Copies share all memory.
template <class T, class Memory, class Root, class MeshType, class Axes>
class ShardedModel : public ModelModules<T, Memory, Root> {
  using Modules = ModelModules<T, Memory, Root>;
  using Modules::root_;
  using Modules::run_;
  using Types   = impl::ModelTypes<T, Memory, Axes>;
  using InWants = typename impl::NodeWants<Axes, Root>::type;

 public:
  static constexpr bool remembers        = true;        ///< its activations
  static constexpr bool takes_not_wanted = true;        ///< the input's adjoint may be not_wanted
  using axes_type                        = Axes;        ///< the axes that shard its fields
  static constexpr int rank              = Axes::rank;  ///< of its fields
  using Input  = typename Types::template Field<InWants>;  ///< the input, with the first layer's halo
  using Output = typename Types::Base;                     ///< the output field, without halo
  using Partitions = typename Types::Partitions;           ///< of [batch, channel, space...]

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
    impl::Recorder<Types, MeshType, typename Memory::execution_space> recorder(mesh_);
    record(recorder, x.partitions());
    return Output("shard::model output", mesh_, recorder.output_partitions(0));
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
  /// and an apply with other partitions or another type of execution space. (The first pullback or
  /// pushforward allocates the adjoints.) Collective over the mesh.
  void prepare(const Input& x) const { work_for<typename Memory::execution_space>(x); }

  /// Memory of the fields between layers on this rank, after the last `prepare` or `apply` (zero
  /// before). Adjoints and tangents share one allocation. Layers' states, the input and output
  /// fields and their adjoints are not included. Local.
  ModelMemory memory() const {
    return shared_->work == nullptr ? ModelMemory{} : shared_->work->memory();
  }

  /// y = model(x); fills x's halo. Collective over the mesh.
  template <class Space>
  void apply(const Space& space, const Output& y, const Input& x) const {
    Work<Space>& work = work_for<Space>(x);
    ++shared_->applied;
    run_->mark = shared_->mark;
    work.show(&y, x);
    work.recorder.apply(space);
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
    Work<Space>& work = work_for<Space>(x);
    if (!work.y) work.y = std::make_unique<Output>(output(x));
    apply(space, *work.y, x);
    return *work.y;
  }
  /// ty = J tx at the x of the last apply, parameters being constants. Collective over the mesh.
  /// Throws ArgumentError on every rank if there was no apply.
  template <class Space>
  void pushforward(const Space& space, const Output& ty, const Input& tx, const Input& x) const {
    Work<Space>& work = work_of<Space>("pushforward");
    const Output in   = impl::FieldAccess::same<Output>(tx);
    work.show(nullptr, x);
    work.recorder.pushforward(space, &ty, &in);
  }
  /// From dy = dJ/dy at the x of the last apply: adds this rank's part to the gradients of all
  /// parameters that aren't frozen, and sets dx = dJ/dx (unless it is `not_wanted`). Collective
  /// over the mesh. Throws ArgumentError on every rank if there was no apply.
  template <class Space, class DX>
  void pullback(const Space& space, const DX& dx, const Output& dy, const Input& x) const {
    Work<Space>& work = work_of<Space>("pullback");
    const bool wanted = is_wanted_v<DX>;
    Output to;
    if constexpr (is_wanted_v<DX>) to = impl::FieldAccess::same<Output>(dx);
    work.show(nullptr, x);
    work.recorder.pullback(space, &to, &wanted, &dy);
  }

  /// The mesh.
  const MeshType& mesh() const { return mesh_; }

 private:
  /// The recorded operations and their memory.
  struct AnyWork {
    AnyWork()                          = default;
    AnyWork(const AnyWork&)            = delete;
    AnyWork& operator=(const AnyWork&) = delete;
    virtual ~AnyWork()                 = default;
    virtual ModelMemory memory() const = 0;
    Partitions partitions;
    const void* space = nullptr;  ///< stands for the type of the execution space
  };
  template <class Space>
  struct Work final : AnyWork {
    explicit Work(const MeshType& mesh) : recorder(mesh) {}
    ModelMemory memory() const override { return recorder.memory(); }
    void show(const Output* to, const Input& x) {
      const Output in = impl::FieldAccess::same<Output>(x);
      recorder.take_values(to, &in);
    }
    impl::Recorder<Types, MeshType, Space> recorder;
    std::unique_ptr<Output> y;
  };
  /// State shared by all copies.
  struct Shared {
    ModelMark mark;
    std::uint64_t applied = 0;
    bool keeps_apart      = false;
    LowPrecision format   = LowPrecision::bfloat16;
    std::unique_ptr<AnyWork> work;
  };

  /// Frees the fields of the last apply.
  void forget() const {
    ++shared_->applied;
    shared_->work.reset();
  }
  template <class Recorder>
  void record(Recorder& recorder, const Partitions& in) const {
    const int x = recorder.template input<InWants>(in);
    // unqualified: merge_halos.hpp has overloads
    recorder.finish({run_node(recorder, root_, x, nullptr)});
  }
  template <class Space>
  Work<Space>& work_for(const Input& x) const {
    bool ready = shared_->work != nullptr && shared_->work->space == &impl::tag_of_type<Space>;
    for (int d = 0; d < rank; ++d)
      ready = ready && shared_->work->partitions[static_cast<std::size_t>(d)] == x.partition(d);
    if (!ready) {
      forget();  // free the old memory first
      auto work        = std::make_unique<Work<Space>>(mesh_);
      work->partitions = x.partitions();
      work->space      = &impl::tag_of_type<Space>;
      record(work->recorder, work->partitions);
      work->recorder.place(shared_->keeps_apart, shared_->format);
      shared_->work = std::move(work);
    }
    return static_cast<Work<Space>&>(*shared_->work);
  }
  template <class Space>
  Work<Space>& work_of(std::string_view function) const {
    if (shared_->work == nullptr || shared_->work->space != &impl::tag_of_type<Space>)
      impl::throw_argument("ShardedModel::" + std::string(function),
                           {"it needs the x of the last apply on this execution space, and there "
                            "was none"});
    return static_cast<Work<Space>&>(*shared_->work);
  }

  MeshType mesh_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace shard

#endif
