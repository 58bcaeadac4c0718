// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_ARENA_HPP
#define SHARD_MODEL_ARENA_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "shard/mesh/mesh.hpp"
#include "shard/model/optimiser_kernels.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

/// Memory of the fields between a model's layers on this rank, in bytes (see ShardedModel::memory).
struct ModelMemory {
  /// Activations, stored until the pullback.
  index_t activations = 0;
  /// Adjoints or tangents, which share their memory. With ShardedModel::keep_activations also the
  /// activations that layers are working on.
  index_t adjoints = 0;
  /// The size of `adjoints` without sharing.
  index_t adjoints_apart = 0;
};

namespace impl {

/// Buffers in one allocation, and when each is in use. Time is the order of the calls: a buffer is
/// in use from `begin` until all its readers have called `end`; always, if `begin` isn't called.
/// Negative numbers stand for other memory.
class Lifetimes {
 public:
  static constexpr int none      = -1;  ///< no buffer
  static constexpr index_t align = 64;  ///< bytes; each buffer begins at a multiple

  /// Adds a buffer; returns its number, counted from zero.
  int add(index_t bytes);
  /// Marks the buffer as in use, with one reader.
  void begin(int piece);
  /// Adds a reader.
  void hold(int piece);
  /// Removes a reader.
  void end(int piece);

  /// Places the buffers so that buffers in use at the same time don't overlap: within most_alive()
  /// bytes if a bounded search succeeds, else slightly more.
  void place();
  /// Offset of a buffer, in bytes.
  index_t offset(int piece) const { return pieces_[static_cast<std::size_t>(piece)].offset; }
  /// Total size, as placed.
  index_t bytes() const { return bytes_; }
  /// Total size without sharing.
  index_t apart() const;
  /// Largest size in use at the same time.
  index_t most_alive() const;

 private:
  struct Span {
    int begin, end;
  };
  struct Piece {
    index_t bytes = 0, offset = 0;
    int readers = 0;
    std::vector<Span> spans;
    int first() const { return spans.empty() ? 0 : spans.front().begin; }
    bool in_use(int time) const;
    bool meets(const Piece& other) const;
  };
  struct Search;

  void place_by_size();

  std::vector<Piece> pieces_;
  int now_       = 0;
  index_t bytes_ = 0;
};

/// An activation that is stored in two bytes per value from its consumer's apply to the pullback.
/// Its full-width copy exists only while layers work on it.
template <class T>
struct KeptActivation {
  T* wide               = nullptr;  ///< the full-width copy, with its halo
  std::uint16_t* narrow = nullptr;  ///< the stored values; null: stored in full width
  index_t count         = 0;        ///< of values
  LowPrecision format   = LowPrecision::bfloat16;

  /// Rounds the values to the stored format.
  template <class Space>
  void round(const Space& space) const {
    if (narrow != nullptr) OptimiserKernels<Space, T>::round(space, wide, wide, count, format);
  }
  template <class Space>
  void store(const Space& space) const {
    if (narrow != nullptr) NarrowKernels<Space, T>::narrow(space, narrow, wide, count, format);
  }
  template <class Space>
  void restore(const Space& space) const {
    if (narrow != nullptr) NarrowKernels<Space, T>::widen(space, wide, narrow, count, format);
  }
};

/// Fields in one allocation: a model's runners take them, and mark when they are in use (see
/// Lifetimes). They get memory in `place`, after all are taken; don't move the field objects until
/// then.
template <class T>
class FieldArena {
 public:
  static constexpr int none = Lifetimes::none;  ///< other memory

  /// For activations: whether they have memory only while they are in use, and are stored
  /// elsewhere.
  bool keeps_apart = false;

  /// Takes a field with these partitions, without memory yet; returns its number. Collective over
  /// the mesh.
  template <class Field, class... MeshAxes>
  int take(Field& field, std::string_view label, const Mesh<MeshAxes...>& mesh,
           const std::array<Partition, static_cast<std::size_t>(Field::rank)>& partitions) {
    without_memory(field, label, mesh, partitions);
    return put(field);
  }
  /// A field with these partitions that will never have memory. Collective over the mesh.
  template <class Field, class... MeshAxes>
  static void without_memory(
      Field& field, std::string_view label, const Mesh<MeshAxes...>& mesh,
      const std::array<Partition, static_cast<std::size_t>(Field::rank)>& partitions) {
    field = FieldAccess::wrap_at<Field>(
        FieldTypeOf<Field>::make(label, mesh, nullptr, partitions.data()), nullptr);
  }
  /// Takes an activation with these partitions, stored by `kept` if activations are stored
  /// elsewhere. Returns its number, `none` if it is always in use. Collective over the mesh.
  template <class Field, class MeshType>
  int take_activation(
      Field& field, KeptActivation<T>& kept, std::string_view label, const MeshType& mesh,
      const std::array<Partition, static_cast<std::size_t>(Field::rank)>& partitions) {
    const int piece = take(field, label, mesh, partitions);
    if (!keeps_apart) return none;
    fields_.back().kept = &kept;
    kept.count = static_cast<index_t>(FieldTypeOf<Field>::bytes(field.geometry()) / sizeof(T));
    kept_values_ += (kept.count + 31) / 32 * 32;  // each begins at a multiple of 64 bytes
    return piece;
  }
  /// The same for one that no pullback reads.
  template <class Field, class MeshType>
  int take_passing(Field& field, std::string_view label, const MeshType& mesh,
                   const std::array<Partition, static_cast<std::size_t>(Field::rank)>& partitions) {
    const int piece = take(field, label, mesh, partitions);
    return keeps_apart ? piece : none;
  }
  /// The same with the mesh and the partitions of another field. Local.
  template <class Field, class Like>
  int take_like(Field& field, std::string_view label, const Like& like) {
    field = FieldAccess::wrap_at<Field>(like.geometry().named(label), nullptr);
    return put(field);
  }

  /// See Lifetimes.
  void begin(int field) { lives_.begin(field); }
  void hold(int field) { lives_.hold(field); }
  void end(int field) { lives_.end(field); }

  /// Places the fields.
  void close() { lives_.place(); }
  /// Assigns the fields their parts of bytes() of memory.
  void place(T* memory) const {
    for (std::size_t i = 0; i < fields_.size(); ++i)
      fields_[i].move(fields_[i].field, memory + lives_.offset(static_cast<int>(i)) /
                                                     static_cast<index_t>(sizeof(T)));
  }
  /// The same, with kept_values() two-byte values for stored activations.
  void place(T* memory, std::uint16_t* kept, LowPrecision format) const {
    place(memory);
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (fields_[i].kept == nullptr) continue;
      KeptActivation<T>& k = *fields_[i].kept;
      k.wide   = memory + lives_.offset(static_cast<int>(i)) / static_cast<index_t>(sizeof(T));
      k.narrow = kept;
      k.format = format;
      kept += (k.count + 31) / 32 * 32;
    }
  }
  /// Number of two-byte values.
  index_t kept_values() const { return kept_values_; }
  /// Total size of all fields, with and without sharing.
  index_t bytes() const { return lives_.bytes(); }
  index_t apart() const { return lives_.apart(); }

 private:
  struct Entry {
    void* field;
    void (*move)(void* field, T* cells);
    KeptActivation<T>* kept;
  };

  template <class Field>
  int put(Field& field) {
    fields_.push_back(
        {&field, [](void* to, T* cells) { FieldAccess::move_to(*static_cast<Field*>(to), cells); },
         nullptr});
    return lives_.add(static_cast<index_t>(FieldTypeOf<Field>::bytes(field.geometry())));
  }

  Lifetimes lives_;
  std::vector<Entry> fields_;
  index_t kept_values_ = 0;
};

}  // namespace impl
}  // namespace shard

#endif
