// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/mesh/devices.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "literal.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard {

namespace {

using Devices = std::vector<DeviceAttributes>;

/// Smallest and largest of one number per device.
template <class Number>
std::pair<int, int> bounds(const Devices& devices, const Number& number) {
  std::pair<int, int> found(number(devices.front()), number(devices.front()));
  for (const DeviceAttributes& device : devices) {
    found.first  = std::min(found.first, number(device));
    found.second = std::max(found.second, number(device));
  }
  return found;
}

}  // namespace

DeviceArray physical_mesh(const std::vector<DeviceAttributes>& devices) {
  if (devices.empty()) return {};
  const std::size_t rank = devices.front().coordinates.size();
  for (const DeviceAttributes& device : devices)
    if (device.coordinates.size() != rank)
      impl::throw_argument(
          "physical_mesh",
          {"device ", impl::text(device.id), " has ",
           impl::text(static_cast<index_t>(device.coordinates.size())), " coordinates and device ",
           impl::text(devices.front().id), " ", impl::text(static_cast<index_t>(rank)),
           "; give all devices of a granule as many, or none"});
  DeviceArray torus;
  if (rank == 0) {
    for (const DeviceAttributes& device : devices) torus.ids.push_back(device.id);
    std::sort(torus.ids.begin(), torus.ids.end());
    torus.shape.push_back(static_cast<int>(torus.ids.size()));
    return torus;
  }
  // one component after the other, from the granule's first coordinate; then the cores
  std::vector<int> lowest;
  index_t nodes = 1;
  for (std::size_t d = 0; d <= rank; ++d) {
    const auto [low, high] = bounds(devices, [&](const DeviceAttributes& device) {
      return d < rank ? device.coordinates[d] : device.core;
    });
    if (d == rank && low == high) break;
    const index_t extent = static_cast<index_t>(high) - low + 1;
    // capped, so that the product can't overflow
    nodes = std::min<index_t>(nodes * std::min<index_t>(extent, 1 << 30), index_t{1} << 31);
    lowest.push_back(low);
    torus.shape.push_back(static_cast<int>(std::min<index_t>(extent, 1 << 30)));
  }
  if (nodes != static_cast<index_t>(devices.size()))
    impl::throw_argument("physical_mesh",
                         {"the coordinates of ", impl::text(static_cast<index_t>(devices.size())),
                          " devices are not a contiguous cuboid: their bounds ",
                          impl::tuple_text(torus.shape), " have ", impl::text(nodes), " places"});
  torus.ids.assign(devices.size(), -1);
  for (const DeviceAttributes& device : devices) {
    int place = 0;
    for (std::size_t d = 0; d < torus.shape.size(); ++d)
      place =
          place * torus.shape[d] + ((d < rank ? device.coordinates[d] : device.core) - lowest[d]);
    int& there = torus.ids[static_cast<std::size_t>(place)];
    if (there >= 0)
      impl::throw_argument("physical_mesh",
                           {"devices ", impl::text(there), " and ", impl::text(device.id),
                            " have the same coordinates ", impl::tuple_text(device.coordinates),
                            ", so that the mesh has a hole; they are not a contiguous cuboid"});
    there = device.id;
  }
  return torus;
}

std::vector<DeviceAttributes> devices_of(MPI_Comm comm) {
  impl::require_communicator(comm, "devices_of");
  int rank = 0, size = 0;
  impl::check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  impl::check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  MPI_Comm node = MPI_COMM_NULL;
  impl::await_mpi("MPI_Comm_split_type", MPI_Comm_split_type, comm, MPI_COMM_TYPE_SHARED, rank,
                  MPI_INFO_NULL, &node);
  int first = rank;
  impl::await_mpi("MPI_Bcast", MPI_Bcast, &first, 1, MPI_INT, 0, node);
  impl::await_mpi("MPI_Comm_free", MPI_Comm_free, &node);
  std::vector<int> firsts(static_cast<std::size_t>(size));
  impl::await_mpi("MPI_Allgather", MPI_Allgather, &first, 1, MPI_INT, firsts.data(), 1, MPI_INT,
                  comm);
  std::map<int, int> nodes;
  for (const int r : firsts) nodes.emplace(r, 0);
  int number = 0;
  for (auto& [r, n] : nodes) n = number++;
  std::vector<DeviceAttributes> devices(firsts.size());
  for (std::size_t r = 0; r < devices.size(); ++r) {
    devices[r].id = static_cast<int>(r);
    if (nodes.size() > 1) devices[r].granule = nodes[firsts[r]];
  }
  return devices;
}

}  // namespace shard
