// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/comm/nccl_transport.hpp"

#include <cstdlib>
#include <exception>

#include "nccl_runtime.hpp"
#include "shard/base/impl/environment_variable.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard::impl {

namespace {

std::string words_of(ncclResult_t code, [[maybe_unused]] ncclComm_t comm) {
  std::string words = ncclGetErrorString(code);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 13, 0)
  const char* more = ncclGetLastError(comm);
  if (more != nullptr && *more != '\0') words += std::string(": ") + more;
#endif
  return words;
}

/// "ncclSend failed: unhandled system error: ..."
std::string failure(const char* function, ncclResult_t code, ncclComm_t comm) {
  return std::string(function) + " failed: " + words_of(code, comm);
}

/// Collective: throws NcclError on every rank if `wrong` isn't empty on some rank.
void require_nothing_wrong(MPI_Comm comm, const std::string& wrong) {
  try {
    require_no_error(comm, "NcclGroup", wrong);
  } catch (const ArgumentError& error) {
    throw NcclError(error.what());
  }
}

/// Sets `place` to the bus and node of this rank's current device, for messages and comparisons.
/// Returns an error, or an empty text.
std::string find_device(std::string& place) {
  const auto unusable = [](device::Status status) {
    return std::string("no device for ") + device::library + ": " + device::words(status) +
           "; it needs a GPU for each rank";
  };
  int index             = 0;
  device::Status status = device::current(index);
  if (status != device::success) return unusable(status);
  char bus[32] = {};
  status       = device::bus_of(index, bus, sizeof bus);
  if (status != device::success) return unusable(status);
  char node[MPI_MAX_PROCESSOR_NAME + 1] = {};
  int length                            = 0;
  check_mpi(MPI_Get_processor_name(node, &length), "MPI_Get_processor_name");
  place = std::string(bus) + " of node " + node;
  return {};
}

/// Collective. An error that names the first other rank with the device at `place`, or an empty
/// text.
std::string find_sharer(MPI_Comm comm, int rank, int size, const std::string& place) {
  const std::uint64_t mine = hash_bytes(place.data(), place.size(), hash_seed);
  std::vector<std::uint64_t> all(static_cast<std::size_t>(size));
  await_mpi("MPI_Allgather", MPI_Allgather, &mine, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T,
            comm);
  for (int other = 0; other < size; ++other)
    if (other != rank && all[static_cast<std::size_t>(other)] == mine)
      return "its GPU, " + place + ", is rank " + text(other) + "'s too; " + device::library +
             " needs a GPU for each rank: start fewer ranks or give each its own";
  return {};
}

/// For tests with more ranks than GPUs. NCCL rejects two ranks of one host on one GPU, so each rank
/// pretends to be a separate host, and messages use sockets.
void pretend_hosts(int rank) {
  const std::string host = "shard-" + text(rank);
  setenv("NCCL_HOSTID", host.c_str(), 0);
  setenv("NCCL_P2P_DISABLE", "1", 0);
  setenv("NCCL_SHM_DISABLE", "1", 0);
}

}  // namespace

std::string nccl_version() {
  int code                  = 0;
  const ncclResult_t result = ncclGetVersion(&code);
  if (result != ncclSuccess)
    throw NcclError("shard: " + failure("ncclGetVersion", result, nullptr));
  const int major = code < 10000 ? code / 1000 : code / 10000;  // the digits changed with 2.9
  const int minor = code < 10000 ? code % 1000 / 100 : code % 10000 / 100;
  return std::string(device::library) + " " + text(major) + "." + text(minor) + "." +
         text(code % 100);
}

NcclGroup::NcclGroup(MPI_Comm comm) : exceptions_(std::uncaught_exceptions()) {
  int rank = 0, size = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");

  // Find errors of single ranks before calling NCCL, in which the others would wait for that rank.
  std::string place;
  require_nothing_wrong(comm, find_device(place));
  if (environment_flag("SHARD_NCCL_SHARE_GPU"))
    pretend_hosts(rank);
  else
    require_nothing_wrong(comm, find_sharer(comm, rank, size, place));

  ncclUniqueId id{};
  std::string wrong;
  if (rank == 0) {
    const ncclResult_t code = ncclGetUniqueId(&id);
    if (code != ncclSuccess) wrong = failure("ncclGetUniqueId", code, nullptr);
  }
  require_nothing_wrong(comm, wrong);
  await_mpi("MPI_Bcast", MPI_Bcast, &id, static_cast<int>(sizeof id), MPI_BYTE, 0, comm);

  const ncclResult_t code = ncclCommInitRank(&comm_, size, id, rank);
  if (code != ncclSuccess) {
    wrong = failure("ncclCommInitRank", code, nullptr);
    comm_ = nullptr;
  }
  try {
    require_nothing_wrong(comm, wrong);
  } catch (...) {
    if (comm_ != nullptr) ncclCommAbort(comm_);
    throw;
  }
}

NcclGroup::~NcclGroup() {
  if (comm_ == nullptr) return;
  if (std::uncaught_exceptions() > exceptions_)
    ncclCommAbort(comm_);
  else
    ncclCommDestroy(comm_);
}

void NcclGroup::fail(const char* function, int code) {
  std::string words = failure(function, static_cast<ncclResult_t>(code), comm_);
  ncclCommAbort(comm_);
  comm_ = nullptr;
  throw NcclError("shard: " + words + "; the communicator was aborted");
}

void NcclGroup::poll() {
  if (comm_ == nullptr)
    throw NcclError(std::string("shard: this ") + device::library +
                    " communicator was aborted after an earlier error");
  ncclResult_t since      = ncclSuccess;
  const ncclResult_t code = ncclCommGetAsyncError(comm_, &since);
  if (code != ncclSuccess) fail("ncclCommGetAsyncError", code);
  if (since != ncclSuccess) fail("an operation in the background", since);
}

void NcclGroup::run(const std::vector<PlacedBytes>& sends, const std::vector<PlacedBytes>& receives,
                    Stream stream) {
  poll();
  if (sends.empty() && receives.empty()) return;
  auto* const native   = static_cast<device::NativeStream>(stream.handle);
  const char* function = "ncclGroupStart";
  ncclResult_t code    = ncclGroupStart();
  if (code != ncclSuccess) fail(function, code);
  for (const PlacedBytes& m : receives) {
    if (code != ncclSuccess) break;
    function = "ncclRecv";
    code     = ncclRecv(m.data, m.bytes, ncclInt8, m.peer, comm_, native);
  }
  for (const PlacedBytes& m : sends) {
    if (code != ncclSuccess) break;
    function = "ncclSend";
    code     = ncclSend(m.data, m.bytes, ncclInt8, m.peer, comm_, native);
  }
  // also after an error, or the thread would stay in the group
  const ncclResult_t ended = ncclGroupEnd();
  if (code != ncclSuccess) fail(function, code);
  if (ended != ncclSuccess) fail("ncclGroupEnd", ended);
}

}  // namespace shard::impl
