// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "collective_messages.hpp"

#include <algorithm>

#include "shard/base/impl/environment_variable.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard::impl {

namespace {

/// `count` bytes, the next of them `distance` bytes on.
class Slab {
 public:
  Slab(index_t count, index_t distance) {
    MPI_Datatype bytes = MPI_DATATYPE_NULL;
    check_mpi(MPI_Type_contiguous(static_cast<int>(count), MPI_BYTE, &bytes),
              "MPI_Type_contiguous");
    const int code = MPI_Type_create_resized(bytes, 0, static_cast<MPI_Aint>(distance), &type_);
    MPI_Type_free(&bytes);
    check_mpi(code, "MPI_Type_create_resized");
    check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  ~Slab() {
    if (type_ != MPI_DATATYPE_NULL) MPI_Type_free(&type_);
  }
  Slab(const Slab&)            = delete;
  Slab& operator=(const Slab&) = delete;
  MPI_Datatype type() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

/// Calls use(offset, slab) for the steps of blocks of `bytes` bytes.
template <class Use>
void in_steps(index_t bytes, index_t limit, const Use& use) {
  for (index_t offset = 0; offset < bytes; offset += limit) {
    const Slab slab(std::min(limit, bytes - offset), bytes);
    use(offset, slab.type());
  }
}

}  // namespace

void BlockMessages::all_to_all(const std::byte* send, std::byte* receive, index_t bytes) const {
  in_steps(bytes, limit, [&](index_t offset, MPI_Datatype slab) {
    await_mpi("MPI_Alltoall", MPI_Alltoall, send + offset, 1, slab, receive + offset, 1, slab,
              comm);
  });
}

void BlockMessages::all_gather(const std::byte* send, std::byte* receive, index_t bytes) const {
  in_steps(bytes, limit, [&](index_t offset, MPI_Datatype slab) {
    await_mpi("MPI_Allgather", MPI_Allgather, send + offset, 1, slab, receive + offset, 1, slab,
              comm);
  });
}

void BlockMessages::gather(const std::byte* send, std::byte* receive, index_t bytes,
                           int root) const {
  in_steps(bytes, limit, [&](index_t offset, MPI_Datatype slab) {
    await_mpi("MPI_Gather", MPI_Gather, send + offset, 1, slab, receive + offset, 1, slab, root,
              comm);
  });
}

void BlockMessages::broadcast(std::byte* buffer, index_t bytes, int root) const {
  for (index_t offset = 0; offset < bytes; offset += limit)
    await_mpi("MPI_Bcast", MPI_Bcast, buffer + offset,
              static_cast<int>(std::min(limit, bytes - offset)), MPI_BYTE, root, comm);
}

void BlockMessages::to_peers(const std::byte* send, const std::vector<RankMessage>& sent,
                             std::byte* receive, const std::vector<RankMessage>& received) const {
  constexpr int tag = 0;  // nothing else is sent from rank to rank along an axis
  std::vector<MPI_Request> requests;
  const auto in_pieces = [&](const RankMessage& message, const auto& begin) {
    for (index_t at = 0; at < message.bytes; at += limit)
      begin(message.offset + at, static_cast<int>(std::min(limit, message.bytes - at)),
            &requests.emplace_back(MPI_REQUEST_NULL));
  };
  for (const RankMessage& message : received)
    in_pieces(message, [&](index_t at, int count, MPI_Request* request) {
      check_mpi(MPI_Irecv(receive + at, count, MPI_BYTE, message.peer, tag, comm, request),
                "MPI_Irecv");
    });
  for (const RankMessage& message : sent)
    in_pieces(message, [&](index_t at, int count, MPI_Request* request) {
      check_mpi(MPI_Isend(send + at, count, MPI_BYTE, message.peer, tag, comm, request),
                "MPI_Isend");
    });
  await_mpi("MPI_Waitall", MPI_Waitall, static_cast<int>(requests.size()), requests.data(),
            MPI_STATUSES_IGNORE);
}

index_t message_limit() {
  constexpr index_t unset = index_t{1} << 30U;
  const auto limit        = environment_value("SHARD_MESSAGE_LIMIT");
  return limit ? static_cast<index_t>(*limit) : unset;
}

}  // namespace shard::impl
