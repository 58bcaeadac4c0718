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

}  // namespace impl
}  // namespace shard

#endif
