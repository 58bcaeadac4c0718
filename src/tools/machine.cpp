// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "machine.hpp"

#include <Kokkos_Core.hpp>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <map>

#include "nccl_network.hpp"
#include "shard/base/error.hpp"
#include "shard/base/version.hpp"
#include "shard/comm/impl/device_messages.hpp"
#include "shard/comm/nccl_transport.hpp"
#include "shard/comm/impl/shared_pool.hpp"
#include "shard/config.hpp"
#include "shard/io/map.hpp"
#include "shard/io/netcdf.hpp"
#include "shard/mesh/devices.hpp"
#include "shard/mesh/mesh.hpp"

namespace shard::tools {

namespace {

struct Ranks;

std::vector<std::string> backends() {
  std::vector<std::string> names;
#if defined(KOKKOS_ENABLE_SERIAL)
  names.emplace_back("Serial");
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
  names.emplace_back("OpenMP");
#endif
#if defined(KOKKOS_ENABLE_THREADS)
  names.emplace_back("Threads");
#endif
#if defined(KOKKOS_ENABLE_CUDA)
  names.emplace_back("CUDA");
#endif
#if defined(KOKKOS_ENABLE_HIP)
  names.emplace_back("HIP");
#endif
#if defined(KOKKOS_ENABLE_SYCL)
  names.emplace_back("SYCL");
#endif
  return names;
}

std::string first_line_of_mpi() {
  char words[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  impl::check_mpi(MPI_Get_library_version(words, &length), "MPI_Get_library_version");
  std::string line(words, static_cast<std::size_t>(length));
  line = line.substr(0, line.find('\n'));
  // Open MPI's line goes on with who built it where
  for (const char* rest : {", package", ", ident"}) line = line.substr(0, line.find(rest));
  std::replace(line.begin(), line.end(), '\t', ' ');
  while (!line.empty() && (line.back() == ' ' || line.back() == '\0')) line.pop_back();
  return line;
}

std::string thread_level() {
  int level = 0;
  impl::check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  return level == MPI_THREAD_MULTIPLE     ? "multiple"
         : level == MPI_THREAD_SERIALIZED ? "serialized"
         : level == MPI_THREAD_FUNNELED   ? "funneled"
                                          : "single";
}

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return all;
}

/// Ranks on each node, in the order of the nodes' numbers.
std::vector<int> ranks_per_node(MPI_Comm comm) {
  std::map<int, int> counts;
  for (const DeviceAttributes& device : devices_of(comm)) ++counts[device.granule.value_or(0)];
  std::vector<int> ranks;
  for (const auto& [node, count] : counts) ranks.push_back(count);
  return ranks;
}

/// Cores that this process may run on.
int allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0
             ? CPU_COUNT(&set)
             : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

/// NCCL's network, or why it can't be known.
std::string network_words(MPI_Comm comm) {
  try {
    const std::string network = nccl_network(comm);
    if (network.empty()) return "unknown: its log doesn't say";
    if (network == "Socket") return "Socket: TCP, without a plugin for a faster network";
    return network;
  } catch (const NcclError& error) {
    return std::string("unknown: ") + error.what();
  }
}

std::string yes_no(bool yes) { return yes ? "yes" : "no"; }

}  // namespace

std::vector<Fact> machine_facts(MPI_Comm comm) {
  std::vector<Fact> facts;
  const auto add = [&](const char* group, const char* name, const std::string& words, Json json) {
    facts.push_back({group, name, words, std::move(json)});
  };
  const auto say = [&](const char* group, const char* name, const std::string& words) {
    add(group, name, words, words);
  };

  say("build", "shard", version().text);
  say("build", "kokkos",
      std::to_string(KOKKOS_VERSION / 10000) + "." + std::to_string(KOKKOS_VERSION / 100 % 100) +
          "." + std::to_string(KOKKOS_VERSION % 100));
  add("build", "backends", joined(backends()), backends());
  say("build", "default_backend", Kokkos::DefaultExecutionSpace::name());
  int major = 0, minor = 0;
  impl::check_mpi(MPI_Get_version(&major, &minor), "MPI_Get_version");
  say("build", "mpi", first_line_of_mpi());
  say("build", "mpi_standard", std::to_string(major) + "." + std::to_string(minor));
  add("build", "netcdf", yes_no(netcdf_available()), netcdf_available());
  add("build", "pictures", yes_no(pictures_available()), pictures_available());
#if defined(SHARD_ENABLE_KERNELS)
  add("build", "kokkos_kernels", "yes", true);
#else
  add("build", "kokkos_kernels", "no", false);
#endif

  const std::vector<int> ranks  = ranks_per_node(comm);
  const auto [fewest, greatest] = std::minmax_element(ranks.begin(), ranks.end());
  int size                      = 0;
  impl::check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  add("machine", "ranks", std::to_string(size), size);
  add("machine", "nodes", std::to_string(ranks.size()), ranks.size());
  add("machine", "ranks_per_node",
      *fewest == *greatest ? std::to_string(*fewest)
                           : std::to_string(*fewest) + " to " + std::to_string(*greatest),
      ranks);
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  add("machine", "cores_of_node", std::to_string(online), online);
  add("machine", "cores_of_rank", std::to_string(allowed_cores()), allowed_cores());
  const int threads = Kokkos::DefaultExecutionSpace().concurrency();
  add("machine", "concurrency", std::to_string(threads), threads);

  say("transports", "mpi", "persistent requests, thread level " + thread_level());
  const Mesh<Ranks> mesh(comm, {size});
  const bool shared = impl::SharedPool::of(*mesh.state())->usable();
  mesh.release();
  add("transports", "shared_memory",
      shared          ? "yes"
      : *greatest < 2 ? "no: every node has one rank"
                      : "no: MPI gives this node's ranks no shared window",
      shared);
  const std::string nccl = impl::nccl_version();
  add("transports", "nccl", nccl.empty() ? "no: not in this build" : nccl, nccl);
  if (!nccl.empty()) say("transports", "nccl_network", network_words(comm));
  for (const auto& [name, kind] : {std::pair("cuda_memory", impl::DeviceKind::cuda),
                                   std::pair("rocm_memory", impl::DeviceKind::rocm)}) {
    const impl::DeviceMessages messages =
        impl::judge_device_messages(kind, impl::device_hints(comm, kind, {}));
    const std::size_t because = messages.reason.find(": ");
    add("transports", name,
        (messages.direct ? "given to MPI as it is" : "staged through host memory") +
            messages.reason.substr(because),
        Json::object({{"direct", messages.direct}, {"reason", messages.reason}}));
  }
  return facts;
}

}  // namespace shard::tools
