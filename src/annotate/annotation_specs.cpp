// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/redistribute/axis_placements.hpp"
#include "shard/annotate/shard_inputs.hpp"

namespace shard {

namespace {

PartitionSpec replicated(int rank) {
  return PartitionSpec(std::vector<SpecEntry>(static_cast<std::size_t>(rank)));
}

/// A spec for a tensor of this rank: replicated if the spec doesn't fit.
PartitionSpec fitting(const PartitionSpec& spec, int rank) {
  return spec.rank() == rank ? spec : replicated(rank);
}

}  // namespace

InputSharding::InputSharding(None) {}
InputSharding::InputSharding(PartitionSpec spec)
    : specs_{{std::string(), std::move(spec)}}, kind_(Kind::one) {}
InputSharding::InputSharding(std::vector<std::pair<std::string, PartitionSpec>> specs)
    : specs_(std::move(specs)), kind_(Kind::by_key) {}
InputSharding::InputSharding(const InputSharding&) = default;
InputSharding::~InputSharding()                    = default;

PartitionSpec InputSharding::spec_for(int rank) const {
  if (kind_ == Kind::by_key)
    impl::throw_argument("shard_inputs",
                         {"there is a spec for each key, ", text(),
                          ", and the input is a bare tensor; give one spec, or inputs with keys"});
  return kind_ == Kind::one ? fitting(specs_.front().second, rank) : replicated(rank);
}

PartitionSpec InputSharding::spec_for(const std::string& key, int rank) const {
  if (kind_ != Kind::by_key) return spec_for(rank);
  for (const auto& [name, spec] : specs_)
    if (name == key) return fitting(spec, rank);
  impl::throw_argument("shard_inputs", {"the input \"", key, "\" has no spec in ", text()});
}

std::string InputSharding::text() const {
  if (kind_ == Kind::replicated) return "None";
  if (kind_ == Kind::one) return specs_.front().second.text();
  std::string words = "{";
  for (const auto& [name, spec] : specs_)
    words += (words.size() > 1 ? ", '" : "'") + name + "': " + spec.text();
  return words + "}";
}

void impl::agree_on_inputs(const DeviceMesh& mesh, const InputSharding& sharding,
                           const std::string& inputs) {
  const Watched watched({.what = "other ranks to shard their inputs", .rank = mesh.rank()});
  require_agreement(mesh.communicator(), "shard_inputs", inputs + " by " + sharding.text());
}

PartitionSpec spec_from_placements(const std::vector<AxisPlacement>& placements,
                                   const LogicalMesh& mesh, int rank) {
  const char* function = "spec_from_placements";
  const auto count     = static_cast<index_t>(placements.size());
  if (count != mesh.rank())
    impl::throw_argument(function,
                         {"there are ", impl::text(count), " placements and the mesh has ",
                          impl::text(mesh.rank()), " axes; give one for each"});
  std::vector<std::vector<SpecAxis>> axes(static_cast<std::size_t>(rank));
  for (int axis = 0; axis < mesh.rank(); ++axis) {
    const AxisPlacement& placement = placements[static_cast<std::size_t>(axis)];
    if (placement.kind == AxisPlacement::Kind::replicate) continue;
    if (placement.kind == AxisPlacement::Kind::partial)
      impl::throw_argument(function,
                           {"the placement of mesh axis ", impl::text(axis),
                            " is Partial, which a partition spec can't say; all_reduce first"});
    if (placement.dim < -rank || placement.dim >= rank)
      impl::throw_argument(function,
                           {"the placement of mesh axis ", impl::text(axis), " is Shard(",
                            impl::text(placement.dim), "); a tensor of rank ", impl::text(rank),
                            " has dimensions 0 to ", impl::text(rank - 1)});
    const int dim = placement.dim < 0 ? placement.dim + rank : placement.dim;
    axes[static_cast<std::size_t>(dim)].emplace_back(axis);
  }
  std::vector<SpecEntry> entries;
  for (std::vector<SpecAxis>& entry : axes) entries.emplace_back(std::move(entry));
  return PartitionSpec(std::move(entries));
}

std::vector<AxisPlacement> placements_from_spec(const PartitionSpec& spec,
                                                const LogicalMesh& mesh) {
  const impl::ResolvedSpec resolved = impl::resolve(spec, mesh.rank(), mesh.axis_names());
  std::vector<AxisPlacement> placements(static_cast<std::size_t>(mesh.rank()));
  std::size_t next = 0;
  for (std::size_t dim = 0; dim < resolved.counts.size(); ++dim)
    for (int i = 0; i < resolved.counts[dim]; ++i, ++next) {
      if (i > 0 && resolved.axes[next] < resolved.axes[next - 1])
        impl::throw_argument(
            "placements_from_spec",
            {"dimension ", impl::text(static_cast<index_t>(dim)), " of the spec ", spec.text(),
             " is sharded over mesh axis ", impl::text(resolved.axes[next - 1]), " before ",
             impl::text(resolved.axes[next]),
             ", and placements list axes in ascending order; keep the spec, or reorder the mesh"});
      placements[static_cast<std::size_t>(resolved.axes[next])] =
          AxisPlacement::shard(static_cast<int>(dim));
    }
  return placements;
}

}  // namespace shard
