// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_RECORDER_HPP
#define SHARD_MODEL_IMPL_RECORDER_HPP

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/layers/pointwise/pointwise.hpp"
#include "shard/model/arena.hpp"
#include "shard/model/impl/gathered_record.hpp"
#include "shard/model/impl/layer_record.hpp"
#include "shard/model/impl/recorded_run.hpp"
#include "shard/model/impl/skips.hpp"
#include "shard/model/impl/value_plan.hpp"
#include "shard/model/impl/window_use.hpp"
#include "shard/model/module.hpp"
#include "shard/view/copy.hpp"

namespace shard::impl {

/// Records the operations of a model, once for fields of some partitions. Each reader of a value
/// says which halo it needs; the memory has the widest of these. Operations with different
/// boundaries read copies.
template <class Types, class MeshType, class Space>
class Recorder : public RecordedRun<typename Types::value_type, typename Types::Base::memory_space,
                                    Types::Cuts::rank, Space> {
 public:
  using T               = typename Types::value_type;
  using ModelTypes      = Types;
  using execution_space = Space;
  using Cuts            = typename Types::Cuts;
  using Base            = typename Types::Base;
  using Partitions      = typename Types::Partitions;
  using Memory          = typename Base::memory_space;
  using Run             = RecordedRun<T, Memory, Cuts::rank, Space>;
  using Record          = typename Run::Record;
  using Shape           = ValueShape<Partitions>;
  using Run::is_replicated;

  explicit Recorder(const ModelMeshes<MeshType>& meshes) : meshes_(meshes) {}

  /// An input of the model, a field with these wants. Collective over the mesh.
  template <class InWants>
  int input(const Shape& shape) {
    const int value =
        new_value<typename Types::template Field<InWants>>("shard::model input", shape);
    auto& v = values_[at(value)];
    v.fixed = true;
    v.widen(WantedHalo<Cuts::dims>::template of<InWants>());
    plan_.values[at(value)].input = inputs_++;
    return value;
  }

  /// The output of a module that is applied to values. Collective over the mesh.
  template <class M, class... V>
  int run(const M& module, const Partitions& partitions, V... input) {
    if constexpr (is_gathered_v<typename M::layer_type>)
      return run_gathered(module, partitions, input...);
    else
      return run_layer(module, partitions, input...);
  }
  /// The same for an operation without parameters.
  template <class Op, class... V>
  int run_operation(const Op& op, const Partitions& partitions, V... input) {
    return run(Module<T, typename Base::memory_space, Op>(op, {}, {}, nullptr), partitions,
               input...);
  }
  /// The value with these partitions.
  int moved(int value, const Partitions& to) {
    return this->partitions(value) == to ? value : run_operation(CopyValue{}, to, value);
  }
  /// The same for a concatenation.
  template <class... V>
  int run_joined(const shard::Concatenate& op, V... input) {
    const ConcatenateFields<static_cast<int>(sizeof...(V))> join{
        op, {this->partitions(input)[at(op.dim)].size()...}};
    return run_operation(join, join.output_partitions(this->partitions(input)...), input...);
  }
  /// The output of a record.
  template <class InWants, std::size_t N>
  int record(std::unique_ptr<Record> made, std::array<int, N> input, const Shape& shape,
             const std::array<bool, N>& passes, bool reads) {
    for (int& value : input) value = seen_with<InWants>(value);
    const int output =
        new_value<Base>("shard::activation " + std::to_string(this->operation_count()), shape);
    this->add_operation(std::move(made), input, output, passes, reads);
    return output;
  }

  /// The partitions of an operation's output.
  template <class Op, class... V>
  Partitions partitions_after(const Op& op, V... input) const {
    if constexpr (!has_output_partitions_v<Op, Partitions, V...> &&
                  requires { op.output(prototype(input)...); })
      return op.output(prototype(input)...).partitions();
    else
      return impl::partitions_after(op, this->partitions(input)...);
  }
  /// Declares the outputs of the model, in order. No more operations after that. Throws
  /// ArgumentError for a replicated output.
  void finish(const std::vector<int>& outputs) {
    this->require_outputs(outputs);
    for (int value : outputs) {
      if (this->is_used(value))
        value = run_operation(CopyValue{}, Partitions(this->partitions(value)), value);
      this->add_output(value);
    }
    this->close();
  }

 private:
  using Run::at;
  using Run::plan_;
  using Run::values_;

  template <class M, class... V>
  int run_layer(const M& module, const Partitions& partitions, V... input) {
    using OneRecord   = LayerRecord<Types, M, static_cast<int>(sizeof...(V)), Space>;
    const auto passes = [&](std::size_t i, int value) {
      if constexpr (requires { module.layer().passes(i); })
        return module.layer().passes(i) && this->partitions(value) == partitions;
      else
        return false;
    };
    std::size_t i = 0;
    const std::array<bool, sizeof...(V)> passed{passes(i++, input)...};
    const std::array<int, sizeof...(V)> numbers{input...};
    if constexpr (!broadcasts_v<typename M::layer_type>) this->require_same_kind(numbers);
    const int output = record<typename OneRecord::Wants>(
        std::make_unique<OneRecord>(module), numbers,
        shape_after<typename M::layer_type>(partitions, input...), passed, OneRecord::reads());
    if (!is_replicated(output)) {
      this->add_use(layer_use(module, this->partitions(numbers[0]), partitions));
    }
    constexpr auto gives = WantedHalo<Cuts::dims>::template of<typename OneRecord::Gives>();
    if constexpr (gives.any()) {
      values_[at(output)].widen(gives);
      values_[at(output)].gives = true;
    }
    return output;
  }
  template <class M, class... V>
  int run_gathered(const M& of, const Partitions& partitions, V... input) {
    using Op        = typename M::layer_type::gathered_type;
    using One       = Module<T, Memory, Op>;
    using OneRecord = GatheredRecord<Types, MeshType, One, static_cast<int>(sizeof...(V)), Space>;
    const std::array<int, sizeof...(V)> numbers{input...};
    this->require_same_kind(numbers);
    const One one(of.layer().op, of.parameters(), of.gradients(), of.frozen_state(), of.buffers(),
                  of.run());
    const int out = record<typename OneRecord::Wants>(
        std::make_unique<OneRecord>(one, meshes_),
        std::array<int, sizeof...(V)>{moved(input, owned_by_first(this->partitions(input)))...},
        Shape{owned_by_first(partitions), is_replicated(numbers[0])},
        std::array<bool, sizeof...(V)>{}, OneRecord::reads());
    return moved(out, partitions);
  }

  /// The shape of a layer's output with these partitions. A replicated one has this rank's batch.
  /// On one rank no value is replicated.
  template <class Layer, class... V>
  Shape shape_after(Partitions partitions, int first, V...) const {
    if constexpr (gives_replicated_v<Layer>)
      if (meshes_.mesh().size() > 1 && !is_replicated(first)) {
        partitions[0] = Partition::whole(values_[at(first)].geometry.owned(0));
        for (std::size_t d = 1; d < partitions.size(); ++d)
          partitions[d] = Partition::whole(partitions[d].size());
        return {partitions, true};
      }
    return {partitions, is_replicated(first)};
  }

  template <class Op, class P, class... V>
  static constexpr bool has_output_partitions_v = requires(const Op& op, const P& p) {
    op.output_partitions((void(std::declval<V>()), p)...);
  }
  || requires(const Op& op, const P& p) { op.output_partitions(p); };
  /// A field without memory that is like a value.
  Base prototype(int value) const {
    return FieldAccess::same<Base>(values_[at(value)].field_at(nullptr));
  }

  template <class Field>
  int new_value(std::string_view label, const Shape& shape) {
    return this->add_value(FieldTypeOf<Field>::make(label, meshes_.of(shape.replicated), nullptr,
                                                    shape.partitions.data()),
                           shape.partitions, shape.replicated);
  }

  /// The value, or a copy of it, in memory with these halos. Collective over the mesh.
  template <class InWants>
  int seen_with(int value) {
    constexpr auto wanted = WantedHalo<Cuts::dims>::template of<InWants>();
    if constexpr (wanted.any()) {
      // checks the boundaries against the extents
      FieldTypeOf<typename Types::template Field<InWants>>::make(
          values_[at(value)].geometry.label, meshes_.of(is_replicated(value)), nullptr,
          this->partitions(value).data());
      const int place = this->place_for(value, wanted);
      if (place >= 0) return place;
      const int copy = run_operation(CopyValue{}, Partitions(this->partitions(value)), value);
      this->add_copy(copy, value, wanted);
      return copy;
    }
    return value;
  }

  ModelMeshes<MeshType> meshes_;
  int inputs_ = 0;
};

}  // namespace shard::impl

#endif
