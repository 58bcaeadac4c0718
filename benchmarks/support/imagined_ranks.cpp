// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "imagined_ranks.hpp"

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <map>
#include <utility>

namespace {

/// A communicator of imagined ranks.
struct Imagined {
  int size = 0, rank = 0;
  std::vector<int> world{};  ///< rank in the world of each of its ranks; empty: the same
  std::size_t splits = 0;    ///< of it so far

  int in_world(int peer) const {
    return world.empty() ? peer : world[static_cast<std::size_t>(peer)];
  }
};

std::map<MPI_Comm, Imagined> comms;
std::vector<int> shape;
double in_mpi = 0;

bool recording = false;
bool waits     = true;  ///< since the last part was begun
double since   = 0;     ///< seconds: when the last call of the last part returned
std::vector<imagined::Part> parts;
std::map<MPI_Request, imagined::Message> persistent;  ///< sends

const Imagined* imagined_as(MPI_Comm comm) {
  const auto found = comms.find(comm);
  return found == comms.end() ? nullptr : &found->second;
}

/// The same of a communicator for messages: MPI_COMM_SELF is one rank where the library takes it
/// for that.
const Imagined* talks_as(MPI_Comm comm) {
  return comm == MPI_COMM_SELF ? nullptr : imagined_as(comm);
}

double now() {  // seconds
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Call>
int timed(const Call& call) {
  const double begin = now();
  const int code     = call();
  in_mpi += (now() - begin) * 1e9;
  return code;
}

std::size_t bytes_of(int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return static_cast<std::size_t>(count) * static_cast<std::size_t>(size);
}

imagined::Message message_to(int peer, int count, MPI_Datatype type, MPI_Comm comm) {
  const Imagined* const of = imagined_as(comm);
  return {of != nullptr ? of->in_world(peer) : peer, static_cast<double>(bytes_of(count, type))};
}

/// The part that a call belongs to, with the computation before the call.
imagined::Part& part_of(imagined::Kind kind) {
  if (waits || parts.empty() || parts.back().kind != kind) parts.push_back({.kind = kind});
  waits = false;
  parts.back().seconds += now() - since;
  return parts.back();
}
void has_returned() { since = now(); }

template <class Call>
int collective(imagined::Kind kind, std::size_t bytes, MPI_Comm comm, const Call& call) {
  if (!recording) return call();
  int ranks = 0;
  MPI_Comm_size(comm, &ranks);
  waits                = true;  // a part of its own
  imagined::Part& part = part_of(kind);
  part.bytes           = static_cast<double>(bytes);
  part.ranks           = ranks;
  waits                = true;
  const int code       = call();
  has_returned();
  return code;
}

int has_waited(int code, bool done) {
  if (recording && done) waits = true;
  return code;
}

/// All ranks give what this one gives; one that gives its number as an int gets all numbers.
int gathered(const Imagined& of, const void* from, void* to, std::size_t block) {
  auto* const all         = static_cast<std::byte*>(to);
  const std::size_t place = static_cast<std::size_t>(of.rank) * block;
  const auto* const given =
      from == MPI_IN_PLACE ? all + place : static_cast<const std::byte*>(from);
  const std::vector<std::byte> mine(given, given + block);
  const bool is_number = block == sizeof(int) && std::memcmp(mine.data(), &of.rank, block) == 0;
  for (int r = 0; r < of.size; ++r)
    std::memcpy(all + static_cast<std::size_t>(r) * block,
                is_number ? reinterpret_cast<const std::byte*>(&r) : mine.data(), block);
  return MPI_SUCCESS;
}

}  // namespace

namespace imagined {

void begin(int ranks, int rank, std::vector<int> mesh) {
  shape = std::move(mesh);
  comms = {{MPI_COMM_SELF, {ranks, rank}}};
}
void end() { comms.clear(); }
double time_in_mpi() { return std::exchange(in_mpi, 0.0); }

void start_recording() {
  parts.clear();
  recording = waits = true;
  has_returned();
}
std::vector<Part> stop_recording() {
  waits = true;
  part_of(Kind::nothing);
  recording = false;
  return std::move(parts);
}

}  // namespace imagined

extern "C" {
int MPI_Comm_size(MPI_Comm comm, int* size) {
  const Imagined* const of = imagined_as(comm);
  if (of == nullptr) return PMPI_Comm_size(comm, size);
  *size = of->size;
  return MPI_SUCCESS;
}
int MPI_Comm_rank(MPI_Comm comm, int* rank) {
  const Imagined* const of = imagined_as(comm);
  if (of == nullptr) return PMPI_Comm_rank(comm, rank);
  *rank = of->rank;
  return MPI_SUCCESS;
}
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) {
  const int code = PMPI_Comm_dup(comm, made);
  if (const Imagined* const of = imagined_as(comm))
    comms[*made] = {.size = of->size, .rank = of->rank, .world = of->world};
  return code;
}
// A mesh splits its communicator once for each axis of more than one rank.
int MPI_Comm_split(MPI_Comm comm, int colour, int key, MPI_Comm* made) {
  const auto found = comms.find(comm);
  if (found == comms.end() || shape.empty()) return PMPI_Comm_split(comm, colour, key, made);
  std::size_t axis = 0;
  for (std::size_t before = found->second.splits++; axis + 1 < shape.size(); ++axis)
    if (shape[axis] > 1 && before-- == 0) break;
  int stride = 1;
  for (std::size_t a = axis + 1; a < shape.size(); ++a) stride *= shape[a];
  const int rank = found->second.rank, place = rank / stride % shape[axis];
  Imagined along{.size = shape[axis], .rank = place};
  for (int r = 0; r < along.size; ++r) along.world.push_back(rank + (r - place) * stride);
  const int code = PMPI_Comm_dup(comm, made);
  comms[*made]   = along;
  return code;
}
int MPI_Comm_free(MPI_Comm* comm) {
  comms.erase(*comm);  // the next one may have this handle
  return PMPI_Comm_free(comm);
}

int MPI_Send_init(const void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm,
                  MPI_Request* r) {
  const bool is_imagined = imagined_as(comm) != nullptr;
  if (is_imagined && shape.empty()) {
    *r = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
  }
  const int code = PMPI_Send_init(b, n, t, is_imagined ? MPI_PROC_NULL : peer, tag, comm, r);
  persistent[*r] = message_to(peer, n, t, comm);
  return code;
}
int MPI_Recv_init(void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm,
                  MPI_Request* r) {
  const bool is_imagined = imagined_as(comm) != nullptr;
  if (is_imagined && shape.empty()) {
    *r = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
  }
  const int code = PMPI_Recv_init(b, n, t, is_imagined ? MPI_PROC_NULL : peer, tag, comm, r);
  persistent.erase(*r);  // the handle of a send that was freed
  if (is_imagined) std::memset(b, 0, bytes_of(n, t));
  return code;
}
int MPI_Startall(int n, MPI_Request* requests) {
  if (!recording) return PMPI_Startall(n, requests);
  auto& sends = part_of(imagined::Kind::messages).sends;
  for (int i = 0; i < n; ++i)
    if (const auto found = persistent.find(requests[i]); found != persistent.end())
      sends.push_back(found->second);
  const int code = PMPI_Startall(n, requests);
  has_returned();
  return code;
}
int MPI_Isend(const void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm,
              MPI_Request* r) {
  if (recording) part_of(imagined::Kind::messages).sends.push_back(message_to(peer, n, t, comm));
  const int to   = imagined_as(comm) != nullptr ? MPI_PROC_NULL : peer;
  const int code = PMPI_Isend(b, n, t, to, tag, comm, r);
  if (recording) has_returned();
  return code;
}
int MPI_Irecv(void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm, MPI_Request* r) {
  if (recording) part_of(imagined::Kind::messages);  // those that only receive wait, too
  const int from = imagined_as(comm) != nullptr ? MPI_PROC_NULL : peer;
  const int code = PMPI_Irecv(b, n, t, from, tag, comm, r);
  if (from == MPI_PROC_NULL) std::memset(b, 0, bytes_of(n, t));
  if (recording) has_returned();
  return code;
}
int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  const int code = PMPI_Test(request, done, status);
  return has_waited(code, *done != 0);
}
int MPI_Testall(int n, MPI_Request* requests, int* done, MPI_Status* statuses) {
  const int code = PMPI_Testall(n, requests, done, statuses);
  return has_waited(code, *done != 0);
}
int MPI_Waitall(int n, MPI_Request* requests, MPI_Status* statuses) {
  return has_waited(PMPI_Waitall(n, requests, statuses), true);
}

int MPI_Allreduce(const void* from, void* to, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm) {
  return collective(imagined::Kind::sum, bytes_of(n, t), comm, [&] {
    return timed([&] { return PMPI_Allreduce(from, to, n, t, op, comm); });
  });
}
int MPI_Iallreduce(const void* from, void* to, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm,
                   MPI_Request* r) {
  return collective(imagined::Kind::sum, bytes_of(n, t), comm,
                    [&] { return PMPI_Iallreduce(from, to, n, t, op, comm, r); });
}
int MPI_Allgather(const void* from, int n, MPI_Datatype t, void* to, int m, MPI_Datatype u,
                  MPI_Comm comm) {
  return collective(imagined::Kind::gather, bytes_of(m, u), comm, [&] {
    if (const Imagined* const of = talks_as(comm)) return gathered(*of, from, to, bytes_of(m, u));
    return PMPI_Allgather(from, n, t, to, m, u, comm);
  });
}
int MPI_Iallgather(const void* from, int n, MPI_Datatype t, void* to, int m, MPI_Datatype u,
                   MPI_Comm comm, MPI_Request* r) {
  return collective(imagined::Kind::gather, bytes_of(m, u), comm, [&] {
    if (const Imagined* const of = talks_as(comm)) {
      *r = MPI_REQUEST_NULL;
      return gathered(*of, from, to, bytes_of(m, u));
    }
    return PMPI_Iallgather(from, n, t, to, m, u, comm, r);
  });
}
int MPI_Ialltoall(const void* from, int n, MPI_Datatype t, void* to, int m, MPI_Datatype u,
                  MPI_Comm comm, MPI_Request* r) {
  return collective(imagined::Kind::all_to_all, bytes_of(m, u), comm, [&] {
    if (const Imagined* const of = talks_as(comm)) {
      *r = MPI_REQUEST_NULL;
      std::memcpy(to, from, bytes_of(m, u) * static_cast<std::size_t>(of->size));
      return MPI_SUCCESS;
    }
    return PMPI_Ialltoall(from, n, t, to, m, u, comm, r);
  });
}
int MPI_Type_contiguous(int n, MPI_Datatype t, MPI_Datatype* made) {
  return timed([&] { return PMPI_Type_contiguous(n, t, made); });
}
int MPI_Type_commit(MPI_Datatype* t) {
  return timed([&] { return PMPI_Type_commit(t); });
}
int MPI_Type_free(MPI_Datatype* t) {
  return timed([&] { return PMPI_Type_free(t); });
}
}
