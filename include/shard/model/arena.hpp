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

/// What a model on a mesh keeps on this rank between its layers, in bytes (see
/// ShardedModel::memory).
struct ModelMemory {
  /// Of what is between layers, kept until the pullback.
  index_t activations = 0;
  /// Of its adjoints, or tangents, which share their memory; where activations are kept in two
  /// bytes a value (ShardedModel::keep_activations), also of those that layers work on.
  index_t adjoints = 0;
  /// What these would take if each had memory of its own.
  index_t adjoints_apart = 0;
};

namespace impl {

/// Pieces of one allocation and when each is in use. Time is the order of the calls: a piece is in
/// use from `begin` until all its readers have called `end`, as often as they do; always, if
/// `begin` isn't called. A number below zero stands for memory that is none of the pieces.
class Lifetimes {
 public:
  static constexpr int none      = -1;  ///< no piece
  static constexpr index_t align = 64;  ///< bytes; each piece begins at a multiple

  /// One piece more; its number, counted from zero.
  int add(index_t bytes);
  /// It is written and has one reader.
  void begin(int piece);
  /// One reader more.
  void hold(int piece);
  /// A reader is done with it.
  void end(int piece);

  /// Finds a place for each piece, so that no two overlap that are in use at the same time: within
  /// most_alive() bytes where a search of bounded length finds a way, else within a few more.
  void place();
  /// Where a piece begins, in bytes.
  index_t offset(int piece) const { return pieces_[static_cast<std::size_t>(piece)].offset; }
  /// Of all pieces, as they are placed.
  index_t bytes() const { return bytes_; }
  /// If each had its own memory.
  index_t apart() const;
  /// In use at the same time at most.
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

/// An activation that is kept in two bytes a value from its consumer's apply to the pullback; where
/// layers see it, it is there only while they work on it.
template <class T>
struct KeptActivation {
  T* wide               = nullptr;  ///< where layers see it, with its halo
  std::uint16_t* narrow = nullptr;  ///< null: it is kept where layers see it
  index_t count         = 0;        ///< of values
  LowPrecision format   = LowPrecision::bfloat16;

  /// Gives it values that can be kept.
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

/// The fields that are in one allocation: a model's runners take them, and say when they are in use
/// (see Lifetimes). They have memory once all are taken and `place` is given it; they must stay
/// where they are until then.
template <class T>
class FieldArena {
 public:
  static constexpr int none = Lifetimes::none;  ///< memory that is none of its fields'

  /// Of activations: whether they have memory only while they are in use, being kept elsewhere.
  bool keeps_apart = false;

  /// A field with these partitions, without memory so far; its number. Collective over the mesh.
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
  /// An activation, with these partitions, which `kept` keeps where activations are kept elsewhere;
  /// its number, `none` if it is always in use. Collective over the mesh.
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
  /// The same of one that no pullback reads.
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

  /// Finds the places.
  void close() { lives_.place(); }
  /// Gives the fields their places in bytes() of memory.
  void place(T* memory) const {
    for (std::size_t i = 0; i < fields_.size(); ++i)
      fields_[i].move(fields_[i].field, memory + lives_.offset(static_cast<int>(i)) /
                                                     static_cast<index_t>(sizeof(T)));
  }
  /// The same, of activations that are kept in kept_values() values of two bytes.
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
  /// Values that are kept apart.
  index_t kept_values() const { return kept_values_; }
  /// Of all fields together, and if each had its own memory.
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
