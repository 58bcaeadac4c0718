// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/view/impl/same_points.hpp"

#include <string>

#include "shard/base/error.hpp"
#include "shard/view/impl/index_halo.hpp"

namespace shard::impl {

namespace {

/// Whether each rank owns as many elements in both: the same answer on every rank.
bool same_counts(const Partition& a, const Partition& b) {
  if (a.parts() != b.parts() || a.size() != b.size()) return false;
  for (int r = 1; r < a.parts(); ++r)
    if (a.begin(r) != b.begin(r)) return false;
  return true;
}

bool same_owned(const Partition& a, const Partition& b) {
  const IndexHalo *x = a.index_halo(), *y = b.index_halo();
  if (x == nullptr || y == nullptr) return a == b;
  if (x == y) return true;
  return x->space == y->space && same_counts(a, b) &&
         (x->elements == y->elements || x->elements == 0 || y->elements == 0);
}

/// How two partitions differ, for messages.
std::string difference(const Partition& a, const Partition& b, const std::string& of_b) {
  if (same_counts(a, b)) return " has other elements, or in another order, than " + of_b;
  return " has the partition " + a.describe() + ", and " + of_b + " is " + b.describe();
}

}  // namespace

void require_owned(std::string_view function, const Geometry& field, int d,
                   const Partition& wanted) {
  const Partition& has = field.dims[Geometry::at(d)].partition;
  if (!same_owned(has, wanted))
    throw_argument(function,
                   {"dimension ", text(d), " of \"", field.label, "\"",
                    difference(has, wanted, "the one that is needed"), "; redistribute it"});
}

void require_same_points(std::string_view function, const Geometry& a, const Geometry& b) {
  if (a.mesh != b.mesh)
    throw_argument(function, {"\"", a.label, "\" and \"", b.label,
                              "\" are on different meshes; they must share a mesh"});
  for (int d = 0; d < a.rank; ++d) {
    const DimGeometry &x = a.dims[Geometry::at(d)], &y = b.dims[Geometry::at(d)];
    if (x.axis_count != y.axis_count || x.axes != y.axes)
      throw_argument(function, {"dimension ", text(d), " of \"", a.label, "\" and of \"", b.label,
                                "\" is sharded over different mesh axes"});
    if (!same_owned(x.partition, y.partition))
      throw_argument(function, {"dimension ", text(d), " of \"", a.label, "\"",
                                difference(x.partition, y.partition, "that of \"" + b.label + "\""),
                                "; redistribute one of them"});
  }
}

}  // namespace shard::impl
