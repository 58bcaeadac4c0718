// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_RECORDED_MODEL_HPP
#define SHARD_MODEL_IMPL_RECORDED_MODEL_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/mesh/mesh.hpp"
#include "shard/model/arena.hpp"
#include "shard/model/impl/model_scope.hpp"
#include "shard/model/impl/recorder.hpp"
#include "shard/model/impl/run_node.hpp"
#include "shard/model/sequential.hpp"

namespace shard::impl {

/// Records a list of modules, for an input of these partitions.
template <class Recorder, class Root>
void record_model(Recorder& recorder, const Root& root,
                  const std::vector<typename Recorder::Shape>& in,
                  const std::shared_ptr<ModelRun>&) {
  const int x =
      recorder.template input<typename NodeWants<typename Recorder::Cuts, Root>::type>(in.front());
  recorder.finish({run_node(recorder, root, x, nullptr)});
}
/// Records a struct.
template <class Recorder, class S, class List>
void record_model(Recorder& recorder, const StructModule<S, List>& root,
                  const std::vector<typename Recorder::Shape>& in,
                  const std::shared_ptr<ModelRun>& run) {
  using Scope = ModelScope<Recorder>;
  std::vector<int> x;
  for (const auto& shape : in)
    x.push_back(recorder.template input<NoWants<Recorder::Cuts::dims>>(shape));
  Scope scope(recorder, run);
  scope.add(root);
  constexpr auto inputs = static_cast<std::size_t>(model_inputs<S, Scope>());
  recorder.finish(
      value_numbers(call_model(*root.self, scope, x, std::make_index_sequence<inputs>{})));
}

/// The base of models on a mesh: operations that are recorded at the first apply, and their memory.
/// Fields are passed as arrays of those without halo.
template <class T, class Memory, class Root, class MeshType, class Axes>
class RecordedModel : public ModelModules<T, Memory, Root> {
  using Modules = ModelModules<T, Memory, Root>;
  using Modules::root_;
  using Modules::run_;

 public:
  static constexpr bool remembers        = true;        ///< its activations
  static constexpr bool takes_not_wanted = true;        ///< an input's adjoint may be not_wanted
  using axes_type                        = Axes;        ///< the axes that shard its fields
  static constexpr int rank              = Axes::rank;  ///< of its fields
  /// Of [batch, channel, space...].
  using Partitions = typename ModelTypes<T, Memory, Axes>::Partitions;

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

  /// Memory of the fields between layers on this rank, after the last `prepare` or `apply` (zero
  /// before). Adjoints and tangents share one allocation. Layers' states, the input and output
  /// fields and their adjoints are not included. Local.
  ModelMemory memory() const {
    return shared_->work == nullptr ? ModelMemory{} : shared_->work->memory();
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
  /// The mesh.
  const MeshType& mesh() const { return meshes_.mesh(); }

  /// For the library's own use: its layers as they run for inputs like these. Collective over the
  /// mesh.
  template <class... X>
  auto uses_for(const X&... x) const {
    RecorderFor<typename Memory::execution_space> recorder(meshes_);
    record_model(recorder, root_, shapes_of(x...), run_);
    return recorder.uses();
  }

 protected:
  using Types = ModelTypes<T, Memory, Axes>;
  using Base  = typename Types::Base;
  using Run   = typename Types::Run;
  template <class Space>
  using RecorderFor = Recorder<Types, MeshType, Space>;
  /// The mesh of replicated inputs.
  const MeshType& own_mesh() const { return meshes_.own(); }

  /// For converters.
  template <class Original>
  RecordedModel(const MeshType& mesh, const Root& root, const Original& model)
      : Modules(root, model.parameters(), model.gradients(), model.buffers(), model.run()),
        meshes_(mesh),
        shared_(std::make_shared<Shared>()) {}

  /// The recorded operations and their memory.
  struct AnyWork {
    AnyWork()                          = default;
    AnyWork(const AnyWork&)            = delete;
    AnyWork& operator=(const AnyWork&) = delete;
    virtual ~AnyWork()                 = default;
    virtual ModelMemory memory() const = 0;
    std::vector<ValueShape<Partitions>> shapes;  ///< of the inputs
    const void* space = nullptr;                 ///< stands for the type of the execution space
    bool was_applied  = false;
    std::shared_ptr<void> y;  ///< an output of the model's own
  };
  template <class Space>
  struct Work final : AnyWork {
    explicit Work(const ModelMeshes<MeshType>& meshes) : recorder(meshes) {}
    ModelMemory memory() const override { return recorder.memory(); }
    RecorderFor<Space> recorder;
  };

  /// The partitions of the outputs for these inputs. Collective over the mesh.
  template <class... X>
  std::vector<Partitions> outputs_for(const X&... x) const {
    RecorderFor<typename Memory::execution_space> recorder(meshes_);
    record_model(recorder, root_, shapes_of(x...), run_);
    std::vector<Partitions> out;
    for (std::size_t i = 0; i < recorder.output_count(); ++i)
      out.push_back(recorder.output_partitions(static_cast<int>(i)));
    return out;
  }
  /// Whether the work is for these fields.
  template <class Space, class... X>
  bool is_ready(const X&... x) const {
    if (shared_->work == nullptr || shared_->work->space != &tag_of_type<Space>) return false;
    std::size_t i   = 0;
    const auto same = [&](const auto& field) {
      const auto& shape    = shared_->work->shapes[i++];
      const Partitions& of = shape.partitions;
      bool all             = shape.replicated == meshes_.replicates(field);
      for (int d = 0; d < rank; ++d)
        all = all && of[static_cast<std::size_t>(d)] == field.partition(d);
      return all;
    };
    return (same(x) && ...);
  }
  /// The work for these fields, which is made if it isn't there.
  template <class Space, class... X>
  Work<Space>& work_for(const X&... x) const {
    if (!is_ready<Space>(x...)) {
      forget();  // free the old memory first
      auto work    = std::make_unique<Work<Space>>(meshes_);
      work->shapes = shapes_of(x...);
      work->space  = &tag_of_type<Space>;
      record_model(work->recorder, root_, work->shapes, run_);
      work->recorder.place(shared_->keeps_apart, shared_->format);
      shared_->work = std::move(work);
    }
    return static_cast<Work<Space>&>(*shared_->work);
  }
  /// The work of the last apply.
  template <class Space>
  Work<Space>& work_of(std::string_view function) const {
    if (shared_->work == nullptr || !shared_->work->was_applied ||
        shared_->work->space != &tag_of_type<Space>)
      throw_argument("ShardedModel::" + std::string(function),
                     {"it needs the x of the last apply on this execution space, and there was "
                      "none"});
    return static_cast<Work<Space>&>(*shared_->work);
  }
  template <class Space>
  void apply_to(Work<Space>& work, const Space& space, const Run* y, const Run* x) const {
    ++shared_->applied;
    work.was_applied = true;
    run_->mark       = shared_->mark;
    work.recorder.take_values(y, x);
    work.recorder.apply(space);
    if (run_->training) ++shared_->mark.step;
  }

 private:
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

  template <class... X>
  std::vector<ValueShape<Partitions>> shapes_of(const X&... x) const {
    return {{x.partitions(), meshes_.replicates(x)}...};
  }

  ModelMeshes<MeshType> meshes_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace shard::impl

#endif
