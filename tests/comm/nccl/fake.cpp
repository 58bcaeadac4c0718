// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "fake.hpp"

#include <cuda_runtime_api.h>
#include <mpi.h>
#include <nccl.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

struct ncclComm {
  int rank = 0;
};

namespace fake {
namespace {

constexpr int tag = 7;  // nothing else in these programs sends messages of MPI_COMM_WORLD itself

std::vector<MPI_Request> requests;

struct Operation {
  bool receives;
  void* data;
  int count;
  int peer;
};
std::vector<Operation> operations;

ncclResult_t answer(std::string_view function) {
  return state().fails == function ? ncclSystemError : ncclSuccess;
}

ncclResult_t add(const char* function, bool receives, void* data, std::size_t count, int peer,
                 void* stream) {
  if (answer(function) != ncclSuccess) return ncclSystemError;
  if (state().depth == 0) return ncclInvalidUsage;
  ++(receives ? state().receives : state().sends);
  state().stream = stream;
  operations.push_back({receives, data, static_cast<int>(count), peer});
  return ncclSuccess;
}

}  // namespace

void synchronise() {
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  requests.clear();
}

State& state() {
  static State the_state;
  return the_state;
}

}  // namespace fake

using fake::answer;
using fake::state;

extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return state().fails == "cudaGetDevice" ? cudaErrorNoDevice : cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::snprintf(text, static_cast<std::size_t>(size), "%s",
                state().bus == "unique" ? std::to_string(rank).c_str() : state().bus.c_str());
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) { return "the fake runtime's words"; }

ncclResult_t ncclGetVersion(int* version) {
  *version = 29901;
  return answer("ncclGetVersion");
}
const char* ncclGetErrorString(ncclResult_t) { return "the fake library's words"; }
const char* ncclGetLastError(ncclComm_t) { return "and its last error"; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id             = {};
  id->internal[0] = 'x';
  return answer("ncclGetUniqueId");
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int, ncclUniqueId id, int rank) {
  if (id.internal[0] != 'x') return ncclInvalidArgument;
  if (answer("ncclCommInitRank") != ncclSuccess) return ncclSystemError;
  // as NCCL logs it, and INFO is asked for
  const char* level = std::getenv("NCCL_DEBUG");
  const char* log   = std::getenv("NCCL_DEBUG_FILE");
  if (level != nullptr && std::string(level) == "INFO" && log != nullptr)
    std::ofstream(log) << "host:17:23 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>\n"
                       << "host:17:23 [0] NCCL INFO Using network Fake Fabric\n"
                       << "host:17:23 [0] NCCL INFO ncclCommInitRank comm 0x1 - Init START\n";
  *comm = new ncclComm{rank};
  ++state().living;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  delete comm;
  --state().living;
  ++state().aborted;
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  fake::synchronise();
  delete comm;
  --state().living;
  ++state().destroyed;
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  *error = state().background ? ncclRemoteError : ncclSuccess;
  return answer("ncclCommGetAsyncError");
}
ncclResult_t ncclGroupStart() {
  if (answer("ncclGroupStart") != ncclSuccess) return ncclSystemError;
  ++state().depth;
  ++state().groups;
  return ncclSuccess;
}
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t, int peer, ncclComm_t,
                      cudaStream_t stream) {
  return fake::add("ncclRecv", true, data, count, peer, stream);
}
ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t, int peer, ncclComm_t,
                      cudaStream_t stream) {
  return fake::add("ncclSend", false, const_cast<void*>(data), count, peer, stream);
}
ncclResult_t ncclGroupEnd() {
  --state().depth;
  if (!state().fails.empty()) {
    fake::operations.clear();
    return answer("ncclGroupEnd");
  }
  for (const fake::Operation& o : fake::operations) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (o.receives)
      MPI_Irecv(o.data, o.count, MPI_BYTE, o.peer, fake::tag, MPI_COMM_WORLD, &request);
    else
      MPI_Isend(o.data, o.count, MPI_BYTE, o.peer, fake::tag, MPI_COMM_WORLD, &request);
    fake::requests.push_back(request);
  }
  fake::operations.clear();
  return ncclSuccess;
}

}  // extern "C"
