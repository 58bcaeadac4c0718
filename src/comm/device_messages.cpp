// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/comm/impl/device_messages.hpp"

#if defined(SHARD_HAVE_MPI_EXT)
#include <mpi-ext.h>
#endif

#include "shard/base/impl/environment_variable.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/log.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard::impl {

namespace {

constexpr const char* alloc_kinds_key = "mpi_memory_alloc_kinds";

std::string_view name_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cuda: return "cuda";
    case DeviceKind::rocm: return "rocm";
    case DeviceKind::other: break;
  }
  return {};
}

/// The part of `rest` before the first `separator`; removes both from `rest`.
std::string_view next(std::string_view& rest, char separator) {
  const std::size_t end       = rest.find(separator);
  const std::string_view part = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return part;
}

std::string_view trimmed(std::string_view words) {
  while (!words.empty() && words.front() == ' ') words.remove_prefix(1);
  while (!words.empty() && words.back() == ' ') words.remove_suffix(1);
  return words;
}

DeviceMessages answer(bool direct, const std::string& because) {
  return {direct, (direct ? "messages of device memory are sent by MPI directly: "
                          : "messages of device memory are staged through host memory: ") +
                      because};
}

std::optional<std::string> alloc_kinds_of(MPI_Comm comm) {
  MPI_Info info = MPI_INFO_NULL;
  check_mpi(MPI_Comm_get_info(comm, &info), "MPI_Comm_get_info");
  std::optional<std::string> value;
  int flag = 0;
#if MPI_VERSION >= 4
  int length = 0;  // with the terminating null
  char none  = 0;  // MPICH 4.0 rejects a null pointer even for a length of zero
  check_mpi(MPI_Info_get_string(info, alloc_kinds_key, &length, &none, &flag),
            "MPI_Info_get_string");
  if (flag != 0) {
    value.emplace(static_cast<std::size_t>(length), '\0');
    check_mpi(MPI_Info_get_string(info, alloc_kinds_key, &length, value->data(), &flag),
              "MPI_Info_get_string");
    value->resize(value->find('\0') == std::string::npos ? value->size() : value->find('\0'));
  }
#else
  int length = 0;  // without it
  check_mpi(MPI_Info_get_valuelen(info, alloc_kinds_key, &length, &flag), "MPI_Info_get_valuelen");
  if (flag != 0) {
    value.emplace(static_cast<std::size_t>(length) + 1, '\0');
    check_mpi(MPI_Info_get(info, alloc_kinds_key, length, value->data(), &flag), "MPI_Info_get");
    value->resize(static_cast<std::size_t>(length));
  }
#endif
  check_mpi(MPI_Info_free(&info), "MPI_Info_free");
  return value;
}

/// Calls the MPI's query function that the build found.
void ask_mpi([[maybe_unused]] DeviceKind kind, [[maybe_unused]] DeviceHints& hints) {
#if defined(SHARD_HAVE_MPIX_QUERY_CUDA_SUPPORT)
  if (kind == DeviceKind::cuda) {
    hints.query      = MPIX_Query_cuda_support() == 1;
    hints.query_name = "MPIX_Query_cuda_support";
    return;
  }
#endif
#if defined(SHARD_HAVE_MPIX_QUERY_ROCM_SUPPORT)
  if (kind == DeviceKind::rocm) {
    hints.query      = MPIX_Query_rocm_support() == 1;
    hints.query_name = "MPIX_Query_rocm_support";
    return;
  }
#endif
#if defined(SHARD_HAVE_MPIX_GPU_QUERY_SUPPORT)
  if (kind == DeviceKind::cuda || kind == DeviceKind::rocm) {
    int supported  = 0;
    const int type = kind == DeviceKind::cuda ? MPIX_GPU_SUPPORT_CUDA : MPIX_GPU_SUPPORT_HIP;
    if (MPIX_GPU_query_support(type, &supported) != MPI_SUCCESS) return;
    hints.query      = supported != 0;
    hints.query_name = "MPIX_GPU_query_support";
  }
#endif
}

/// Rank `root`'s text, on every rank.
std::string text_of(MPI_Comm comm, int root, std::string words) {
  int length = static_cast<int>(words.size());
  await_mpi("MPI_Bcast", MPI_Bcast, &length, 1, MPI_INT, root, comm);
  words.resize(static_cast<std::size_t>(length));
  await_mpi("MPI_Bcast", MPI_Bcast, words.data(), length, MPI_CHAR, root, comm);
  return words;
}

}  // namespace

std::optional<bool> alloc_kinds_say(std::string_view value, DeviceKind kind) {
  if (kind == DeviceKind::other) return {};
  std::optional<bool> said;
  while (!value.empty()) {
    std::string_view entry = trimmed(next(value, ','));
    if (trimmed(next(entry, ':')) != name_of(kind)) continue;
    bool device = entry.empty();  // no restrictor: all its memory
    while (!entry.empty()) device = trimmed(next(entry, ':')) == "device" || device;
    said = device || said.value_or(false);
  }
  return said;
}

DeviceMessages judge_device_messages(DeviceKind kind, const DeviceHints& hints) {
  if (hints.option.has_value())
    return answer(*hints.option, *hints.option ? "the caller says that MPI is GPU-aware"
                                               : "the caller says that MPI isn't GPU-aware");
  if (hints.environment.has_value() && !hints.environment->empty()) {
    const std::string& value = *hints.environment;
    return answer(variable_from_text("SHARD_GPU_AWARE", value) == 1, "SHARD_GPU_AWARE=" + value);
  }
  if (hints.alloc_kinds.has_value()) {
    const std::optional<bool> said = alloc_kinds_say(*hints.alloc_kinds, kind);
    if (said.has_value())
      return answer(*said, "the communicator's " + std::string(alloc_kinds_key) + " is \"" +
                               *hints.alloc_kinds + "\"");
  }
  if (hints.query.has_value())
    return answer(*hints.query, hints.query_name + (*hints.query ? " says yes" : " says no"));
  return answer(false,
                "this MPI doesn't report that it is GPU-aware; SHARD_GPU_AWARE=1 overrules that");
}

DeviceHints device_hints(MPI_Comm comm, DeviceKind kind, std::optional<bool> option) {
  DeviceHints hints;
  hints.option      = option;
  hints.environment = environment_text("SHARD_GPU_AWARE");
  hints.alloc_kinds = alloc_kinds_of(comm);
  ask_mpi(kind, hints);
  return hints;
}

DeviceMessages decide_device_messages(MPI_Comm comm, DeviceKind kind, const DeviceHints& hints,
                                      MPI_Comm logger) {
  DeviceMessages mine;
  std::string wrong;
  try {
    mine = judge_device_messages(kind, hints);
  } catch (const ArgumentError& error) {
    wrong = error.what();
  }
  require_no_error(comm, "decide_device_messages", wrong);

  int rank = 0, size = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  // the lowest rank that says no, and whether some rank says yes
  const int local[2] = {mine.direct ? size : rank, mine.direct ? 0 : 1};
  int lowest[2]      = {};
  await_mpi("MPI_Allreduce", MPI_Allreduce, local, lowest, 2, MPI_INT, MPI_MIN, comm);
  const bool direct  = lowest[0] == size;
  const bool differ  = !direct && lowest[1] == 0;
  DeviceMessages all = {direct, text_of(comm, direct ? 0 : lowest[0], mine.reason)};
  if (differ) all.reason += " (on rank " + text(lowest[0]) + "; other ranks say yes)";
  log_once(logger == MPI_COMM_NULL ? comm : logger, all.reason);
  return all;
}

}  // namespace shard::impl
