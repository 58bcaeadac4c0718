// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "exchange/device_support.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "shard/comm/nccl_transport.hpp"

namespace shard::testing {
namespace {

constexpr auto junk = std::byte{0xdb};

struct Piece {
  std::byte* data   = nullptr;
  std::size_t bytes = 0;
  bool closed       = false;
  std::vector<std::byte> contents;  // while it is closed
};

struct State {
  std::vector<Piece> pieces;
  bool scoped = false, mpi_takes_it = false;
  int inside = 0;  // kernels, copies and what else may look
  DeviceCounts counts;
  MadeRequests made;
};

State& state() {
  static State all;
  return all;
}

void open_all() {
  for (Piece& piece : state().pieces) {
    if (!piece.closed) continue;
    const auto written = [](std::byte b) { return b != junk; };
    if (std::any_of(piece.data, piece.data + piece.bytes, written)) ++state().counts.host_writes;
    std::memcpy(piece.data, piece.contents.data(), piece.bytes);
    piece.closed = false;
  }
}

void close_all() {
  for (Piece& piece : state().pieces) {
    if (piece.closed) continue;
    piece.contents.assign(piece.data, piece.data + piece.bytes);
    std::memset(piece.data, static_cast<int>(junk), piece.bytes);
    piece.closed = true;
  }
}

void enter() {
  if (state().inside++ == 0 && state().scoped) open_all();
}

void leave() {
  if (--state().inside == 0 && state().scoped) close_all();
}

/// Lets MPI into device memory for the length of a call, if it is said to take such memory.
struct MpiScope {
  bool lets = state().scoped && state().mpi_takes_it;
  MpiScope() {
    if (lets) enter();
  }
  ~MpiScope() {
    if (lets) leave();
  }
};

/// Of a plan's memory what is written after it was made. None of it is ever empty: then Kokkos
/// would tell the size of its own header.
bool is_device(std::string_view label) {
  return label == "shard::addresses" || label == "shard::messages" || label == "shard::constants" ||
         label.substr(0, 7) == "device ";
}

constexpr std::ptrdiff_t header = 128;  // Kokkos' own, in front of what it allocates

void allocated(const Kokkos::Tools::SpaceHandle, const char* label, const void* const address,
               const std::uint64_t bytes) {
  if (!is_device(label)) return;
  auto* const data = const_cast<std::byte*>(static_cast<const std::byte*>(address)) + header;
  state().pieces.push_back({data, bytes, false, {}});
}

void deallocated(const Kokkos::Tools::SpaceHandle, const char*, const void* const address,
                 const std::uint64_t) {
  auto& pieces = state().pieces;
  pieces.erase(std::remove_if(pieces.begin(), pieces.end(),
                              [&](const Piece& piece) { return piece.data - header == address; }),
               pieces.end());
}

void begin_kernel(const char*, std::uint32_t, std::uint64_t* id) {
  *id = 0;
  enter();
}
void end_kernel(std::uint64_t) { leave(); }
void begin_copy(Kokkos::Tools::SpaceHandle, const char*, const void*, Kokkos::Tools::SpaceHandle,
                const char*, const void*, std::uint64_t) {
  enter();
}

void fence(const char* name, std::uint32_t, std::uint64_t* id) {
  *id = 0;
  if (state().scoped && std::string_view(name).find("Profile Tool Fence") == std::string_view::npos)
    state().counts.fence_names.emplace_back(name);
}

void made(const void* buffer, MPI_Datatype type) {
  MadeRequests& all = state().made;
  ++(in_device_memory(buffer) ? all.in_device_memory : all.in_host_memory);
  MPI_Aint begin = 0, extent = 0;
  int size = 0;
  PMPI_Type_get_true_extent(type, &begin, &extent);
  PMPI_Type_size(type, &size);
  all.strided += extent == size ? 0 : 1;
}

}  // namespace

void play_device() {
  namespace tools = Kokkos::Tools::Experimental;
  tools::set_allocate_data_callback(allocated);
  tools::set_deallocate_data_callback(deallocated);
  tools::set_begin_parallel_for_callback(begin_kernel);
  tools::set_end_parallel_for_callback(end_kernel);
  tools::set_begin_parallel_reduce_callback(begin_kernel);
  tools::set_end_parallel_reduce_callback(end_kernel);
  tools::set_begin_deep_copy_callback(begin_copy);
  tools::set_end_deep_copy_callback(leave);
  tools::set_begin_fence_callback(fence);
}

DeviceScope::DeviceScope(bool mpi_takes_it) {
  state().counts       = {};
  state().mpi_takes_it = mpi_takes_it;
  state().scoped       = true;
  close_all();
}
DeviceScope::~DeviceScope() {
  state().scoped = false;
  open_all();
}
DeviceCounts DeviceScope::counts() const { return state().counts; }

MadeRequests made_requests() { return std::exchange(state().made, {}); }

bool in_device_memory(const void* address) {
  const auto* const byte = static_cast<const std::byte*>(address);
  const auto& pieces     = state().pieces;
  return std::any_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
    return byte >= piece.data && byte < piece.data + piece.bytes;
  });
}

PlayedNccl& played_nccl() {
  static PlayedNccl all;
  return all;
}

bool& capturing() {
  static bool now = false;
  return now;
}

namespace {

MPI_Comm nccl_comm = MPI_COMM_NULL;  // of the one group that lives

}  // namespace
}  // namespace shard::testing

// NCCL's part of the library, played: this program links with it and not with the library's own.
namespace shard::impl {

using namespace shard::testing;

std::string nccl_version() { return played_nccl().built_in ? "NCCL 0.0.0, played" : ""; }

NcclGroup::NcclGroup(MPI_Comm comm) {
  ++played_nccl().made;
  if (!played_nccl().built_in || !played_nccl().usable)
    throw NcclError("shard::NcclGroup: rank 0: no device for NCCL, as it is played");
  PMPI_Comm_dup(comm, &nccl_comm);
}
NcclGroup::~NcclGroup() {
  ++played_nccl().ended;
  PMPI_Comm_free(&nccl_comm);
}
void NcclGroup::run(const std::vector<PlacedBytes>& sends, const std::vector<PlacedBytes>& receives,
                    Stream) {
  ++shard::testing::state().counts.nccl_runs;
  shard::testing::enter();
  std::vector<MPI_Request> requests;
  for (const PlacedBytes& m : receives)
    PMPI_Irecv(m.data, static_cast<int>(m.bytes), MPI_BYTE, m.peer, 0, nccl_comm,
               &requests.emplace_back());
  for (const PlacedBytes& m : sends)
    PMPI_Isend(m.data, static_cast<int>(m.bytes), MPI_BYTE, m.peer, 0, nccl_comm,
               &requests.emplace_back());
  PMPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  shard::testing::leave();
}
void NcclGroup::poll() {}
void NcclGroup::fail(const char*, int) { throw NcclError("played"); }

}  // namespace shard::impl

using namespace shard::testing;

extern "C" {

int MPI_Send_init(const void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm,
                  MPI_Request* r) {
  made(b, t);
  return PMPI_Send_init(b, n, t, peer, tag, comm, r);
}
int MPI_Recv_init(void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm,
                  MPI_Request* r) {
  made(b, t);
  return PMPI_Recv_init(b, n, t, peer, tag, comm, r);
}
int MPI_Startall(int n, MPI_Request* r) {
  state().counts.messages += n;
  const MpiScope scope;
  return PMPI_Startall(n, r);
}
int MPI_Isend(const void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm,
              MPI_Request* r) {
  const MpiScope scope;
  return PMPI_Isend(b, n, t, peer, tag, comm, r);
}
int MPI_Irecv(void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm, MPI_Request* r) {
  const MpiScope scope;
  return PMPI_Irecv(b, n, t, peer, tag, comm, r);
}
int MPI_Wait(MPI_Request* r, MPI_Status* status) {
  const MpiScope scope;
  return PMPI_Wait(r, status);
}
int MPI_Waitall(int n, MPI_Request* r, MPI_Status* statuses) {
  const MpiScope scope;
  return PMPI_Waitall(n, r, statuses);
}
int MPI_Testall(int n, MPI_Request* r, int* done, MPI_Status* statuses) {
  const MpiScope scope;
  return PMPI_Testall(n, r, done, statuses);
}

}  // extern "C"
