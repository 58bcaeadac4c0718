// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <array>
#include <exception>
#include <type_traits>

#include "../redistribute/block_kernels.hpp"
#include "../redistribute/collective_messages.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/annotate/impl/annotation.hpp"

namespace shard::impl {

namespace {

/// Elements that one rank sends to another, and their place in the buffer.
struct Part {
  int rank = 0;
  std::vector<index_t> begin, extent;  // begin: global
  index_t offset = 0, bytes = 0;
};

/// The intersection of two shards; empty if the bytes are 0.
Part common_part(const DeviceShard& a, const DeviceShard& b, int value_size) {
  Part part;
  part.bytes = value_size;
  for (std::size_t d = 0; d < a.begin.size(); ++d) {
    part.begin.push_back(std::max(a.begin[d], b.begin[d]));
    part.extent.push_back(std::max(index_t{0}, std::min(a.end[d], b.end[d]) - part.begin.back()));
    part.bytes *= part.extent.back();
  }
  return part;
}

/// The part's elements in the View of a shard.
PlainView in_view(const PlainView& view, const DeviceShard& shard, const Part& part) {
  std::vector<index_t> begin = part.begin;
  for (std::size_t d = 0; d < begin.size(); ++d) begin[d] -= shard.begin[d];
  return part_of(view, begin, part.extent);
}

/// The part's elements in a buffer.
PlainView in_buffer(std::byte* buffer, const Part& part, const CellType& cell) {
  PlainView view;
  view.data     = buffer + part.offset;
  index_t bytes = cell.value_size;
  for (int i = 0; i < cell.rank; ++i) {
    const auto d   = Geometry::at(cell.first_is_fast ? i : cell.rank - 1 - i);
    view.extent[d] = part.extent[d];
    view.stride[d] = bytes;
    bytes *= part.extent[d];
  }
  return view;
}

/// Appends a part that isn't empty.
void add(std::vector<Part>& parts, Part part, int rank) {
  if (part.bytes == 0) return;
  part.rank   = rank;
  part.offset = parts.empty() ? 0 : parts.back().offset + parts.back().bytes;
  parts.push_back(std::move(part));
}
index_t all_bytes(const std::vector<Part>& parts) {
  return parts.empty() ? 0 : parts.back().offset + parts.back().bytes;
}
index_t largest(const std::vector<Part>& parts) {
  index_t bytes = 0;
  for (const Part& part : parts) bytes = std::max(bytes, part.bytes);
  return bytes;
}

/// One side's arguments of MPI_Alltoallw: a block of each part. Displacements are in the datatypes,
/// because MPI's are ints.
class Pieces {
 public:
  Pieces(int ranks, const std::vector<Part>& parts, index_t first, index_t limit)
      : counts(static_cast<std::size_t>(ranks), 0),
        displacements(counts),
        types(counts.size(), MPI_BYTE) {
    for (const Part& part : parts) {
      if (part.bytes <= first) continue;
      const int length  = static_cast<int>(std::min(limit, part.bytes - first));
      const MPI_Aint at = static_cast<MPI_Aint>(part.offset + first);
      MPI_Datatype type = MPI_DATATYPE_NULL;
      check_mpi(MPI_Type_create_hindexed(1, &length, &at, MPI_BYTE, &type),
                "MPI_Type_create_hindexed");
      made_.push_back(type);
      check_mpi(MPI_Type_commit(&made_.back()), "MPI_Type_commit");
      counts[static_cast<std::size_t>(part.rank)] = 1;
      types[static_cast<std::size_t>(part.rank)]  = type;
    }
  }
  ~Pieces() {
    for (MPI_Datatype& type : made_) MPI_Type_free(&type);
  }
  Pieces(const Pieces&)            = delete;
  Pieces& operator=(const Pieces&) = delete;

  std::vector<int> counts, displacements;
  std::vector<MPI_Datatype> types;

 private:
  std::vector<MPI_Datatype> made_;
};

/// Sends each part to its rank, in steps of at most `limit` bytes.
void exchange_parts(MPI_Comm comm, int ranks, index_t limit, const std::vector<Part>& sent,
                    const std::byte* out, const std::vector<Part>& received, std::byte* in) {
  const index_t mine = std::max(largest(sent), largest(received));
  index_t longest    = 0;
  await_mpi("MPI_Allreduce", MPI_Allreduce, &mine, &longest, 1, MPI_INT64_T, MPI_MAX, comm);
  for (index_t first = 0; first < longest; first += limit) {
    const Pieces from(ranks, sent, first, limit), to(ranks, received, first, limit);
    await_mpi("MPI_Alltoallw", MPI_Alltoallw, out, from.counts.data(), from.displacements.data(),
              from.types.data(), in, to.counts.data(), to.displacements.data(), to.types.data(),
              comm);
  }
}

/// Buffers for messages, with a host copy if kernels can't access host memory.
template <class Space>
struct MoveBuffers {
  using Memory =
      std::conditional_t<is_host_space_v<Space>, Kokkos::HostSpace, typename Space::memory_space>;
  using Bytes     = Kokkos::View<std::byte*, Memory>;
  using HostBytes = Kokkos::View<std::byte*, StagingMemory<Memory>>;

  MoveBuffers() = default;
  MoveBuffers(index_t sent, index_t received)
      : send(make<Bytes>(sent)), receive(make<Bytes>(received)) {
    if constexpr (is_host_space_v<Space>) {
      host_send    = send;
      host_receive = receive;
    } else {
      host_send    = make<HostBytes>(sent);
      host_receive = make<HostBytes>(received);
    }
  }
  template <class View>
  static View make(index_t bytes) {
    return View(Kokkos::view_alloc(Kokkos::WithoutInitializing, "shard: an annotation's messages"),
                static_cast<std::size_t>(bytes));
  }

  Bytes send, receive;
  HostBytes host_send, host_receive;
};

}  // namespace

template <class Space>
void AnnotationMoves<Space>::copy(const Space& space, const CellType& cell, const PlainView& to,
                                  const PlainView& from) {
  BlockCopy copy;
  copy.unit = cell.unit;
  copy.from = from.data;
  copy.to   = to.data;
  copy.add(cell.value_size / cell.unit, cell.unit, cell.unit);
  index_t cells = 1;
  for (int i = 0; i < cell.rank; ++i) {
    const auto d = Geometry::at(cell.first_is_fast ? i : cell.rank - 1 - i);
    copy.add(to.extent[d], from.stride[d], to.stride[d]);
    cells *= to.extent[d];
  }
  if (cells == 0) return;
  copy.close();
  run_block_copy("shard::copy of an annotated tensor", space, copy);
}

template <class Space>
void AnnotationMoves<Space>::move(const Space& space, const char* function, const CellType& cell,
                                  const DeviceMesh& mesh, const ShardLayout& want,
                                  const PlainView& to, const ShardLayout& have,
                                  const PlainView& from, std::string wrong) {
  const int me              = mesh.rank();
  const OpSharding& holders = have.sharding();
  const DeviceShard mine = have.shard(me), wanted = want.shard(me);
  const std::vector<int> my_tile = holders.tile_of(me);

  // A rank reads elements from itself if it has them, else from a replica; replicas take turns.
  std::vector<Part> sent, received;
  if (!holders.replicated())
    for (int rank = 0; rank < mesh.size(); ++rank) {
      if (holders.tile_of(rank) == my_tile) continue;
      if (rank % holders.replicas() == mine.replica_id)
        add(sent, common_part(mine, want.shard(rank), cell.value_size), rank);
      if (me % holders.replicas() == holders.replica_id(rank))
        add(received, common_part(have.shard(rank), wanted, cell.value_size), rank);
    }

  MoveBuffers<Space> buffers;
  index_t limit = 0;
  try {
    limit   = message_limit();
    buffers = MoveBuffers<Space>(all_bytes(sent), all_bytes(received));
  } catch (const std::exception& error) {
    if (wrong.empty()) wrong = error.what();
  }
  const Watched watched({.what = "the cells of an annotated tensor", .rank = me});
  require_no_error(mesh.communicator(), function, wrong);

  const Part own = common_part(mine, wanted, cell.value_size);
  copy(space, cell, in_view(to, wanted, own), in_view(from, mine, own));
  if (!holders.replicated()) {
    for (const Part& part : sent)
      copy(space, cell, in_buffer(buffers.send.data(), part, cell), in_view(from, mine, part));
    if constexpr (!is_host_space_v<Space>)
      Kokkos::deep_copy(space, buffers.host_send, buffers.send);
    space.fence("shard: an annotated tensor's messages are packed");
    exchange_parts(mesh.communicator(), mesh.size(), limit, sent, buffers.host_send.data(),
                   received, buffers.host_receive.data());
    if constexpr (!is_host_space_v<Space>)
      Kokkos::deep_copy(space, buffers.receive, buffers.host_receive);
    for (const Part& part : received)
      copy(space, cell, in_view(to, wanted, part), in_buffer(buffers.receive.data(), part, cell));
  }
  space.fence("shard: an annotated tensor's cells are in place");
}

#if defined(KOKKOS_ENABLE_SERIAL)
template struct AnnotationMoves<Kokkos::Serial>;
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
template struct AnnotationMoves<Kokkos::OpenMP>;
#endif
#if defined(KOKKOS_ENABLE_THREADS)
template struct AnnotationMoves<Kokkos::Threads>;
#endif
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct AnnotationMoves<Kokkos::DefaultExecutionSpace>;
#endif

}  // namespace shard::impl
