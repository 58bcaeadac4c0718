// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_ARENA_HPP
#define SHARD_MODEL_ARENA_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "shard/mesh/mesh.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

/// What a model on a mesh keeps on this rank between its layers, in bytes (see
/// ShardedModel::memory).
struct ModelMemory {
  index_t activations    = 0;  ///< of what lies between layers; all of it lives until the pullback
  index_t adjoints       = 0;  ///< of its adjoints, or tangents, which share their memory
  index_t adjoints_apart = 0;  ///< what adjoints would take if each had memory of its own
};

namespace impl {

/// Pieces of one allocation and when each is in use. Time is the order of the calls: a piece is in
/// use from `begin` (the start, if that isn't called) until all its readers have called `end`. A
/// number below zero stands for memory that is none of the pieces.
class Lifetimes {
 public:
  static constexpr int none      = -1;  ///< no piece
  static constexpr index_t align = 64;  ///< bytes; each piece begins at a multiple

  /// One piece more, with one reader; its number, counted from zero.
  int add(index_t bytes);
  /// It is written for the first time.
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
  struct Piece {
    index_t bytes = 0, offset = 0;
    int begin = 0, end = std::numeric_limits<int>::max(), readers = 1;
    bool meets(const Piece& other) const { return begin <= other.end && other.begin <= end; }
  };
  struct Search;

  void place_by_size();

  std::vector<Piece> pieces_;
  int now_       = 0;
  index_t bytes_ = 0;
};

/// Bytes of this rank's part of a field and its halo.
index_t shard_bytes(const MeshState& mesh, int rank, const DimType* types,
                    const Partition* partitions, int value_size);

/// What a model's runners are asked with for the fields that lie between layers: twice, in the same
/// order. The first time fields are noted, and when they are in use; the second time, all places
/// being known, they are made.
template <class T>
class ArenaWalk {
 public:
  /// The first time.
  explicit ArenaWalk(Lifetimes& lives) : lives_(&lives) {}
  /// The second time; the arena lies at `memory`.
  ArenaWalk(Lifetimes& lives, T* memory) : lives_(&lives), memory_(memory), makes_(true) {}

  /// A field with these partitions, its number among the pieces. Collective the second time.
  template <class Field, class... MeshAxes>
  int take(Field& field, std::string_view label, const Mesh<MeshAxes...>& mesh,
           const std::array<Partition, static_cast<std::size_t>(Field::rank)>& partitions) {
    using Type                  = FieldTypeOf<Field>;
    static constexpr auto types = Type::template dim_types<MeshAxes...>();
    if (!makes_)
      return lives_->add(shard_bytes(*mesh.state(), Field::rank, types.data(), partitions.data(),
                                     static_cast<int>(sizeof(T))));
    return put(field, Type::make(label, mesh, nullptr, partitions.data()));
  }
  /// The same with the mesh and the partitions of another field.
  template <class Field, class Like>
  int take_like(Field& field, std::string_view label, const Like& like) {
    int front[Field::rank];
    for (int d = 0; d < Field::rank; ++d) front[d] = Field::halo_lo(d);
    if (!makes_)
      return lives_->add(static_cast<index_t>(FieldTypeOf<Field>::bytes(like.geometry())));
    return put(field, geometry_like(like.geometry(), label, front, false));
  }

  /// See Lifetimes; nothing the second time.
  void begin(int piece) {
    if (!makes_) lives_->begin(piece);
  }
  void hold(int piece) {
    if (!makes_) lives_->hold(piece);
  }
  void end(int piece) {
    if (!makes_) lives_->end(piece);
  }

 private:
  template <class Field>
  int put(Field& field, StoredGeometry geometry) {
    const index_t values = lives_->offset(next_) / static_cast<index_t>(sizeof(T));
    field                = FieldAccess::make_at<Field>(std::move(geometry), memory_ + values);
    return next_++;
  }

  Lifetimes* lives_;
  T* memory_  = nullptr;
  bool makes_ = false;
  int next_   = 0;
};

}  // namespace impl
}  // namespace shard

#endif
