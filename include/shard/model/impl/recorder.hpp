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
#include "shard/model/impl/recorded_value.hpp"
#include "shard/model/impl/skips.hpp"
#include "shard/model/impl/value_plan.hpp"
#include "shard/model/impl/window_use.hpp"
#include "shard/model/module.hpp"
#include "shard/view/copy.hpp"

namespace shard::impl {

/// The operations of a model, recorded once for fields of some partitions, and the memory of their
/// values. Each reader says which halo it needs; the memory has the widest of these. Operations
/// with different boundaries read copies. Fields that a user passes are kept until others replace
/// them.
template <class Types, class MeshType, class Space>
class Recorder {
 public:
  using T               = typename Types::value_type;
  using ModelTypes      = Types;
  using execution_space = Space;
  using Cuts            = typename Types::Cuts;
  using Base            = typename Types::Base;
  using Partitions      = typename Types::Partitions;
  using Record          = ModelRecord<Base, Space>;
  using Shape           = ValueShape<Partitions>;

  explicit Recorder(const ModelMeshes<MeshType>& meshes) : meshes_(meshes) {}

  /// An input of the model, a field with these wants. Collective over the mesh.
  template <class InWants>
  int input(const Shape& shape) {
    const int value =
        new_value<typename Types::template Field<InWants>>("shard::model input", shape);
    Value& v = values_[at(value)];
    v.fixed  = true;
    v.template widen<InWants>();
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
    return partitions(value) == to ? value : run_operation(CopyValue{}, to, value);
  }
  /// The same for a concatenation.
  template <class... V>
  int run_joined(const shard::Concatenate& op, V... input) {
    const ConcatenateFields<static_cast<int>(sizeof...(V))> join{
        op, {partitions(input)[at(op.dim)].size()...}};
    return run_operation(join, join.output_partitions(partitions(input)...), input...);
  }
  /// The output of a record.
  template <class InWants>
  int record(std::unique_ptr<Record> made, std::vector<int> input, const Shape& shape,
             std::vector<bool> passes, bool reads) {
    for (int& value : input) value = seen_with<InWants>(value);
    const int number = static_cast<int>(records_.size());
    const int output = new_value<Base>("shard::activation " + std::to_string(number), shape);
    records_.push_back(std::move(made));
    plan_.operations.push_back({std::move(input), output, std::move(passes), reads});
    return output;
  }

  /// The partitions of an operation's output.
  template <class Op, class... V>
  Partitions partitions_after(const Op& op, V... input) const {
    if constexpr (!has_output_partitions_v<Op, Partitions, V...> &&
                  requires { op.output(prototype(input)...); })
      return op.output(prototype(input)...).partitions();
    else
      return impl::partitions_after(op, partitions(input)...);
  }
  /// The partitions of a value.
  const Partitions& partitions(int value) const { return values_[at(value)].partitions; }

  /// Whether each rank has the whole value: see ValueShape.
  bool is_replicated(int value) const { return values_[at(value)].replicated; }

  /// Declares the outputs of the model, in order. No more operations after that. Throws
  /// ArgumentError for a replicated output.
  void finish(const std::vector<int>& outputs) {
    for (const int value : outputs)
      if (is_replicated(value))
        throw_argument("model", {"its output is a replicated value, which has no points on the "
                                 "mesh"});
    for (std::size_t v = 0; v < values_.size(); ++v)
      if (values_[v].gives) require_one_reader(static_cast<int>(v), outputs);
    int number = 0;
    for (int value : outputs) {
      bool is_used = plan_.values[at(value)].input >= 0 || plan_.values[at(value)].output >= 0;
      for (const PlannedOperation& o : plan_.operations)
        is_used = is_used || std::count(o.inputs.begin(), o.inputs.end(), value) > 0;
      if (is_used) value = run_operation(CopyValue{}, Partitions(partitions(value)), value);
      outputs_.push_back(value);
      plan_.values[at(value)].output = number++;
    }
    for (std::size_t v = 0; v < values_.size(); ++v) plan_.values[v].bytes = values_[v].bytes();
    plan_.close();
    for (std::size_t v = 0; v < values_.size(); ++v) {
      // one memory, one halo
      const int home  = plan_.home(static_cast<int>(v));
      values_[v].halo = values_[at(home)].halo;
    }
  }
  /// The partitions of an output.
  const Partitions& output_partitions(int number) const { return partitions(outputs_[at(number)]); }

  /// Allocates the values, and makes the operations' states. If `apart`, values that are read in
  /// the pullback are stored in this format in between. Collective over the mesh.
  void place(bool apart, LowPrecision format) {
    apart_ = apart;
    plan_.place_values(activations_, apart);
    if (apart) {
      plan_.place_adjoints(activations_);
      plan_.place_tangents(activations_);
    } else {
      plan_.place_adjoints(adjoints_);
      plan_.place_tangents(tangents_);
      adjoints_.place();
      tangents_.place();
    }
    activations_.place();
    memory_ = Array(std::string(apart ? "shard::adjoints" : "shard::activations"),
                    cells(activations_.bytes()));
    keep(format);
    fields_.resize(values_.size());
    replaced_.assign(values_.size(), false);
    for (std::size_t v = 0; v < values_.size(); ++v) {
      const int piece = plan_.piece(static_cast<int>(v));
      fields_[v]      = values_[v].field_at(
               piece == Lifetimes::none ? nullptr : memory_.data() + offset(activations_, piece));
    }
    for (std::size_t r = 0; r < records_.size(); ++r) {
      show_values(r);
      records_[r]->build();
    }
    if (apart) show_partners(activations_, activations_, memory_.data());
  }

  /// Sizes in bytes: see ModelMemory.
  ModelMemory memory() const {
    if (apart_) return {2 * kept_values_, activations_.bytes(), activations_.apart()};
    return {activations_.bytes(), std::max(adjoints_.bytes(), tangents_.bytes()),
            adjoints_.apart()};
  }

  /// Replaces the model's input and output fields. Arrays of fields, without halo.
  void take_values(const Base* y, const Base* x) {
    bool any = false;
    for (std::size_t v = 0; v < values_.size(); ++v) {
      const PlannedValue& of = plan_.values[at(plan_.home(static_cast<int>(v)))];
      replaced_[v]           = (of.input >= 0 && replace(fields_[v], x[of.input])) ||
                     (of.output >= 0 && y != nullptr && replace(fields_[v], y[of.output]));
      any = any || replaced_[v];
    }
    if (any)
      for (std::size_t r = 0; r < records_.size(); ++r)
        if (is_replaced(r)) show_values(r);
  }

  void apply(const Space& space) {
    for (std::size_t r = 0; r < records_.size(); ++r) {
      records_[r]->apply(space);
      const PlannedOperation& o = plan_.operations[r];
      if (plan_.is_stored(o.output)) kept_[at(o.output)].round(space);
      if (apart_)
        for (const int v : o.inputs)
          if (plan_.is_stored(v) && plan_.last_reader(v) == static_cast<int>(r))
            kept_[at(v)].store(space);
    }
  }

  /// Tangents of the model's outputs from those of the inputs. Arrays of fields.
  void pushforward(const Space& space, const Base* ty, const Base* tx) {
    make_partners();
    bool any = false;
    for (std::size_t v = 0; v < values_.size(); ++v) {
      const PlannedBuffer& of = plan_.tangents[at(plan_.home(static_cast<int>(v)))];
      replaced_[v]            = (of.input >= 0 && replace(tangent_fields_[v], tx[of.input])) ||
                     (of.output >= 0 && replace(tangent_fields_[v], ty[of.output]));
      any = any || replaced_[v];
    }
    if (any)
      for (std::size_t r = 0; r < records_.size(); ++r)
        if (is_replaced(r)) show_tangents(r);
    for (std::size_t r = 0; r < records_.size(); ++r) {
      restore(space, r);
      records_[r]->pushforward(space);
    }
  }

  /// Adjoints of the model's inputs from those of the outputs. `wanted`: one flag for each input;
  /// only those dx are read that are wanted.
  void pullback(const Space& space, const Base* dx, const bool* wanted, const Base* dy) {
    make_partners();
    bool changed = false;
    for (std::size_t b = 0; b < plan_.adjoints.size(); ++b) {
      const PlannedBuffer& of = plan_.adjoints[b];
      if (of.piece != Lifetimes::none) continue;
      if (of.output >= 0)
        changed |= replace(adjoint_fields_[b], dy[of.output]);
      else if (wanted[of.input])
        changed |= replace(adjoint_fields_[b], dx[of.input]);
    }
    if (changed)
      for (std::size_t p = 0; p < plan_.pullbacks.size(); ++p) show_adjoints(p);
    for (const PlannedPullback& p : plan_.pullbacks) {
      for (const PlannedSum& sum : p.before) add(space, sum, wanted);
      if (p.operation >= 0) {
        restore(space, at(p.operation));
        std::vector<bool>& flags = wanted_[at(p.operation)];
        for (std::size_t i = 0; i < p.dx.size(); ++i)
          flags[i] = p.dx[i] >= 0 && is_wanted(p.dx[i], wanted);
        records_[at(p.operation)]->pullback(space, flags);
      }
      for (const PlannedSum& sum : p.after) add(space, sum, wanted);
    }
  }

  /// Its layers of sharded values, in order.
  const std::vector<LayerUse<Cuts::rank>>& uses() const { return uses_; }
  /// Number of outputs.
  std::size_t output_count() const { return outputs_.size(); }

 private:
  using Memory = typename Base::memory_space;
  using Array  = Kokkos::View<T*, Kokkos::LayoutRight, Memory>;
  using Value  = RecordedValue<Types>;

  template <class M, class... V>
  int run_layer(const M& module, const Partitions& partitions, V... input) {
    using OneRecord   = LayerRecord<Types, M, static_cast<int>(sizeof...(V)), Space>;
    const auto passes = [&](std::size_t i, int value) {
      if constexpr (requires { module.layer().passes(i); })
        return module.layer().passes(i) && this->partitions(value) == partitions;
      else
        return false;
    };
    std::vector<bool> passed;
    (passed.push_back(passes(passed.size(), input)), ...);
    if constexpr (!broadcasts_v<typename M::layer_type>) require_same_kind({input...});
    const int output =
        record<typename OneRecord::Wants>(std::make_unique<OneRecord>(module), {input...},
                                          shape_after<typename M::layer_type>(partitions, input...),
                                          std::move(passed), OneRecord::reads());
    if (!is_replicated(output)) {
      const int first[] = {input...};
      uses_.push_back(layer_use(module, this->partitions(first[0]), partitions));
    }
    if constexpr (wants_halo_v<typename OneRecord::Gives, Cuts::dims>) {
      values_[at(output)].template widen<typename OneRecord::Gives>();
      values_[at(output)].gives = true;
    }
    return output;
  }
  template <class M, class... V>
  int run_gathered(const M& of, const Partitions& partitions, V... input) {
    using Op        = typename M::layer_type::gathered_type;
    using One       = Module<T, Memory, Op>;
    using OneRecord = GatheredRecord<Types, MeshType, One, static_cast<int>(sizeof...(V)), Space>;
    require_same_kind({input...});
    const One one(of.layer().op, of.parameters(), of.gradients(), of.frozen_state(), of.buffers(),
                  of.run());
    const int out = record<typename OneRecord::Wants>(
        std::make_unique<OneRecord>(one, meshes_),
        {moved(input, owned_by_first(this->partitions(input)))...},
        Shape{owned_by_first(partitions), is_replicated(std::array{input...}.front())},
        std::vector<bool>(sizeof...(V), false), OneRecord::reads());
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

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  static std::size_t cells(index_t bytes) { return static_cast<std::size_t>(bytes) / sizeof(T); }
  static index_t offset(const Lifetimes& arena, int piece) {
    return arena.offset(piece) / static_cast<index_t>(sizeof(T));
  }

  template <class Op, class P, class... V>
  static constexpr bool has_output_partitions_v = requires(const Op& op, const P& p) {
    op.output_partitions((void(std::declval<V>()), p)...);
  }
  || requires(const Op& op, const P& p) { op.output_partitions(p); };
  /// A field without memory that is like a value.
  Base prototype(int value) const { return values_[at(value)].field_at(nullptr); }

  template <class Field>
  int new_value(std::string_view label, const Shape& shape) {
    Value v;
    v.geometry   = FieldTypeOf<Field>::make(label, meshes_.of(shape.replicated), nullptr,
                                            shape.partitions.data());
    v.partitions = shape.partitions;
    v.replicated = shape.replicated;
    values_.push_back(std::move(v));
    plan_.values.emplace_back();
    return static_cast<int>(values_.size()) - 1;
  }

  /// The value, or a copy of it, in memory with these halos. Collective over the mesh.
  template <class InWants>
  int seen_with(int value) {
    if constexpr (!wants_halo_v<InWants, Cuts::dims>) {
      return value;
    } else {
      // checks the boundaries against the extents
      FieldTypeOf<typename Types::template Field<InWants>>::make(values_[at(value)].geometry.label,
                                                                 meshes_.of(is_replicated(value)),
                                                                 nullptr, partitions(value).data());
      if (values_[at(value)].gives) {
        values_[at(value)].suits_reader = values_[at(value)].template gives_all<InWants>();
        return value;
      }
      std::vector<int> places{value};
      places.insert(places.end(), values_[at(value)].copies.begin(),
                    values_[at(value)].copies.end());
      for (const int place : places)
        if (values_[at(place)].template suits<InWants>()) {
          if (!values_[at(place)].fixed) values_[at(place)].template widen<InWants>();
          return place;
        }
      const int copy = run_operation(CopyValue{}, Partitions(partitions(value)), value);
      values_[at(value)].copies.push_back(copy);
      plan_.values[at(copy)].copy_of = plan_.values[at(value)].input;
      values_[at(copy)].template widen<InWants>();
      return copy;
    }
  }

  /// Throws ArgumentError if some values are replicated and others are not.
  void require_same_kind(const std::vector<int>& values) const {
    for (const int value : values)
      if (is_replicated(value) != is_replicated(values.front()))
        throw_argument("model", {"an operation of a replicated value and of one that is sharded; "
                                 "Multiply, AddBroadcast, Modulated and SpatialUnpool take both, "
                                 "the sharded one first"});
  }

  /// Throws ArgumentError unless a HaloExchange's output has one reader, which wants its halo: the
  /// adjoint of a halo that nobody writes, or that several write, isn't known.
  void require_one_reader(int value, const std::vector<int>& outputs) const {
    auto readers = std::count(outputs.begin(), outputs.end(), value);
    for (const PlannedOperation& o : plan_.operations)
      readers += std::count(o.inputs.begin(), o.inputs.end(), value);
    if (readers != 1 || !values_[at(value)].suits_reader)
      throw_argument("model",
                     {"the output of a HaloExchange in a model is read by one layer, which "
                      "needs a halo of the same widths"});
  }

  /// Puts another field there; returns whether it wasn't the same memory.
  static bool replace(Base& field, const Base& by) {
    bool same = FieldAccess::is_made(field) && field.origin() == by.origin();
    for (int d = 0; same && d < Base::rank; ++d)
      same = field.stride(d) == by.stride(d) && field.extent(d) == by.extent(d);
    if (!same) field = by;
    return !same;
  }

  /// Places the stored values.
  void keep(LowPrecision format) {
    kept_.assign(values_.size(), {});
    kept_values_ = 0;
    for (std::size_t v = 0; v < values_.size(); ++v)
      if (plan_.is_stored(static_cast<int>(v)) &&
          plan_.home(static_cast<int>(v)) == static_cast<int>(v)) {
        kept_[v].count  = values_[v].bytes() / static_cast<index_t>(sizeof(T));
        kept_[v].format = format;
        kept_values_ += (kept_[v].count + 31) / 32 * 32;  // each begins at a multiple of 64 bytes
      }
    if (!apart_) return;
    stored_ = decltype(stored_)("shard::activations", static_cast<std::size_t>(kept_values_));
    std::uint16_t* narrow = stored_.data();
    for (std::size_t v = 0; v < values_.size(); ++v)
      if (kept_[v].count > 0) {
        kept_[v].wide   = memory_.data() + offset(activations_, plan_.piece(static_cast<int>(v)));
        kept_[v].narrow = narrow;
        narrow += (kept_[v].count + 31) / 32 * 32;
      }
  }
  /// Brings back the stored values that operation `r` reads.
  void restore(const Space& space, std::size_t r) {
    if (!apart_ || !plan_.operations[r].reads) return;
    const std::vector<int>& in = plan_.operations[r].inputs;
    for (std::size_t i = 0; i < in.size(); ++i)
      if (plan_.is_stored(in[i]) &&
          std::count(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(i), in[i]) == 0)
        kept_[at(in[i])].restore(space);
  }

  /// Allocates adjoints and tangents, if needed.
  void make_partners() {
    if (apart_ || has_partners_) return;
    partners_ = Array("shard::adjoints", cells(std::max(adjoints_.bytes(), tangents_.bytes())));
    show_partners(adjoints_, tangents_, partners_.data());
  }
  void show_partners(const Lifetimes& adjoints, const Lifetimes& tangents, T* cells) {
    const auto place = [&](const Lifetimes& arena, const PlannedBuffer& b) {
      return values_[at(b.value)].field_at(
          b.piece == Lifetimes::none ? nullptr : cells + offset(arena, b.piece));
    };
    adjoint_fields_.clear();
    for (const PlannedBuffer& b : plan_.adjoints) adjoint_fields_.push_back(place(adjoints, b));
    tangent_fields_.clear();
    for (std::size_t v = 0; v < values_.size(); ++v)
      tangent_fields_.push_back(
          place(tangents, plan_.tangents[at(plan_.home(static_cast<int>(v)))]));
    wanted_.clear();
    for (std::size_t r = 0; r < records_.size(); ++r) {
      wanted_.emplace_back(plan_.operations[r].inputs.size());
      show_tangents(r);
    }
    for (std::size_t p = 0; p < plan_.pullbacks.size(); ++p) show_adjoints(p);
    has_partners_ = true;
  }
  /// The fields of these numbers, until the next call.
  const std::vector<Base>& picked(const std::vector<Base>& from, const std::vector<int>& numbers) {
    some_.clear();
    for (const int n : numbers) some_.push_back(n < 0 ? Base() : from[at(n)]);
    return some_;
  }
  /// Whether an operation works on a field that was replaced.
  bool is_replaced(std::size_t r) const {
    const PlannedOperation& o = plan_.operations[r];
    return replaced_[at(o.output)] ||
           std::any_of(o.inputs.begin(), o.inputs.end(), [&](int v) { return replaced_[at(v)]; });
  }
  void show_values(std::size_t r) {
    const PlannedOperation& o = plan_.operations[r];
    records_[r]->see(FieldKind::values, fields_[at(o.output)], picked(fields_, o.inputs));
  }
  void show_tangents(std::size_t r) {
    const PlannedOperation& o = plan_.operations[r];
    records_[r]->see(FieldKind::tangents, tangent_fields_[at(o.output)],
                     picked(tangent_fields_, o.inputs));
  }
  void show_adjoints(std::size_t p) {
    const PlannedPullback& pull = plan_.pullbacks[p];
    if (pull.operation >= 0)
      records_[at(pull.operation)]->see(FieldKind::adjoints, adjoint_fields_[at(pull.dy)],
                                        picked(adjoint_fields_, pull.dx));
  }

  bool is_wanted(int buffer, const bool* wanted) const {
    const int input = plan_.adjoints[at(buffer)].input;
    return input < 0 || wanted[input];
  }
  void add(const Space& space, const PlannedSum& sum, const bool* wanted) const {
    if (!is_wanted(sum.to, wanted)) return;
    const Base& to = adjoint_fields_[at(sum.to)];
    if (sum.a < 0)
      zero_value(space, to);
    else if (sum.b < 0)
      copy_gradient(space, to, adjoint_fields_[at(sum.a)]);
    else
      add_gradients(space, to, adjoint_fields_[at(sum.a)], adjoint_fields_[at(sum.b)]);
  }

  ModelMeshes<MeshType> meshes_;
  std::vector<Value> values_;
  std::vector<std::unique_ptr<Record>> records_;
  std::vector<LayerUse<Cuts::rank>> uses_;
  std::vector<int> outputs_;
  ValuePlan plan_;
  int inputs_ = 0;
  bool apart_ = false, has_partners_ = false;
  Lifetimes activations_, adjoints_, tangents_;
  Array memory_;    ///< of values
  Array partners_;  ///< of their adjoints and tangents
  Kokkos::View<std::uint16_t*, Kokkos::LayoutRight, Memory> stored_;  ///< in two bytes per value
  index_t kept_values_ = 0;
  std::vector<KeptActivation<T>> kept_;
  std::vector<Base> fields_, tangent_fields_, adjoint_fields_;
  std::vector<Base> some_;  ///< see picked
  std::vector<bool> replaced_;
  std::vector<std::vector<bool>> wanted_;
};

}  // namespace shard::impl

#endif
