// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/exchange/impl/field_spec.hpp"

#include "shard/base/error.hpp"
#include "shard/view/impl/index_halo.hpp"

namespace shard::impl {

namespace {

template <class T>
void mix(std::uint64_t& hash, const T& value) {
  hash = hash_bytes(&value, sizeof(value), hash);
}

}  // namespace

std::string FieldSpec::describe() const {
  std::string words =
      "(value kind " + text(static_cast<index_t>(kind)) + " of " + text(value_size) + " bytes";
  if (left) words += ", LayoutLeft";
  if (part == HaloPart::faces) words += ", faces only";
  if (route == RouteKind::renewal) words += ", outside the domain only";
  if (part == HaloPart::inside) words += ", inside the domain only";
  if (part == HaloPart::edges) words += ", the edges of the domain only";
  if (part == HaloPart::corners_x) words += ", tiles' corners along x";
  if (part == HaloPart::corners_y) words += ", tiles' corners along y";
  if (component != 0)
    words += std::string(", component of ") + (is_signed ? "a vector" : "lengths");
  words += ")";
  for (int d = 0; d < rank; ++d) {
    const DimSpec& dim = dims[Geometry::at(d)];
    words += " [" + dim.to.describe();
    if (route == RouteKind::move) words += " from " + dim.from.describe();
    if (dim.lo != 0 || dim.hi != 0)
      words += (route == RouteKind::move ? ", padded by " : ", halo ") + text(dim.lo) + "+" +
               text(dim.hi) + ", " + text(dim.low) + "/" + text(dim.high);
    if (dim.layers > 0) words += ", " + text(dim.layers) + " layers";
    if (dim.ranges)
      words += ", " + text(static_cast<index_t>(dim.ranges->list.size())) + " ranges of indices, " +
               std::to_string(dim.ranges->hash);
    for (int a = 0; a < dim.axis_count; ++a) words += ", axis " + text(dim.axes[Geometry::at(a)]);
    words += "]";
  }
  return words;
}

std::string describe(const std::vector<FieldSpec>& fields) {
  std::string words = text(static_cast<index_t>(fields.size())) + " fields";
  for (std::size_t f = 0; f < fields.size();) {
    const std::string one = fields[f].describe();
    std::size_t equal     = 1;
    while (f + equal < fields.size() && fields[f + equal].describe() == one) ++equal;
    words += "; ";
    if (equal > 1) words += text(static_cast<index_t>(equal)) + " times ";
    words += one;
    f += equal;
  }
  return words;
}

FieldSpec exchange_spec(const Geometry& geometry, const DimType* types, ValueKind kind,
                        int value_size, bool left, const index_t* stride) {
  FieldSpec spec;
  spec.label      = geometry.label;
  spec.kind       = kind;
  spec.value_size = value_size;
  spec.left       = left;
  spec.rank       = geometry.rank;
  for (int d = 0; d < geometry.rank; ++d) {
    const auto i           = Geometry::at(d);
    const DimGeometry& dim = geometry.dims[i];
    spec.dims[i] = {dim.partition, dim.partition, dim.coordinate, dim.axes,     dim.axis_count,
                    types[d].lo,   types[d].hi,   types[d].low,   types[d].high};
    if (types[d].indices != nullptr)
      spec.dims[i].layers = static_cast<int>(dim.partition.index_halo()->layer_end.size()) - 1;
    spec.dims[i].copies = types[d].hi > 0 && shares_row(types[d].high.kind);
    spec.from_stride[i] = spec.to_stride[i] = stride[d];
  }
  return spec;
}

FieldSpec move_spec(const char* function, FieldSpec to, const Geometry& from,
                    const index_t* from_stride, const Reindexing* dims) {
  to.route = RouteKind::move;
  for (int d = 0; d < to.rank; ++d) {
    DimSpec& dim = to.dims[Geometry::at(d)];
    if (dims[d].is_identity() && from.global(d) != dim.to.size())
      throw_argument(function,
                     {"dimension ", text(d), " has ", text(from.global(d)), " elements in \"",
                      from.label, "\" and ", text(dim.to.size()), " in the field it is moved to"});
    dim.from                        = from.dims[Geometry::at(d)].partition;
    dim.lo                          = dims[d].lo;
    dim.hi                          = dims[d].hi;
    dim.low                         = dims[d].low;
    dim.high                        = dims[d].high;
    dim.ranges                      = dims[d].ranges;
    dim.layers                      = 0;
    dim.copies                      = false;
    to.from_stride[Geometry::at(d)] = from_stride[d];
  }
  return to;
}

void throw_no_exchange() {
  throw_argument("Exchange",
                 {"this exchange was made by default: it has no fields; assign one that "
                  "was made for some"});
}

void throw_other_memory(const char* function, const std::string& label) {
  throw_argument(function,
                 {"field \"", label,
                  "\" isn't in the memory for which the exchange was made, and none of its fields "
                  "of that type is; after a swap pass `halos.of(fields...)`, else give one of the "
                  "exchange's own fields as the region"});
}

void require_count(const char* function, std::size_t made_for, std::size_t given) {
  if (given != made_for)
    throw_argument(
        function,
        {text(static_cast<index_t>(given)), " fields are given, and the plan was made for ",
         text(static_cast<index_t>(made_for)), "; make another ", function, " for them"});
}

MeshState& common_mesh(const Geometry* const* fields, int count) {
  for (int f = 1; f < count; ++f)
    if (fields[f]->mesh != fields[0]->mesh)
      throw_argument("Exchange",
                     {"field \"", fields[f]->label,
                      "\" lives on another mesh; the fields of one exchange share a mesh"});
  return *fields[0]->mesh;
}

namespace {

[[noreturn]] void refuse(const char* function, const FieldSpec& spec, const Geometry& is, int d,
                         const std::string& has, const std::string& made_for) {
  throw_argument(function, {"field \"", is.label, "\" ", has, " in dimension ", text(d),
                            "; the plan was made for \"", spec.label, "\" with ", made_for,
                            "; make another ", function, " for it"});
}

}  // namespace

bool require_same_extents(const char* function, const FieldSpec& spec, const FieldArgs& field) {
  const Geometry& is = *field.geometry;
  const auto cells   = [](index_t world, index_t here) {
    return text(world) + " elements, " + text(here) + " of them on this rank,";
  };
  for (int d = 0; d < spec.rank; ++d) {
    const DimSpec& dim = spec.dims[Geometry::at(d)];
    const index_t here = dim.from.count(dim.coordinate);
    if (is.global(d) != dim.from.size() || is.owned(d) != here)
      refuse(function, spec, is, d, "has " + cells(is.global(d), is.owned(d)),
             text(dim.from.size()) + ", " + text(here) + " of them here");
  }
  for (int d = 0; d < spec.rank; ++d) {
    const DimSpec& dim  = spec.dims[Geometry::at(d)];
    const index_t begin = dim.from.begin(dim.coordinate);
    if (is.begin(d) != begin)
      refuse(function, spec, is, d,
             "owns on this rank the indices from " + text(is.begin(d)) + " on",
             "those from " + text(begin) + " on");
    if (!dim.from.same_space(is.dims[Geometry::at(d)].partition))
      refuse(function, spec, is, d, "is over another index space, though of the same type,",
             "its own");
  }
  return field.stride == spec.from_stride;
}

void require_served(const char* function, const FieldSpec& spec, const FieldArgs& field) {
  if (require_same_extents(function, spec, field)) return;
  for (int d = 0; d < spec.rank; ++d) {
    const auto i = Geometry::at(d);
    if (field.stride[i] != spec.from_stride[i])
      refuse(function, spec, *field.geometry, d,
             "has a stride of " + text(field.stride[i]) + " values",
             "one of " + text(spec.from_stride[i]));
  }
}

void add_to_key(PlanKey& key, const Geometry& geometry, const DimType* types, ValueKind kind,
                int value_size, const index_t* stride) {
  for (std::uint64_t* hash : {&key.a, &key.b}) {
    mix(*hash, kind);
    mix(*hash, value_size);
    mix(*hash, geometry.rank);
    for (int d = 0; d < geometry.rank; ++d) {
      const DimGeometry& dim = geometry.dims[Geometry::at(d)];
      *hash                  = dim.partition.hash(*hash);
      mix(*hash, types[d].lo);
      mix(*hash, types[d].hi);
      mix(*hash, types[d].indices != nullptr);
      *hash = hash_boundary(types[d].low, *hash);
      *hash = hash_boundary(types[d].high, *hash);
      mix(*hash, dim.axes);
      mix(*hash, dim.axis_count);
      mix(*hash, stride[d]);
    }
  }
}

}  // namespace shard::impl
