// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/mesh/hybrid_mesh.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <utility>

#include "literal.hpp"
#include "shard/base/error.hpp"
#include "shard/mesh/impl/sharding_algebra.hpp"

namespace shard {

namespace {

constexpr const char* in_hybrid_mesh = "HybridMesh";

using Devices = std::vector<DeviceAttributes>;

int product(const std::vector<int>& shape) {
  return impl::product(shape.data(), static_cast<int>(shape.size()));
}

/// The devices of each granule, granules ascending; one unnumbered granule if there are none.
std::map<int, Devices> by_granule(const Devices& devices, const std::vector<int>& outer) {
  std::map<int, Devices> granules;
  std::size_t known = 0;
  for (const DeviceAttributes& device : devices) {
    known += device.granule ? 1 : 0;
    granules[device.granule.value_or(0)].push_back(device);
  }
  if (known != 0 && known != devices.size())
    impl::throw_argument(in_hybrid_mesh, {impl::text(static_cast<index_t>(known)), " of ",
                                          impl::text(static_cast<index_t>(devices.size())),
                                          " devices have a granule; give it for all or none"});
  const int wanted = product(outer);
  if (known != 0 && wanted == 1)
    impl::throw_argument(
        in_hybrid_mesh,
        {"the devices are in granules (", impl::text(static_cast<index_t>(granules.size())),
         " of them) and the outer shape has one place; provide the outer shape, "
         "or leave the granules out"});
  if (known == 0 && wanted > 1)
    impl::throw_argument(in_hybrid_mesh,
                         {"invalid outer shape ", impl::tuple_text(outer),
                          " for devices that are in no granules; give them granules, or "
                          "leave the outer shape out"});
  if (granules.size() != static_cast<std::size_t>(wanted))
    impl::throw_argument(in_hybrid_mesh, {"the number of granules ",
                                          impl::text(static_cast<index_t>(granules.size())),
                                          " must equal the product of the outer shape ",
                                          impl::tuple_text(outer), ", ", impl::text(wanted)});
  return granules;
}

/// The devices of one granule in the inner shape.
std::vector<int> place(const Devices& granule, int number, const std::vector<int>& inner,
                       SplitAxes split) {
  if (granule.size() != static_cast<std::size_t>(product(inner)))
    impl::throw_argument(
        in_hybrid_mesh,
        {"the number of devices ", impl::text(static_cast<index_t>(granule.size())), " of granule ",
         impl::text(number), " must equal the product of the inner shape ", impl::tuple_text(inner),
         ", ", impl::text(product(inner))});
  const DeviceArray torus = physical_mesh(granule);
  if (granule.front().coordinates.empty()) return torus.ids;
  return assign_torus(torus.shape, inner, split).place(torus).ids;
}

void check_shapes(const std::vector<int>& inner, const std::vector<int>& outer) {
  if (inner.size() != outer.size())
    impl::throw_argument(in_hybrid_mesh,
                         {"the inner shape ", impl::tuple_text(inner), " and the outer shape ",
                          impl::tuple_text(outer), " must have the same length"});
  index_t all = 1;
  for (std::size_t a = 0; a < inner.size(); ++a) {
    if (inner[a] < 1 || outer[a] < 1)
      impl::throw_argument(in_hybrid_mesh, {"the shapes ", impl::tuple_text(inner), " and ",
                                            impl::tuple_text(outer), " have an extent below 1"});
    all *= static_cast<index_t>(inner[a]) * outer[a];
    if (all > 2147483647)
      impl::throw_argument(
          in_hybrid_mesh, {"the shapes ", impl::tuple_text(inner), " and ", impl::tuple_text(outer),
                           " have more places than 2147483647"});
  }
}

LogicalMesh combine(HybridMeshArguments& a) {
  if (a.outer.empty()) a.outer.assign(a.inner.size(), 1);
  check_shapes(a.inner, a.outer);
  if (a.devices.empty()) impl::throw_argument(in_hybrid_mesh, {"there are no devices; give them"});
  std::vector<int> shape(a.inner.size());
  for (std::size_t d = 0; d < shape.size(); ++d) shape[d] = a.inner[d] * a.outer[d];

  // granule after granule, then the granules' axes between the inner ones
  std::vector<int> ids, cut, permutation;
  for (const auto& [number, granule] : by_granule(a.devices, a.outer)) {
    const std::vector<int> placed = place(granule, number, a.inner, a.split);
    ids.insert(ids.end(), placed.begin(), placed.end());
  }
  cut.insert(cut.end(), a.outer.begin(), a.outer.end());
  cut.insert(cut.end(), a.inner.begin(), a.inner.end());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    permutation.push_back(static_cast<int>(d));
    permutation.push_back(static_cast<int>(d + shape.size()));
  }
  std::vector<int> mesh(ids.size());
  impl::transpose(ids.data(), cut.data(), static_cast<int>(cut.size()), permutation.data(),
                  mesh.data());
  return {std::move(mesh), std::move(shape), std::move(a.axis_names)};
}

}  // namespace

HybridMesh::HybridMesh(HybridMeshArguments arguments)
    : LogicalMesh(combine(arguments)),
      inner_(std::move(arguments.inner)),
      outer_(std::move(arguments.outer)) {}

}  // namespace shard
