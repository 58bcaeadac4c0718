// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/mesh/partition_spec.hpp"

#include <algorithm>

#include "literal.hpp"
#include "shard/base/error.hpp"

namespace shard {

namespace {

using impl::Literal;

std::string axis_text(const SpecAxis& axis) {
  return axis.named() ? impl::quoted(axis.name()) : impl::text(axis.index());
}

SpecAxis axis_from(const Literal& value, std::string_view words) {
  if (value.kind == Literal::Kind::integer) return {value.i};
  if (value.kind == Literal::Kind::string) return {value.s};
  const char* what = "PartitionSpec::from_text";
  if (value.kind == Literal::Kind::list)
    impl::throw_argument(what, {"a partition spec cannot contain nested tuples, got \"",
                                impl::text(words), "\"; name the axes in one tuple"});
  if (value.kind == Literal::Kind::none)
    impl::throw_argument(what, {"there is None within a tuple in \"", impl::text(words),
                                "\"; leave it out, or let it stand for a dimension"});
  impl::throw_argument(
      what, {"spec type ",
             value.kind == Literal::Kind::boolean ? "bool"
             : value.kind == Literal::Kind::real  ? "float"
                                                  : "dict",
             " (", value.s, ") is not supported in a partition spec, got \"", impl::text(words),
             "\"; an entry is None, an axis' position or name, or a tuple of these"});
}

SpecEntry entry_from(const Literal& value, std::string_view words) {
  if (value.kind == Literal::Kind::none) return none;
  if (value.kind != Literal::Kind::list) return axis_from(value, words);
  std::vector<SpecAxis> axes;
  for (const Literal& item : value.items) axes.push_back(axis_from(item, words));
  return SpecEntry(std::move(axes));
}

}  // namespace

std::string PartitionSpec::text() const {
  std::string words = "(";
  for (const SpecEntry& entry : entries_) {
    if (words.size() > 1) words += ", ";
    if (entry.is_none()) {
      words += "None";
    } else if (entry.axes().size() == 1) {
      words += axis_text(entry.axes().front());
    } else {
      std::string inner;
      for (const SpecAxis& axis : entry.axes())
        inner += (inner.empty() ? "" : ", ") + axis_text(axis);
      words += "(" + inner + ")";
    }
  }
  return words + (entries_.size() == 1 ? ",)" : ")");
}

PartitionSpec PartitionSpec::from_text(std::string_view words) {
  const auto value = impl::parse_literal(words);
  if (!value)
    impl::throw_argument("PartitionSpec::from_text",
                         {"\"", impl::text(words),
                          "\" isn't a partition spec; write it like (0, None, ('lat', 'lon'))"});
  std::vector<SpecEntry> entries;
  if (value->kind == Literal::Kind::list)
    for (const Literal& item : value->items) entries.push_back(entry_from(item, words));
  else
    entries.push_back(entry_from(*value, words));
  return PartitionSpec(std::move(entries));
}

namespace impl {

namespace {

int resolve(const SpecAxis& axis, const PartitionSpec& spec, int mesh_rank,
            const std::vector<std::string>& names) {
  if (!axis.named()) {
    if (axis.index() < 0 || axis.index() >= mesh_rank)
      throw_argument("PartitionSpec",
                     {"the partition spec ", spec.text(),
                      " contains an out of bound index into mesh_shape, which has ",
                      text(mesh_rank), " axes: positions are 0 to ", text(mesh_rank - 1)});
    return axis.index();
  }
  if (names.empty())
    throw_argument("PartitionSpec",
                   {"the partition spec ", spec.text(),
                    " names axes and the mesh has no axis names; give the mesh names, or the spec "
                    "positions"});
  const auto found = std::find(names.begin(), names.end(), axis.name());
  if (found == names.end()) {
    std::string known;
    for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
    throw_argument("PartitionSpec", {"axis name ", axis.name(),
                                     " is not defined in the given mesh, whose axes are ", known});
  }
  return static_cast<int>(found - names.begin());
}

}  // namespace

ResolvedSpec resolve(const PartitionSpec& spec, int mesh_rank,
                     const std::vector<std::string>& names) {
  ResolvedSpec resolved;
  for (const SpecEntry& entry : spec.entries()) {
    for (const SpecAxis& axis : entry.axes())
      resolved.axes.push_back(resolve(axis, spec, mesh_rank, names));
    resolved.counts.push_back(static_cast<int>(entry.axes().size()));
  }
  std::vector<int> sorted = resolved.axes;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    throw_argument("PartitionSpec",
                   {"each device mesh dimension should appear at most once in partition_spec ",
                    spec.text(), ", and ", text(*twice), " appears more often"});
  return resolved;
}

}  // namespace impl
}  // namespace shard
