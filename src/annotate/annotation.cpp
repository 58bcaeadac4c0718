// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/annotate/impl/annotation.hpp"

#include "shard/base/impl/environment_variable.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/annotate/as_sharded.hpp"

namespace shard::impl {

namespace {

std::string list(const std::vector<index_t>& extents) {
  return text(extents.data(), static_cast<int>(extents.size()));
}

/// A tensor as text, to compare the ranks' arguments.
std::string words_of(const CellType& cell, const std::vector<index_t>& extents) {
  return "a tensor of extents " + list(extents) + " with " + text(cell.value_size) +
         "-byte values" + (cell.first_is_fast ? ", LayoutLeft" : "");
}
std::string words_of(const Annotation& about) {
  const std::string sharding = about.text();
  return words_of(about.cell, about.extents) +
         (sharding.empty() ? ", without an annotation" : ", annotated " + sharding);
}

void agree(const DeviceMesh& mesh, const char* function, const std::string& arguments) {
  const Watched watched(
      {.what = "other ranks to work on an annotated tensor", .rank = mesh.rank()});
  require_agreement(mesh.communicator(), function, arguments);
}

/// Whether both put the same tiles on the same devices.
bool same_effect(const OpSharding& a, const OpSharding& b) {
  return a == b || (a.tiles() == b.tiles() && a.text() == b.text());
}
/// Whether both have the same sharding and rule.
bool same_layout(const ShardLayout& a, const ShardLayout& b) {
  bool same = a.sharding() == b.sharding();
  for (int d = 0; d < a.sharding().rank() && same; ++d) same = a.partition(d) == b.partition(d);
  return same;
}

}  // namespace

ShardingType Annotation::type() const {
  if (!layout) return ShardingType::unknown;
  return manual ? ShardingType::manual : layout->sharding().type();
}

std::string Annotation::text() const {
  if (!layout) return {};
  return manual ? "{manual}" : layout->sharding().text();
}

void require_not_manual(const Annotation& about, const char* function) {
  if (about.manual)
    throw_argument(function, {"the tensor \"", about.label, "\" is still manual, sharded by ",
                              about.spec.text(),
                              "; call disable_manual_sharding before it is used as a whole"});
}

void require_annotation(const Annotation& about, const char* function) {
  require_not_manual(about, function);
  if (!about.layout)
    throw_argument(function, {"the tensor \"", about.label, "\" of extents ", list(about.extents),
                              " has no annotation; call mark_sharding first"});
}

void require_manual(const Annotation& about, const DeviceMesh& mesh, const char* function) {
  agree(mesh, function, words_of(about) + (about.manual ? "" : ", not manual"));
  if (about.manual) return;
  throw_argument(function,
                 {"the tensor \"", about.label, "\" of extents ", list(about.extents), " is ",
                  name_of(about.type()),
                  about.layout ? " and not MANUAL" : ": raw data without an annotation, not MANUAL",
                  "; enable_manual_sharding makes the local shards that are taken back here"});
}

std::optional<ShardLayout> plan_marking(const char* function, const Annotation& about,
                                        const DeviceMesh& mesh, const PartitionSpec& spec,
                                        bool again) {
  agree(mesh, function,
        words_of(about) + ", mesh " + mesh.logical().text() + ", spec " + spec.text());
  require_not_manual(about, function);
  ShardLayout layout(mesh.logical().get_op_sharding(spec), about.extents);
  if (!about.layout) return layout;
  const OpSharding& now = about.layout->sharding();
  const bool same_mesh  = mesh.same_ranks(*about.mesh);
  if (same_mesh &&
      (again ? same_layout(*about.layout, layout) : same_effect(now, layout.sharding())))
    return std::nullopt;
  if (now.replicated()) return layout;
  if (!again)
    throw_argument(function, {"the tensor \"", about.label, "\" is sharded by ", about.spec.text(),
                              ", ", now.text(),
                              "; the existing annotation must be cleared first (clear_sharding) "
                              "before applying a new one, ",
                              spec.text(), ", ", layout.sharding().text()});
  if (!same_mesh)
    throw_argument(function, {"the tensor \"", about.label,
                              "\" is sharded over another communicator's ranks; clear_sharding "
                              "first, or give a mesh of the same ranks in the same order"});
  return layout;
}

bool values_are_compared() { return environment_flag("SHARD_CHECK"); }

void agree_on_values(const char* function, const DeviceMesh& mesh, std::uint64_t hash) {
  agree(mesh, function,
        "a whole tensor whose values have the hash " + text(static_cast<index_t>(hash)));
}

void agree_on(const char* function, const Annotation& about) {
  agree(*about.mesh, function, words_of(about));
}

ShardLayout plan_joining(const char* function, const DeviceMesh& mesh, const PartitionSpec& spec,
                         const CellType& cell, index_t count, const std::vector<index_t>& local,
                         const std::vector<index_t>* shape) {
  agree(mesh, function,
        text(count) + " shards, each " + words_of(cell, local) + ", of " +
            (shape == nullptr ? "what they make" : list(*shape)) + ", mesh " +
            mesh.logical().text() + ", spec " + spec.text());
  if (count != 1)
    throw_argument(function, {"there is one device on each rank, and ", text(count),
                              " shards were given; give one shard per local device"});
  const OpSharding sharding = mesh.logical().get_op_sharding(spec);
  const auto rank           = static_cast<index_t>(local.size());
  if (sharding.rank() != rank)
    throw_argument(function, {"the partition spec's length (", text(sharding.rank()),
                              ") should be equal to the shards' rank (", text(rank),
                              "); give one entry per dimension"});
  std::vector<index_t> extents = local;
  for (int d = 0; d < sharding.rank(); ++d) extents[Geometry::at(d)] *= sharding.tiles(d);
  if (shape != nullptr) extents = *shape;
  ShardLayout layout(sharding, extents);
  if (layout.shard_shape() != local)
    throw_argument(function,
                   {"shards of extents ", list(local), " don't make a tensor of extents ",
                    list(extents), ", whose padded shards under ", spec.text(), " have extents ",
                    list(layout.shard_shape()), "; give shards of these, or another shape"});
  return layout;
}

void require_loadable(const Annotation& about, const std::vector<std::vector<index_t>>& shards) {
  const char* function = "load_local_shards";
  require_annotation(about, function);
  agree_on(function, about);
  if (about.whole())
    throw_argument(function, {"the tensor \"", about.label,
                              "\" is replicated and has no shards to load; write its cells, or "
                              "mark_sharding first"});
  std::string wrong;
  if (shards.size() != 1)
    wrong = "there is one device on each rank, and " + text(static_cast<index_t>(shards.size())) +
            " shards were given; give all local shards, one per device";
  else if (shards.front() != about.layout->shard_shape())
    wrong = "the shard has extents " + list(shards.front()) + ", the padded shards of \"" +
            about.label + "\" have " + list(about.layout->shard_shape());
  require_no_error(about.mesh->communicator(), function, wrong);
}

ShardLayout replicated_layout(const DeviceMesh& mesh, const std::vector<index_t>& extents) {
  const PartitionSpec spec{std::vector<SpecEntry>(extents.size())};
  return {mesh.logical().get_op_sharding(spec), extents};
}

void require_sharing(const Annotation& about, const DeviceMesh& mesh, const PartitionSpec& spec) {
  const char* function = "as_sharded";
  agree(mesh, function,
        words_of(about) + ", mesh " + mesh.logical().text() + ", spec " + spec.text());
  require_annotation(about, function);
  const OpSharding wanted = mesh.logical().get_op_sharding(spec);
  const OpSharding& is    = about.layout->sharding();
  if (!same_effect(is, wanted))
    throw_argument(function, {"the tensor \"", about.label, "\" is sharded by ", about.spec.text(),
                              ", ", is.text(), ", the field's type says ", spec.text(), ", ",
                              wanted.text(), "; mark_sharding by partition_spec<Field, Mesh>()"});
  if (!mesh.same_ranks(*about.mesh))
    throw_argument(function, {"the tensor \"", about.label,
                              "\" is sharded over another communicator's ranks than the mesh's"});
}

PartitionSpec spec_of(const Geometry& geometry) {
  std::vector<SpecEntry> entries;
  for (int d = 0; d < geometry.rank; ++d) {
    const DimGeometry& dim = geometry.dims[Geometry::at(d)];
    std::vector<SpecAxis> axes;
    for (int a = 0; a < dim.axis_count; ++a) axes.emplace_back(dim.axes[Geometry::at(a)]);
    entries.emplace_back(std::move(axes));
  }
  return PartitionSpec(std::move(entries));
}

void annotate_as(Annotation& about, const Geometry& geometry) {
  const DeviceMesh mesh(geometry.mesh, {});
  about.label = geometry.label;
  about.spec  = spec_of(geometry);
  for (int d = 0; d < geometry.rank; ++d) about.extents[Geometry::at(d)] = geometry.global(d);
  for (const ShardRule rule : {ShardRule::balanced, ShardRule::ceil}) {
    ShardLayout layout(mesh.logical().get_op_sharding(about.spec), about.extents, rule);
    bool same = true;
    for (int d = 0; d < geometry.rank; ++d)
      same = same && layout.partition(d) == geometry.dims[Geometry::at(d)].partition;
    if (!same) continue;
    about.mesh   = mesh;
    about.layout = std::move(layout);
    return;
  }
  throw_argument("wrap_as_sharded", {"the field \"", about.label,
                                     "\" is neither balanced nor ceil over its ranks, as an "
                                     "annotation needs; redistribute it"});
}

PlainView part_of(PlainView view, const std::vector<index_t>& begin,
                  const std::vector<index_t>& extent) {
  index_t offset = 0;
  bool empty     = false;
  for (std::size_t d = 0; d < begin.size(); ++d) {
    offset += begin[d] * view.stride[d];
    view.extent[d] = extent[d];
    empty          = empty || extent[d] == 0;
  }
  if (!empty) view.data += offset;
  return view;
}

}  // namespace shard::impl
