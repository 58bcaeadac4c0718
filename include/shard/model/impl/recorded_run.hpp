// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_RECORDED_RUN_HPP
#define SHARD_MODEL_IMPL_RECORDED_RUN_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shard/model/arena.hpp"
#include "shard/model/impl/layer_record.hpp"
#include "shard/model/impl/recorded_value.hpp"
#include "shard/model/impl/value_plan.hpp"
#include "shard/model/impl/window_use.hpp"

namespace shard::impl {

/// Runs the operations that a Recorder has recorded: the memory of their values, adjoints and
/// tangents, and the order of the calls. Fields that a user passes are kept until others replace
/// them. Its functions are in the library, for float and double, one to three dimensions in space,
/// and Kokkos' default execution spaces.
template <class T, class Memory, int Rank, class Space>
class RecordedRun {
 public:
  using Field      = RunField<T, Memory, Rank>;
  using Partitions = std::array<Partition, static_cast<std::size_t>(Rank)>;
  using Record     = ModelRecord<Field, Space>;

  RecordedRun();
  RecordedRun(const RecordedRun&)            = delete;
  RecordedRun& operator=(const RecordedRun&) = delete;
  ~RecordedRun();

  /// The partitions of a value.
  const Partitions& partitions(int value) const { return values_[at(value)].partitions; }
  /// Whether each rank has the whole value: see ValueShape.
  bool is_replicated(int value) const { return values_[at(value)].replicated; }
  /// The partitions of an output.
  const Partitions& output_partitions(int number) const { return partitions(outputs_[at(number)]); }
  /// Number of outputs.
  std::size_t output_count() const { return outputs_.size(); }
  /// Number of operations.
  std::size_t operation_count() const { return records_.size(); }
  /// Its layers of sharded values, in order.
  const std::vector<LayerUse<Rank>>& uses() const { return uses_; }

  /// Allocates the values, and makes the operations' states. If `apart`, values that are read in
  /// the pullback are stored in this format in between. Collective over the mesh.
  void place(bool apart, LowPrecision format);
  /// Sizes in bytes: see ModelMemory.
  ModelMemory memory() const;

  /// Replaces the model's input and output fields. Arrays of fields; without y outputs stay.
  void take_values(const Field* y, const Field* x);
  /// The outputs from the inputs.
  void apply(const Space& space);
  /// Tangents of the model's outputs from those of the inputs. Arrays of fields.
  void pushforward(const Space& space, const Field* ty, const Field* tx);
  /// Adjoints of the model's inputs from those of the outputs. `wanted`: one flag for each input;
  /// only those dx are read that are wanted.
  void pullback(const Space& space, const Field* dx, const bool* wanted, const Field* dy);

 protected:
  using Array = Kokkos::View<T*, Kokkos::LayoutRight, Memory>;
  using Value = RecordedValue<T, Memory, Rank>;

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  /// Adds a value of this geometry; returns its number.
  int add_value(Geometry geometry, const Partitions& partitions, bool replicated);
  /// Adds an operation; returns its number. `passes`: see PlannedOperation.
  int add_operation(std::unique_ptr<Record> made, std::span<const int> input, int output,
                    std::span<const bool> passes, bool reads);
  /// Adds a layer to `uses`.
  void add_use(const LayerUse<Rank>& use);
  /// The value, or a copy of it, in memory that has these halos or gets them; negative: none has.
  int place_for(int value, const WantedHalo<Rank - 2>& wanted);
  /// Value `copy` is a copy of another one, in memory with these halos.
  void add_copy(int copy, int value, const WantedHalo<Rank - 2>& wanted);
  /// Whether an operation or the user has a value already, so that as an output it is copied.
  bool is_used(int value) const;
  /// Adds an output of the model.
  void add_output(int value);
  /// No more values and operations.
  void close();
  /// Throws ArgumentError for a replicated output, and unless each HaloExchange's output has one
  /// reader, which wants its halo: the adjoint of a halo that nobody writes, or that several write,
  /// isn't known.
  void require_outputs(const std::vector<int>& outputs) const;
  /// Throws ArgumentError if some values are replicated and others are not.
  void require_same_kind(std::span<const int> values) const;

  std::vector<Value> values_;
  std::vector<std::unique_ptr<Record>> records_;
  std::vector<LayerUse<Rank>> uses_;
  ValuePlan plan_;

 private:
  static std::size_t cells(index_t bytes) { return static_cast<std::size_t>(bytes) / sizeof(T); }
  static index_t offset(const Lifetimes& arena, int piece) {
    return arena.offset(piece) / static_cast<index_t>(sizeof(T));
  }
  /// Puts another field there; returns whether it wasn't the same memory.
  static bool replace(Field& field, const Field& by);
  /// Places the stored values.
  void keep(LowPrecision format);
  /// Brings back the stored values that operation `r` reads.
  void restore(const Space& space, std::size_t r);
  /// Allocates adjoints and tangents, if needed.
  void make_partners();
  void show_partners(const Lifetimes& adjoints, const Lifetimes& tangents, T* cells);
  /// The fields of these numbers, until the next call.
  const std::vector<Field>& picked(const std::vector<Field>& from, const std::vector<int>& numbers);
  /// Whether an operation works on a field that was replaced.
  bool is_replaced(std::size_t r) const;
  void show_values(std::size_t r);
  void show_tangents(std::size_t r);
  void show_adjoints(std::size_t p);
  bool is_wanted(int buffer, const bool* wanted) const;
  void add(const Space& space, const PlannedSum& sum, const bool* wanted) const;

  std::vector<int> outputs_;
  bool apart_ = false, has_partners_ = false;
  Lifetimes activations_, adjoints_, tangents_;
  Array memory_;    ///< of values
  Array partners_;  ///< of their adjoints and tangents
  Kokkos::View<std::uint16_t*, Kokkos::LayoutRight, Memory> stored_;  ///< in two bytes per value
  index_t kept_values_ = 0;
  std::vector<KeptActivation<T>> kept_;
  std::vector<Field> fields_, tangent_fields_, adjoint_fields_;
  std::vector<Field> some_;  ///< see picked
  std::vector<bool> replaced_;
  std::vector<std::vector<bool>> wanted_;
};

}  // namespace shard::impl

#endif
