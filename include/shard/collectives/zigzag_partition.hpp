// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COLLECTIVES_ZIGZAG_PARTITION_HPP
#define SHARD_COLLECTIVES_ZIGZAG_PARTITION_HPP

#include <array>
#include <cstddef>
#include <vector>

#include "shard/base/types.hpp"

/// \file
/// The zigzag order of a sequence over P ranks: 2P chunks of equal length, of which rank r has r
/// and 2P - 1 - r, in this order. It balances the work of causal operations.

namespace shard {

/// The chunk at a place of the zigzag order of n chunks: 0, n - 1, 1, n - 2, ...
constexpr int zigzag_chunk(int place, int chunks) {
  return place % 2 == 0 ? place / 2 : chunks - 1 - place / 2;
}

/// The place of a chunk in the zigzag order, the inverse of zigzag_chunk.
constexpr int zigzag_place(int chunk, int chunks) {
  return 2 * chunk < chunks ? 2 * chunk : 2 * (chunks - 1 - chunk) + 1;
}

/// The zigzag order as a list, to gather chunks by: reordered[i] = natural[zigzag_order(n)[i]].
/// Throws ArgumentError for a negative number. Local.
std::vector<int> zigzag_order(int chunks);
/// The inverse list: natural[i] = reordered[zigzag_inverse(n)[i]]. Throws ArgumentError for a
/// negative or odd number. Local.
std::vector<int> zigzag_inverse(int chunks);

/// The same at compile time.
template <int Chunks>
constexpr std::array<int, static_cast<std::size_t>(Chunks)> zigzag_order() {
  static_assert(Chunks >= 0, "a sequence has no negative number of chunks");
  std::array<int, static_cast<std::size_t>(Chunks)> list{};
  for (int i = 0; i < Chunks; ++i) list[static_cast<std::size_t>(i)] = zigzag_chunk(i, Chunks);
  return list;
}
/// The same at compile time.
template <int Chunks>
constexpr std::array<int, static_cast<std::size_t>(Chunks)> zigzag_inverse() {
  static_assert(Chunks >= 0 && Chunks % 2 == 0, "a zigzag order has an even number of chunks");
  std::array<int, static_cast<std::size_t>(Chunks)> list{};
  for (int c = 0; c < Chunks; ++c) list[static_cast<std::size_t>(c)] = zigzag_place(c, Chunks);
  return list;
}

namespace impl {
[[noreturn]] void throw_no_zigzag(index_t size, int ranks);
}  // namespace impl

/// Ownership of a sequence in zigzag order: a rank's local indices are those of its first chunk,
/// then those of its second. Chunks have ceil(size / 2P) indices, the last one the rest. A value,
/// the same on every rank.
class ZigzagPartition {
 public:
  /// Global indices [begin, end).
  struct Range {
    index_t begin = 0;  ///< the first
    index_t end   = 0;  ///< one past the last
    /// Number of indices.
    constexpr index_t size() const { return end - begin; }
    /// Whether both are the same.
    friend constexpr bool operator==(const Range&, const Range&) = default;
  };

  /// Whether `size` indices make 2P chunks that aren't empty, or none at all.
  static constexpr bool exists(index_t size, int ranks) {
    return ranks > 0 && size >= 0 &&
           (size == 0 || (2 * index_t{ranks} - 1) * chunk_of_all(size, ranks) < size);
  }
  /// Throws ArgumentError unless it exists, with both numbers.
  constexpr ZigzagPartition(index_t size, int ranks)
      : size_(size), chunk_(exists(size, ranks) ? chunk_of_all(size, ranks) : 0), ranks_(ranks) {
    if (!exists(size, ranks)) impl::throw_no_zigzag(size, ranks);
  }

  /// Number of indices, all ranks together.
  constexpr index_t size() const { return size_; }
  /// Number of ranks.
  constexpr int ranks() const { return ranks_; }
  /// Number of chunks.
  constexpr int chunks() const { return 2 * ranks_; }
  /// Indices of a chunk, all but the last one's.
  constexpr index_t chunk_size() const { return chunk_; }
  /// Whether all chunks have as many indices.
  constexpr bool even() const { return chunk_ * chunks() == size_; }
  /// The indices of a chunk.
  constexpr Range chunk(int c) const {
    return {c * chunk_, c == chunks() - 1 ? size_ : (c + 1) * chunk_};
  }
  /// The rank that has a chunk.
  constexpr int rank_of_chunk(int c) const { return c < ranks_ ? c : chunks() - 1 - c; }
  /// The two ranges of a rank, in the order of its local indices.
  constexpr std::array<Range, 2> ranges(int rank) const {
    return {chunk(rank), chunk(chunks() - 1 - rank)};
  }
  /// Number of indices of a rank.
  constexpr index_t count(int rank) const {
    return chunk(rank).size() + chunk(chunks() - 1 - rank).size();
  }
  /// The chunk of an index, 0 <= g < size().
  constexpr int chunk_of(index_t g) const { return static_cast<int>(g / chunk_); }
  /// The rank that owns an index.
  constexpr int owner(index_t g) const { return rank_of_chunk(chunk_of(g)); }
  /// The local index of an index on its owner.
  constexpr index_t local_index(index_t g) const {
    return g % chunk_ + (chunk_of(g) < ranks_ ? 0 : chunk_);
  }
  /// The index that a rank has at a local index.
  constexpr index_t global_index(int rank, index_t local) const {
    return local < chunk_ ? rank * chunk_ + local : (chunks() - 1 - rank) * chunk_ + local - chunk_;
  }
  /// Whether both are equal.
  friend constexpr bool operator==(const ZigzagPartition&, const ZigzagPartition&) = default;

 private:
  static constexpr index_t chunk_of_all(index_t size, int ranks) {
    return (size + 2 * ranks - 1) / (2 * ranks);
  }
  index_t size_ = 0, chunk_ = 0;
  int ranks_ = 1;
};

}  // namespace shard

#endif
