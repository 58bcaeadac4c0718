// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_C_IMPL_NETWORK_HPP
#define SHARD_C_IMPL_NETWORK_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/c/shard.h"
#include "shard/exchange/impl/value_kind.hpp"
#include "shard/io/checkpoint.hpp"
#include "shard/io/safetensors.hpp"
#include "shard/model/sharded_model.hpp"
#include "shard/redistribute/redistribution.hpp"
#include "shard/train/gradient_norm.hpp"
#include "shard/train/gradient_sum.hpp"
#include "shard/train/optimisers.hpp"

/// \file
/// A model behind the C interface.

namespace shard::impl {

/// A field of a network's, to which values are moved or from which.
struct NetworkField {
  Geometry geometry;                       ///< on the mesh of C
  std::byte* data = nullptr;               ///< the first owned point
  std::array<index_t, max_rank> stride{};  ///< in bytes
  bool left = false;                       ///< dimension 0 is the fastest
};
template <AnyShardedView Field>
NetworkField network_field(const Field& field, const std::shared_ptr<MeshState>& mesh) {
  NetworkField made{field.geometry(), reinterpret_cast<std::byte*>(field.origin()), {}};
  made.geometry.mesh = mesh;  // a network's own mesh has the same ranks in the same places
  for (int d = 0; d < Field::rank; ++d)
    made.stride[Geometry::at(d)] =
        field.stride(d) * static_cast<index_t>(sizeof(typename Field::value_type));
  return made;
}

/// What the C interface calls. Collective over the mesh but for the first three.
class AnyNetwork {
 public:
  AnyNetwork()                             = default;
  AnyNetwork(const AnyNetwork&)            = delete;
  AnyNetwork& operator=(const AnyNetwork&) = delete;
  virtual ~AnyNetwork()                    = default;

  int rank       = 0;                  ///< of its fields
  ValueKind kind = ValueKind::opaque;  ///< of their values
  int value_size = 0;                  ///< in bytes
  bool on_device = false;              ///< where they are

  virtual void set_training(bool training)                               = 0;
  virtual const std::vector<ParameterEntry>& entries() const             = 0;
  virtual std::pair<void*, void*> values() const                         = 0;  ///< and gradients
  virtual void set_optimiser(const shard_optimiser_options& options)     = 0;
  virtual double step(const Kokkos::DefaultExecutionSpace&, double rate) = 0;
  virtual void load(const std::string& path, const std::string& prefix)  = 0;
  virtual void save(const std::string& path)                             = 0;
  virtual void restore(const std::string& path)                          = 0;
  /// The fields of an input with the partitions of `like` where its axes are the network's. Throws
  /// ArgumentError, and changes nothing, unless the output has the extents of `result`.
  virtual void prepare(const Geometry& like, const Geometry& result)    = 0;
  virtual NetworkField x() const                                        = 0;
  virtual NetworkField y() const                                        = 0;
  virtual NetworkField dx()                                             = 0;
  virtual NetworkField dy()                                             = 0;
  virtual void apply(const Kokkos::DefaultExecutionSpace&)              = 0;
  virtual void pullback(const Kokkos::DefaultExecutionSpace&, bool all) = 0;  ///< all: dx too
};

using NetworkFactory =
    std::function<std::unique_ptr<AnyNetwork>(const std::shared_ptr<MeshState>&)>;
/// For register_network.
void add_network(std::string name, NetworkFactory make);
/// The network of this name, made on the mesh. Throws ArgumentError if there is none.
std::unique_ptr<AnyNetwork> make_network(const std::string& name,
                                         const std::shared_ptr<MeshState>& mesh);

template <class Model>
class Network final : public AnyNetwork {
  using Input   = typename Model::Input;
  using Output  = typename Model::Output;
  using T       = typename Input::value_type;
  using Memory  = typename Input::memory_space;
  using Device  = Kokkos::DefaultExecutionSpace;
  using Axes    = typename Model::axes_type;
  using MeshOf  = std::remove_cvref_t<decltype(std::declval<const Model&>().mesh())>;
  using Default = typename Device::memory_space;

 public:
  Network(Model model, std::shared_ptr<MeshState> mesh)
      : model_(std::move(model)), mesh_(std::move(mesh)) {
    rank       = Model::rank;
    kind       = value_kind<T>();
    value_size = static_cast<int>(sizeof(T));
    on_device  = !std::is_same_v<Memory, Kokkos::HostSpace>;
  }
  void set_training(bool training) override { model_.set_training(training); }
  const std::vector<ParameterEntry>& entries() const override {
    return model_.parameters().entries();
  }
  std::pair<void*, void*> values() const override {
    return {model_.parameters().values().data(), model_.gradients().values().data()};
  }

  void set_optimiser(const shard_optimiser_options& o) override {
    const auto count = static_cast<index_t>(model_.parameters().values().extent(0));
    const auto or_of = [](double given, double usual) { return given == 0.0 ? usual : given; };
    const AdamOptions adam{or_of(o.learning_rate, 1e-3), or_of(o.beta1, 0.9), or_of(o.beta2, 0.999),
                           or_of(o.eps, 1e-8), o.weight_decay};
    if (o.kind == shard_sgd)
      optimiser_.template emplace<SGD<T, Memory>>(count,
                                                  SGDOptions{.learning_rate = adam.learning_rate,
                                                             .momentum      = o.momentum,
                                                             .weight_decay  = o.weight_decay});
    else if (o.kind == shard_adamw)
      optimiser_.template emplace<AdamW<T, Memory>>(count, adam);
    else
      optimiser_.template emplace<Adam<T, Memory>>(count, adam);
    clip_ = o.clip;
  }
  double step(const Device& device, double rate) override {
    if (!sum_) throw_argument("network_step", {"there was no apply"});
    if (optimiser_.index() == 0)
      throw_argument("network_step", {"choose an optimiser by shard_network_set_optimiser"});
    const auto space     = space_for(device);
    const auto gradients = model_.gradients().values();
    (*sum_)(space, gradients);
    GradientNorm<T, Memory> norm(static_cast<index_t>(gradients.extent(0)));
    const double found = clip_ > 0.0 ? norm.clip(space, gradients, clip_) : norm(space, gradients);
    with_optimiser([&](auto& optimiser) {
      if (rate != 0.0) optimiser.options.learning_rate = rate;
      optimiser(space, model_.parameters().values(), gradients);
    });
    Kokkos::deep_copy(space, gradients, T(0));
    space.fence("shard_network_step");
    return found;
  }

  void load(const std::string& path, const std::string& prefix) override {
    const MPI_Comm comm = model_.mesh().communicator();
    SafetensorsOptions options;
    options.prefix = prefix;
    if (model_.buffers().entries().empty()) {
      load_safetensors(path, model_.parameters(), comm, options);
      return;
    }
    options.strict        = false;  // two arenas in one file
    const auto parameters = copy_of(model_.parameters()), buffers = copy_of(model_.buffers());
    try {
      std::string missing;
      for (const auto& report : {load_safetensors(path, model_.parameters(), comm, options),
                                 load_safetensors(path, model_.buffers(), comm, options)})
        for (const std::string& name : report.missing) missing += " \"" + name + "\"";
      if (!missing.empty()) throw_argument("network_load", {"the file lacks", missing});
    } catch (...) {
      Kokkos::deep_copy(model_.parameters().values(), parameters);
      Kokkos::deep_copy(model_.buffers().values(), buffers);
      throw;
    }
  }
  void save(const std::string& path) override { state().save(path); }
  void restore(const std::string& path) override { state().load(path); }

  void prepare(const Geometry& like, const Geometry& result) override {
    typename Model::Partitions partitions;
    for (int d = 0; d < rank; ++d) {
      const DimGeometry& dim = like.dims[Geometry::at(d)];
      const int axis         = axes()[Geometry::at(d)];
      const bool is_mine =
          axis < 0 ? dim.axis_count == 0 : dim.axis_count == 1 && dim.axes[0] == axis;
      partitions[Geometry::at(d)] =
          is_mine    ? dim.partition
          : axis < 0 ? Partition::whole(like.global(d))
                     : Partition::balanced(like.global(d), like.mesh->extent(axis));
    }
    if (x_ && x_->partitions() == partitions)
      return require_same_cells("network_apply", result, network_field(*y_, mesh_).geometry);
    const Input x("shard::network x", model_.mesh(), partitions);
    const Output y = model_.output(x);
    require_same_cells("network_apply", result, network_field(y, mesh_).geometry);
    dx_.reset(), dy_.reset();
    x_ = x, y_ = y;
    sum_.emplace(*x_, static_cast<index_t>(model_.gradients().values().extent(0)));
  }
  NetworkField x() const override { return network_field(*x_, mesh_); }
  NetworkField y() const override { return network_field(*y_, mesh_); }
  NetworkField dx() override {
    if (!dx_) dx_.emplace("shard::network dx", model_.mesh(), x_->partitions());
    return network_field(*dx_, mesh_);
  }
  NetworkField dy() override {
    if (!dy_) {
      if (!y_) throw_argument("network_pullback", {"there was no apply"});
      dy_.emplace("shard::network dy", model_.mesh(), y_->partitions());
    }
    return network_field(*dy_, mesh_);
  }
  void apply(const Device& device) override {
    mark_written(space_for(device), *x_);
    model_.apply(space_for(device), *y_, *x_);
  }
  void pullback(const Device& device, bool all) override {
    mark_written(space_for(device), *dy_);
    if (all)
      model_.pullback(space_for(device), *dx_, *dy_, *x_);
    else
      model_.pullback(space_for(device), not_wanted, *dy_, *x_);
  }

 private:
  template <class Arena>
  static auto copy_of(const Arena& arena) {
    auto copy = Kokkos::create_mirror(Kokkos::HostSpace(), arena.values());
    Kokkos::deep_copy(copy, arena.values());
    return copy;
  }
  static auto space_for(const Device& device) {
    if constexpr (std::is_same_v<Memory, Default>)
      return device;
    else
      return typename Memory::execution_space();
  }
  /// The mesh axis of each dimension, -1 for none.
  static std::array<int, max_rank> axes() {
    std::array<int, max_rank> found{};
    found.fill(-1);
    const auto axis = []<class A>(std::type_identity<A>) {
      if constexpr (std::is_same_v<A, Unsharded>)
        return -1;
      else
        return MeshOf::template index_of<A>;
    };
    found[0] = axis(std::type_identity<typename Axes::batch>());
    [&]<int... D>(std::integer_sequence<int, D...>) {
      ((found[Geometry::at(D + 2)] = axis(std::type_identity<typename Axes::template axis<D>>())),
       ...);
    }
    (std::make_integer_sequence<int, Axes::dims>{});
    return found;
  }
  template <class Use>
  void with_optimiser(const Use& use) {
    std::visit(
        [&](auto& optimiser) {
          if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(optimiser)>, std::monostate>)
            use(optimiser);
        },
        optimiser_);
  }
  Checkpoint state() {
    Checkpoint all(model_.mesh().communicator());
    all.add("model", model_.parameters());
    if (!model_.buffers().entries().empty()) all.add("buffers", model_.buffers());
    with_optimiser([&](auto& optimiser) { all.add("optimiser", optimiser); });
    return all;
  }

  Model model_;
  std::shared_ptr<MeshState> mesh_;
  std::optional<Input> x_, dx_;
  std::optional<Output> y_, dy_;
  std::optional<GradientSum<T, Memory>> sum_;
  std::variant<std::monostate, SGD<T, Memory>, Adam<T, Memory>, AdamW<T, Memory>> optimiser_;
  double clip_ = 0.0;
};

}  // namespace shard::impl

#endif
