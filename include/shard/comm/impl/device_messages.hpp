// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_IMPL_DEVICE_MESSAGES_HPP
#define SHARD_COMM_IMPL_DEVICE_MESSAGES_HPP

#include <mpi.h>

#include <optional>
#include <string>
#include <string_view>

namespace shard::impl {

/// Whose device memory it is. Of `other` no MPI says anything: an option or SHARD_GPU_AWARE can.
enum class DeviceKind { cuda, rocm, other };

/// Whether a plan's messages in device memory go to MPI as they are or by way of pinned host
/// memory, and why: "messages of device memory are staged through host memory: SHARD_GPU_AWARE=0".
struct DeviceMessages {
  bool direct = false;
  std::string reason;
};

/// What is known on one rank; the first of them that says something is believed.
struct DeviceHints {
  std::optional<bool> option;              ///< the caller's wish
  std::optional<std::string> environment;  ///< SHARD_GPU_AWARE, where it is set
  std::optional<std::string> alloc_kinds;  ///< mpi_memory_alloc_kinds of the communicator's info
  std::optional<bool> query;               ///< what the MPI's own query function answers
  std::string query_name;                  ///< that function's name, for the reason
};

/// What a value of mpi_memory_alloc_kinds (MPI 4.1: "mpi,system,cuda:device") says of device memory
/// of `kind`: true if the kind stands there, without restrictors or with "device" among them; false
/// if it stands there with others only; nothing if it doesn't stand there, for an MPI need not list
/// what wasn't asked for at launch, and some list "mpi,system" alone though they take more.
std::optional<bool> alloc_kinds_say(std::string_view value, DeviceKind kind);

/// One rank's answer: the option, else SHARD_GPU_AWARE, else the communicator's allocation kinds,
/// else the query; silence means no. Throws ArgumentError if SHARD_GPU_AWARE is neither 0 nor 1 nor
/// empty and the option doesn't overrule it.
DeviceMessages judge_device_messages(DeviceKind kind, const DeviceHints& hints);

/// Local: what this rank's environment, communicator and MPI say. No process is started for it.
DeviceHints device_hints(MPI_Comm comm, DeviceKind kind, std::optional<bool> option);

/// Collective: one decision for all ranks. Direct only if every rank's answer is; where they differ
/// the reason names the lowest rank that says no. Throws ArgumentError on every rank if one rank's
/// hints can't be understood. The decision is logged once.
DeviceMessages decide_device_messages(MPI_Comm comm, DeviceKind kind, const DeviceHints& hints);

/// The same with the hints that are found here.
inline DeviceMessages decide_device_messages(MPI_Comm comm, DeviceKind kind,
                                             std::optional<bool> option = {}) {
  return decide_device_messages(comm, kind, device_hints(comm, kind, option));
}

}  // namespace shard::impl

#endif
