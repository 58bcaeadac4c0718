// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/impl/layer_checks.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "shard/layers/impl/broadcast.hpp"
#include "shard/layers/parameters.hpp"

namespace shard::impl {

std::vector<ParameterShape> owned_shapes(std::vector<ParameterShape> shapes,
                                         const OwnedChannels& owned) {
  for (ParameterShape& shape : shapes) {
    shape.extents[0] = owned.count;
    shape.first      = owned.begin;
  }
  return shapes;
}

void require_extent(std::string_view function, std::string_view field, std::string_view what,
                    index_t is, index_t should_be) {
  if (is == should_be) return;
  throw_argument(function, {"field \"", std::string(field), "\" has ", text(is), " ",
                            std::string(what), ", the layer gives or takes ", text(should_be)});
}

void require_same_cut(std::string_view function, const Geometry& a, const Geometry& b) {
  if (a.mesh != b.mesh)
    throw_argument(function, {"fields \"", a.label, "\" and \"", b.label,
                              "\" live on different meshes; a layer's fields share a mesh"});
  for (int d = 0; d < a.rank; ++d) {
    const DimGeometry &x = a.dims[Geometry::at(d)], &y = b.dims[Geometry::at(d)];
    if (x.axis_count != y.axis_count || x.axes != y.axes)
      throw_argument(function, {"dimension ", text(d), " of \"", a.label, "\" and of \"", b.label,
                                "\" is cut over different mesh axes"});
  }
}

void require_same_partition(std::string_view function, std::string_view field, int dim,
                            const Partition& is, const Partition& should_be) {
  if (is == should_be) return;
  throw_argument(function, {"field \"", std::string(field), "\" has the partition ", is.describe(),
                            " in dimension ", text(dim), " instead of ", should_be.describe(),
                            "; make it with the layer's output_partitions, or move it"});
}

void throw_no_broadcast(std::string_view function, std::string_view values, int dim,
                        const Partition& is, const Partition& field) {
  throw_argument(function,
                 {"dimension ", text(dim), " of \"", std::string(values), "\" has the partition ",
                  is.describe(), ", the field has ", field.describe(),
                  "; values have the field's partition, or extent 1 and aren't sharded"});
}

void require_halo_for(std::string_view function, std::string_view field, int dim,
                      const Partition& inputs, const Partition& outputs, int lo, int hi,
                      bool outside_domain, Reads reads, const void* context) {
  if (inputs.parts() != outputs.parts())
    throw_argument(function,
                   {"dimension ", text(dim), " of the input \"", std::string(field), "\" has ",
                    text(inputs.parts()), " parts, that of the output ", text(outputs.parts())});
  for (int r = 0; r < inputs.parts(); ++r) {
    const IndexRange out{outputs.begin(r), outputs.end(r)};
    if (out.empty()) continue;
    IndexRange in = reads(context, out);
    if (!outside_domain) in = {std::max<index_t>(in.begin, 0), std::min(in.end, inputs.size())};
    if (in.empty()) continue;
    const index_t need_lo = inputs.begin(r) - in.begin, need_hi = in.end - inputs.end(r);
    if (need_lo > lo || need_hi > hi)
      throw_argument(
          function,
          {"part ", text(r), " of dimension ", text(dim), " reads ",
           text(std::max<index_t>(need_lo, 0)), " + ", text(std::max<index_t>(need_hi, 0)),
           " cells beyond those it owns, the halo of \"", std::string(field), "\" has ", text(lo),
           " + ", text(hi), "; give it a wider halo, or the output the layer's own partition"});
  }
}

namespace {

struct Gathering {
  Reads reads;
  const void* context;
  index_t inputs;
  LowHigh edges;
};

IndexRange gathers(const void* context, IndexRange inputs) {
  const auto& g = *static_cast<const Gathering*>(context);
  return g.reads(g.context, {inputs.begin - (inputs.begin == 0 ? g.edges.lo : 0),
                             inputs.end + (inputs.end == g.inputs ? g.edges.hi : 0)});
}

}  // namespace

void require_gathered_halo_for(std::string_view function, std::string_view field, int dim,
                               const Partition& outputs, const Partition& inputs, int lo, int hi,
                               LowHigh edges, Reads reads, const void* context) {
  const Gathering gathering{reads, context, inputs.size(), edges};
  require_halo_for(function, field, dim, outputs, inputs, lo, hi, false, gathers, &gathering);
}

bool keeps_groups_whole(const Partition& channels, index_t per_group) {
  for (int r = 1; r < channels.parts(); ++r)
    if (channels.begin(r) % per_group != 0) return false;
  return true;
}

void require_whole_groups(std::string_view function, std::string_view field,
                          const Partition& channels, index_t per_group) {
  for (int r = 1; r < channels.parts(); ++r) {
    const index_t group = channels.begin(r) / per_group;
    if (channels.begin(r) % per_group != 0)
      throw_argument(
          function,
          {"channels ", text(group * per_group), " to ", text((group + 1) * per_group - 1),
           " of \"", std::string(field), "\", group ", text(group),
           ", belong together and aren't on one part of the partition ", channels.describe(),
           "; give each part whole groups, or redistribute before it"});
  }
}

Partition regrouped(const Partition& channels, index_t from, index_t to) {
  if (from == to) return channels;
  if (channels.parts() == 1) return Partition::balanced(channels.size() / from * to, 1);
  std::vector<index_t> begins(static_cast<std::size_t>(channels.parts()) + 1);
  for (int r = 0; r <= channels.parts(); ++r)
    begins[static_cast<std::size_t>(r)] = channels.begin(r) / from * to;
  return Partition::explicit_begins(std::move(begins));
}

bool is_regrouped(const Partition& a, const Partition& b, index_t from, index_t to) {
  if (a.parts() != b.parts()) return false;
  for (int r = 0; r <= a.parts(); ++r)
    if (b.begin(r) != a.begin(r) / from * to) return false;
  return true;
}

void require_groups(std::string_view function, index_t in, index_t out, index_t groups) {
  if (groups >= 1 && in >= 1 && out >= 1 && in % groups == 0 && out % groups == 0) return;
  throw_argument(function, {text(in), " input and ", text(out),
                            " output channels can't be divided into ", text(groups), " groups"});
}

}  // namespace shard::impl
