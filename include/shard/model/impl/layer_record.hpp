// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_LAYER_RECORD_HPP
#define SHARD_MODEL_IMPL_LAYER_RECORD_HPP

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "shard/base/wanted.hpp"
#include "shard/model/impl/layer_call.hpp"
#include "shard/model/impl/model_fields.hpp"

/// \file
/// A model's values have one type each, fields without halo. Their memory has the widest halo that
/// an operation reads, and the record of an operation sees it as the type that this one needs: the
/// fields of a narrower halo, or none, are the same memory (see ShardedView's conversion).

namespace shard::impl {

/// The types of a model's fields.
template <class T, class Memory, class CutAxes>
struct ModelTypes {
  using value_type = T;
  using Cuts       = CutAxes;
  template <class WantsOfIt>
  using Field      = ModelField<T, Memory, Cuts, WantsOfIt>;
  using Base       = Field<NoWants<Cuts::dims>>;       ///< a value
  using Run        = RunField<T, Memory, Cuts::rank>;  ///< the same for the runner
  using Partitions = std::array<Partition, static_cast<std::size_t>(Cuts::rank)>;
};

/// The shape of a model's value. A replicated value isn't sharded: each rank has its own, a field
/// on a mesh of this rank, and its own part of the adjoint.
template <class Partitions>
struct ValueShape {
  Partitions partitions;
  bool replicated = false;
};

/// The meshes of a model's values: the model's, and one of this rank alone for replicated values.
template <class MeshType>
class ModelMeshes {
 public:
  explicit ModelMeshes(const MeshType& mesh) : mesh_(mesh) {}
  const MeshType& mesh() const { return mesh_; }
  /// Of this rank alone. Made at the first call.
  const MeshType& own() const {
    if (mesh_.size() == 1) return mesh_;
    if (*own_ == nullptr)
      *own_ = std::make_shared<const MeshType>(MPI_COMM_SELF, std::vector<int>(MeshType::axes, 1));
    return **own_;
  }
  const MeshType& of(bool replicated) const { return replicated ? own() : mesh_; }
  /// Whether a field is a replicated value.
  template <class Field>
  bool replicates(const Field& x) const {
    return mesh_.size() > 1 && *own_ != nullptr && x.geometry().mesh == (*own_)->state();
  }

 private:
  MeshType mesh_;
  std::shared_ptr<std::shared_ptr<const MeshType>> own_ =
      std::make_shared<std::shared_ptr<const MeshType>>();
};

/// What fields an operation works on.
enum class FieldKind : std::uint8_t { values, tangents, adjoints };

/// One operation of a model on its fields. None of its functions allocates, except `build`.
template <class Base, class Space>
struct ModelRecord {
  ModelRecord()                              = default;
  ModelRecord(const ModelRecord&)            = delete;
  ModelRecord& operator=(const ModelRecord&) = delete;
  virtual ~ModelRecord()                     = default;

  /// Gives it fields of a kind, whose values don't matter; their memory stays until the next call.
  /// Adjoints of inputs that are never asked for may be empty.
  virtual void see(FieldKind kind, const Base& output, const std::vector<Base>& inputs) = 0;
  /// Makes the operation's state. After it has seen values. Collective over the mesh.
  virtual void build() = 0;

  virtual void apply(const Space& space)       = 0;
  virtual void pushforward(const Space& space) = 0;
  /// `wanted`: one flag for each input.
  virtual void pullback(const Space& space, const std::vector<bool>& wanted) = 0;
};

/// The halo that an operation fills in its output: only HaloExchange does.
template <class Layer, class Cuts>
struct OutputWants {
  using type = NoWants<Cuts::dims>;
};
template <class... Dims, class Cuts>
struct OutputWants<HaloExchange<Dims...>, Cuts> {
  template <int D>
  using of_dim = typename HaloExchange<Dims...>::template shard_dim<D + 2>;
  template <int... D>
  static auto make(std::integer_sequence<int, D...>)
      -> Wants<Want<of_dim<D>::halo::lo, of_dim<D>::halo::hi, typename of_dim<D>::boundary>...>;
  using type = decltype(make(std::make_integer_sequence<int, Cuts::dims>{}));
};

/// The fields that the record of an operation with `N` inputs sees.
template <class Types, class InWants, class OutWants, int N, class Space>
class FieldsRecord : public ModelRecord<typename Types::Run, Space> {
 public:
  using Base = typename Types::Run;
  using In   = typename Types::template Field<InWants>;
  using Out  = typename Types::template Field<OutWants>;

  void see(FieldKind kind, const Base& output, const std::vector<Base>& inputs) override {
    Seen& seen = seen_[static_cast<std::size_t>(kind)];
    seen.out   = FieldAccess::same<Out>(output);
    for (std::size_t i = 0; i < seen.in.size(); ++i)
      seen.in[i] = FieldAccess::is_made(inputs[i]) ? FieldAccess::same<In>(inputs[i]) : In();
  }

 protected:
  using Inputs = std::array<In, static_cast<std::size_t>(N)>;
  struct Seen {
    Out out;
    Inputs in;
  };
  const Out& out(FieldKind kind) const { return seen_[static_cast<std::size_t>(kind)].out; }
  const Inputs& in(FieldKind kind) const { return seen_[static_cast<std::size_t>(kind)].in; }

 private:
  std::array<Seen, 3> seen_;
};

/// A layer, or another operation with the functions of one, with its parameters.
template <class Types, class M, int N, class Space>
class LayerRecord final
    : public FieldsRecord<Types, LayerWants<typename M::layer_type, typename Types::Cuts>,
                          typename OutputWants<typename M::layer_type, typename Types::Cuts>::type,
                          N, Space> {
 public:
  using Layer  = typename M::layer_type;
  using Wants  = LayerWants<Layer, typename Types::Cuts>;
  using Gives  = typename OutputWants<Layer, typename Types::Cuts>::type;
  using Fields = FieldsRecord<Types, Wants, Gives, N, Space>;
  using typename Fields::In;
  using typename Fields::Out;

  explicit LayerRecord(const M& module) : module_(module) {}

  void build() override {
    if constexpr (std::is_same_v<State, NoState>)
      state_.emplace();
    else
      state_.emplace(
          state_of(module_.layer(), in(FieldKind::values), std::make_index_sequence<inputs>{}));
    if constexpr (requires { module_.layer().use_buffers(*state_, module_.buffers()); })
      module_.layer().use_buffers(*state_, module_.buffers());
  }
  void apply(const Space& space) override { apply_to(space, std::make_index_sequence<inputs>{}); }
  void pushforward(const Space& space) override { push(space, std::make_index_sequence<inputs>{}); }
  void pullback(const Space& space, const std::vector<bool>& wanted) override {
    pull(space, wanted);
  }

  /// Whether its pullback or pushforward reads its inputs.
  static constexpr bool reads() { return reads_inputs(std::make_index_sequence<inputs>{}); }

 private:
  using State = typename StateOf<Layer, In, N>::type;
  using Fields::in;
  using Fields::out;
  static constexpr std::size_t inputs = static_cast<std::size_t>(N);

  template <std::size_t... I>
  static constexpr bool reads_inputs(std::index_sequence<I...>) {
    return reads_inputs_v<M, State, Space, Out, decltype((void(I), std::declval<const In&>()))...>;
  }
  template <std::size_t... I>
  void apply_to(const Space& space, std::index_sequence<I...>) {
    apply_module(module_, *state_, space, out(FieldKind::values), in(FieldKind::values)[I]...);
  }
  template <std::size_t... I>
  void push(const Space& space, std::index_sequence<I...>) {
    push_module(module_, *state_, space, out(FieldKind::tangents),
                std::tie(in(FieldKind::tangents)[I]...), std::tie(in(FieldKind::values)[I]...));
  }
  /// Decides for each input whether its adjoint is wanted.
  template <class... DX>
  void pull(const Space& space, const std::vector<bool>& wanted, const DX&... dx) {
    if constexpr (sizeof...(DX) == inputs)
      pull_with(space, std::make_index_sequence<inputs>{}, dx...);
    else if (wanted[sizeof...(DX)])
      pull(space, wanted, dx..., in(FieldKind::adjoints)[sizeof...(DX)]);
    else
      pull(space, wanted, dx..., not_wanted);
  }
  template <std::size_t... I, class... DX>
  void pull_with(const Space& space, std::index_sequence<I...>, const DX&... dx) {
    pull_module(module_, *state_, space, std::tie(dx...), out(FieldKind::adjoints),
                std::tie(in(FieldKind::values)[I]...));
  }

  M module_;
  std::optional<State> state_;
};

}  // namespace shard::impl

#endif
