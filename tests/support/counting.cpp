// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/counting.hpp"

#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <new>
#include <ostream>
#include <string_view>

namespace shard::testing {
namespace {

Counts counts;  // of the stretch that runs; MPI and Kokkos are called by one thread
bool running            = false;
std::int64_t live_bytes = 0;                      // in Kokkos allocations since the stretch began
std::atomic<std::int64_t> news{0}, new_bytes{0};  // any thread may allocate
thread_local bool own_business = false;           // the counting's own allocations don't count

struct OwnBusiness {
  OwnBusiness() { own_business = true; }
  ~OwnBusiness() { own_business = false; }
};

struct Persistent {
  bool send;
  int peer;
  std::int64_t bytes;
};

/// The persistent requests that live: known at any time, for a plan may have been made before the
/// stretch.
std::map<MPI_Request, Persistent>& persistent() {
  static std::map<MPI_Request, Persistent> requests;
  return requests;
}

std::int64_t size_of(int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return static_cast<std::int64_t>(count) * size;
}

void sent(int peer, std::int64_t bytes) {
  if (!running || peer == MPI_PROC_NULL) return;
  const OwnBusiness scope;
  ++counts.messages;
  counts.bytes += bytes;
  counts.peers.push_back(peer);
}

void received(int peer) {
  if (running && peer != MPI_PROC_NULL) ++counts.receives;
}

void request_of_one_message() {
  if (running) ++counts.passing;
}

void collective() {
  if (running) ++counts.collectives;
}

void communicator() {
  collective();
  if (running) ++counts.communicators;
}

void made(MPI_Request request, bool send, int peer, std::int64_t bytes) {
  if (request == MPI_REQUEST_NULL) return;
  const OwnBusiness scope;
  persistent()[request] = {send, peer, bytes};
  if (running) ++counts.requests;
}

void started(MPI_Request request) {
  const auto found = persistent().find(request);
  if (found == persistent().end()) return;
  if (found->second.send) {
    sent(found->second.peer, found->second.bytes);
  } else {
    received(found->second.peer);
  }
}

void kernel(const char* name, std::uint32_t, std::uint64_t* id) {
  *id = 0;
  if (!running) return;
  const OwnBusiness scope;
  ++counts.kernels;
  counts.kernel_names.emplace_back(name);
}

void fence(const char* name, std::uint32_t, std::uint64_t* id) {
  *id = 0;
  // Kokkos fences before each callback, on our account.
  if (!running || std::string_view(name).find("Profile Tool Fence") != std::string_view::npos)
    return;
  const OwnBusiness scope;
  ++counts.fences;
  counts.fence_names.emplace_back(name);
}

void copy(Kokkos::Tools::SpaceHandle, const char*, const void*, Kokkos::Tools::SpaceHandle,
          const char*, const void*, std::uint64_t) {
  if (running) ++counts.copies;
}

void allocated(const Kokkos::Tools::SpaceHandle, const char* label, const void* const,
               const std::uint64_t bytes) {
  // Kokkos asks a device for no bytes of scratch memory at each launch of teams
  if (!running || bytes == 0) return;
  const OwnBusiness scope;
  counts.allocated.emplace_back(label, static_cast<std::int64_t>(bytes));
  ++counts.allocations;
  counts.allocated_bytes += static_cast<std::int64_t>(bytes);
  live_bytes += static_cast<std::int64_t>(bytes);
  counts.peak_bytes = std::max(counts.peak_bytes, live_bytes);
}

void deallocated(const Kokkos::Tools::SpaceHandle, const char*, const void* const,
                 const std::uint64_t bytes) {
  if (!running) return;
  ++counts.deallocations;
  live_bytes -= static_cast<std::int64_t>(bytes);
}

/// Only while something is counted: code that does without Kokkos' kernels while no tool looks on
/// is tested too.
void listen_to_kokkos(bool on) {
  namespace tools = Kokkos::Tools::Experimental;
  tools::set_begin_parallel_for_callback(on ? kernel : nullptr);
  tools::set_begin_parallel_reduce_callback(on ? kernel : nullptr);
  tools::set_begin_parallel_scan_callback(on ? kernel : nullptr);
  tools::set_begin_fence_callback(on ? fence : nullptr);
  tools::set_begin_deep_copy_callback(on ? copy : nullptr);
  tools::set_allocate_data_callback(on ? allocated : nullptr);
  tools::set_deallocate_data_callback(on ? deallocated : nullptr);
}

void* counted_new(std::size_t size, std::size_t alignment) {
  if (running && !own_business) {
    news.fetch_add(1, std::memory_order_relaxed);
    new_bytes.fetch_add(static_cast<std::int64_t>(size), std::memory_order_relaxed);
  }
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* memory              = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void start_counting(KokkosTools tools) {
  if (tools == KokkosTools::on) listen_to_kokkos(true);
  counts     = Counts{};
  live_bytes = 0;
  news       = 0;
  new_bytes  = 0;
  running    = true;
}

Counts stop_counting() {
  running = false;
  listen_to_kokkos(false);
  counts.news      = news;
  counts.new_bytes = new_bytes;
  return counts;
}

std::ostream& operator<<(std::ostream& out, const Counts& c) {
  out << c.messages << " messages of " << c.bytes << " bytes to";
  for (int peer : c.peers) out << ' ' << peer;
  out << "; " << c.receives << " receives, " << c.collectives << " collectives, " << c.requests
      << " persistent requests made and " << c.passing << " of one message, " << c.communicators
      << " communicators (" << c.communicators_freed << " freed); " << c.kernels << " kernels:";
  for (const auto& name : c.kernel_names) out << " '" << name << "'";
  out << "; " << c.fences << " fences:";
  for (const auto& name : c.fence_names) out << " '" << name << "'";
  return out << "; " << c.copies << " deep copies, " << c.allocations << " Kokkos allocations, "
             << c.deallocations << " deallocations, at most " << c.peak_bytes << " bytes at once, "
             << c.news << " calls of operator new for " << c.new_bytes << " bytes";
}

}  // namespace shard::testing

// All forms, for a library's own might not go together with ours: new[] calls new, and nothrow too.
void* operator new(std::size_t size) {
  return shard::testing::counted_new(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return shard::testing::counted_new(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  try {
    return operator new(size, alignment);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return operator new(size, alignment);
}
void* operator new[](std::size_t size, const std::nothrow_t& tag) noexcept {
  return operator new(size, tag);
}
void* operator new[](std::size_t size, std::align_val_t alignment,
                     const std::nothrow_t& tag) noexcept {
  return operator new(size, alignment, tag);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}

// The wrappers: each counts and calls MPI's own.
using namespace shard::testing;

extern "C" {

int MPI_Send(const void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm) {
  sent(peer, size_of(n, t));
  return PMPI_Send(b, n, t, peer, tag, comm);
}
int MPI_Ssend(const void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm) {
  sent(peer, size_of(n, t));
  return PMPI_Ssend(b, n, t, peer, tag, comm);
}
int MPI_Isend(const void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm,
              MPI_Request* r) {
  sent(peer, size_of(n, t));
  request_of_one_message();
  return PMPI_Isend(b, n, t, peer, tag, comm, r);
}
int MPI_Issend(const void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm,
               MPI_Request* r) {
  sent(peer, size_of(n, t));
  request_of_one_message();
  return PMPI_Issend(b, n, t, peer, tag, comm, r);
}
int MPI_Recv(void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm, MPI_Status* status) {
  received(peer);
  return PMPI_Recv(b, n, t, peer, tag, comm, status);
}
int MPI_Irecv(void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm, MPI_Request* r) {
  received(peer);
  request_of_one_message();
  return PMPI_Irecv(b, n, t, peer, tag, comm, r);
}
int MPI_Sendrecv(const void* b, int n, MPI_Datatype t, int to, int tag, void* b2, int n2,
                 MPI_Datatype t2, int from, int tag2, MPI_Comm comm, MPI_Status* status) {
  sent(to, size_of(n, t));
  received(from);
  return PMPI_Sendrecv(b, n, t, to, tag, b2, n2, t2, from, tag2, comm, status);
}
int MPI_Send_init(const void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm,
                  MPI_Request* r) {
  const int code = PMPI_Send_init(b, n, t, peer, tag, comm, r);
  made(*r, true, peer, size_of(n, t));
  return code;
}
int MPI_Ssend_init(const void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm,
                   MPI_Request* r) {
  const int code = PMPI_Ssend_init(b, n, t, peer, tag, comm, r);
  made(*r, true, peer, size_of(n, t));
  return code;
}
int MPI_Recv_init(void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm,
                  MPI_Request* r) {
  const int code = PMPI_Recv_init(b, n, t, peer, tag, comm, r);
  made(*r, false, peer, size_of(n, t));
  return code;
}
int MPI_Start(MPI_Request* r) {
  started(*r);
  return PMPI_Start(r);
}
int MPI_Startall(int n, MPI_Request* r) {
  for (int i = 0; i < n; ++i) started(r[i]);
  return PMPI_Startall(n, r);
}
int MPI_Request_free(MPI_Request* r) {
  persistent().erase(*r);
  return PMPI_Request_free(r);
}

int MPI_Barrier(MPI_Comm comm) {
  collective();
  return PMPI_Barrier(comm);
}
int MPI_Bcast(void* b, int n, MPI_Datatype t, int root, MPI_Comm comm) {
  collective();
  return PMPI_Bcast(b, n, t, root, comm);
}
int MPI_Reduce(const void* b, void* b2, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm comm) {
  collective();
  return PMPI_Reduce(b, b2, n, t, op, root, comm);
}
int MPI_Allreduce(const void* b, void* b2, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm) {
  collective();
  return PMPI_Allreduce(b, b2, n, t, op, comm);
}
int MPI_Iallreduce(const void* b, void* b2, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm,
                   MPI_Request* r) {
  collective();
  return PMPI_Iallreduce(b, b2, n, t, op, comm, r);
}
int MPI_Gather(const void* b, int n, MPI_Datatype t, void* b2, int n2, MPI_Datatype t2, int root,
               MPI_Comm comm) {
  collective();
  return PMPI_Gather(b, n, t, b2, n2, t2, root, comm);
}
int MPI_Gatherv(const void* b, int n, MPI_Datatype t, void* b2, const int n2[], const int begin[],
                MPI_Datatype t2, int root, MPI_Comm comm) {
  collective();
  return PMPI_Gatherv(b, n, t, b2, n2, begin, t2, root, comm);
}
int MPI_Allgather(const void* b, int n, MPI_Datatype t, void* b2, int n2, MPI_Datatype t2,
                  MPI_Comm comm) {
  collective();
  return PMPI_Allgather(b, n, t, b2, n2, t2, comm);
}
int MPI_Allgatherv(const void* b, int n, MPI_Datatype t, void* b2, const int n2[],
                   const int begin[], MPI_Datatype t2, MPI_Comm comm) {
  collective();
  return PMPI_Allgatherv(b, n, t, b2, n2, begin, t2, comm);
}
int MPI_Alltoall(const void* b, int n, MPI_Datatype t, void* b2, int n2, MPI_Datatype t2,
                 MPI_Comm comm) {
  collective();
  return PMPI_Alltoall(b, n, t, b2, n2, t2, comm);
}
int MPI_Alltoallv(const void* b, const int n[], const int begin[], MPI_Datatype t, void* b2,
                  const int n2[], const int begin2[], MPI_Datatype t2, MPI_Comm comm) {
  collective();
  return PMPI_Alltoallv(b, n, begin, t, b2, n2, begin2, t2, comm);
}
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made_comm) {
  communicator();
  return PMPI_Comm_dup(comm, made_comm);
}
int MPI_Comm_split(MPI_Comm comm, int colour, int key, MPI_Comm* made_comm) {
  communicator();
  return PMPI_Comm_split(comm, colour, key, made_comm);
}
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* made_comm) {
  communicator();
  return PMPI_Comm_split_type(comm, type, key, info, made_comm);
}
int MPI_Comm_free(MPI_Comm* comm) {
  if (running) ++counts.communicators_freed;
  return PMPI_Comm_free(comm);
}
int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* made_comm) {
  communicator();
  return PMPI_Comm_create_group(comm, group, tag, made_comm);
}

}  // extern "C"
