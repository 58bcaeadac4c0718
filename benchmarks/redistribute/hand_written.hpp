// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_REDISTRIBUTE_HAND_WRITTEN_HPP
#define SHARD_BENCHMARKS_REDISTRIBUTE_HAND_WRITTEN_HPP

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

/// What a good programmer writes for the cases of this benchmark: packs into a buffer, one
/// MPI_Alltoallv, unpacks; buffers are kept. Knows nothing of shard.
namespace hand {

using index_t = std::int64_t;

/// Floats [a][b][c], the last dimension contiguous, cut in one of them.
using Box = std::array<index_t, 3>;

/// The indices that a rank of several has of n, the first ranks one more.
index_t begin_of(index_t n, int ranks, int rank);
inline index_t count_of(index_t n, int ranks, int rank) {
  return begin_of(n, ranks, rank + 1) - begin_of(n, ranks, rank);
}

/// An array cut in one dimension over the ranks becomes one cut in another.
class Transpose {
 public:
  Transpose(MPI_Comm comm, const Box& global, int cut, int to_cut);
  void operator()(float* to, const float* from);
  /// The copies alone.
  void pack(const float* from);
  void unpack(float* to) const;
  std::size_t bytes() const { return send_.size() * sizeof(float); }

 private:
  MPI_Comm comm_;
  int ranks_ = 1, rank_ = 0, cut_, to_cut_;
  Box global_, from_, to_;
  std::vector<int> send_counts_, send_at_, receive_counts_, receive_at_;
  std::vector<float> send_, receive_;
};

/// Shards of a sequence [batch][channel][length] in zigzag order, split to full and back.
class Sequence {
 public:
  Sequence(MPI_Comm comm, const Box& global);
  void split_to_full(float* full, const float* split);
  void full_to_split(float* split, const float* full);

 private:
  void exchange();

  MPI_Comm comm_;
  int ranks_ = 1;
  Box global_;
  index_t channels_, chunk_;
  std::vector<int> counts_, at_;
  std::vector<float> send_, receive_;
};

/// An array cut in dimension 0 over the first ranks becomes one cut in dimension 1 over the others.
class Couple {
 public:
  Couple(MPI_Comm comm, const Box& global, int senders);
  void operator()(float* to, const float* from);

 private:
  MPI_Comm comm_;
  int ranks_ = 1, rank_ = 0, senders_;
  Box global_, own_;
  std::vector<std::vector<float>> messages_;  // of each rank on the other side
  std::vector<MPI_Request> requests_;
};

/// The periodic halo of width 1 of dimension 1, of several arrays on two ranks: one message to the
/// other rank.
class Halos {
 public:
  Halos(MPI_Comm comm, const Box& with_halo, std::size_t arrays);
  void operator()(float* const* arrays);

 private:
  MPI_Comm comm_;
  int rank_ = 0;
  Box extent_;
  std::size_t arrays_;
  std::vector<float> send_, receive_;
};

}  // namespace hand

#endif
