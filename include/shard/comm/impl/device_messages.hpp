// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_IMPL_DEVICE_MESSAGES_HPP
#define SHARD_COMM_IMPL_DEVICE_MESSAGES_HPP

#include <mpi.h>

#include <optional>
#include <string>
#include <string_view>

namespace shard::impl {

/// The kind of device memory. MPI has no query for `other`; the option and SHARD_GPU_AWARE apply.
enum class DeviceKind { cuda, rocm, other };

/// Whether MPI gets a plan's messages in device memory or staged in pinned host memory, and why:
/// "messages of device memory are staged through host memory: SHARD_GPU_AWARE=0".
struct DeviceMessages {
  bool direct = false;
  std::string reason;
};

/// The sources of information on one rank; the first that is set decides.
struct DeviceHints {
  std::optional<bool> option;              ///< the caller's option
  std::optional<std::string> environment;  ///< SHARD_GPU_AWARE, if it is set
  std::optional<std::string> alloc_kinds;  ///< mpi_memory_alloc_kinds of the communicator's info
  std::optional<bool> query;               ///< the answer of the MPI's query function
  std::string query_name;                  ///< that function's name, for the reason
};

/// Reads a value of mpi_memory_alloc_kinds (MPI 4.1: "mpi,system,cuda:device"). True if it lists
/// `kind` without restrictors or with "device" among them; false if only with other restrictors;
/// none if it doesn't list it, because some MPIs list only what was requested at launch.
std::optional<bool> alloc_kinds_say(std::string_view value, DeviceKind kind);

/// One rank's answer: the option, else SHARD_GPU_AWARE, else the communicator's allocation kinds,
/// else the query, else no. Throws ArgumentError if SHARD_GPU_AWARE is neither 0 nor 1 nor empty
/// and the option doesn't overrule it.
DeviceMessages judge_device_messages(DeviceKind kind, const DeviceHints& hints);

/// The hints of this rank's environment, communicator and MPI. Local.
DeviceHints device_hints(MPI_Comm comm, DeviceKind kind, std::optional<bool> option);

/// One decision for all ranks: direct if all ranks agree to it. If they differ the reason names the
/// lowest rank that says no. Collective. Throws ArgumentError on every rank if one rank's hints are
/// invalid. Rank 0 of `logger` logs the decision once; by default that of `comm`.
DeviceMessages decide_device_messages(MPI_Comm comm, DeviceKind kind, const DeviceHints& hints,
                                      MPI_Comm logger = MPI_COMM_NULL);

/// The same with device_hints().
inline DeviceMessages decide_device_messages(MPI_Comm comm, DeviceKind kind,
                                             std::optional<bool> option = {}) {
  return decide_device_messages(comm, kind, device_hints(comm, kind, option));
}

}  // namespace shard::impl

#endif
