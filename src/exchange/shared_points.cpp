// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/exchange/impl/shared_points.hpp"

#include <array>

#include "shard/base/error.hpp"

namespace shard::impl {

namespace {

/// A dimension of two fields: a's index less b's is in [low, high].
struct Steps {
  index_t stride, low, high;
};
/// Whether offset is a sum of such steps, of dimensions by descending strides. For nested strides
/// two steps are possible in each.
bool is_within(const Steps* dims, int count, index_t offset) {
  if (count == 0) return offset == 0;
  index_t step = offset / dims->stride;
  if (offset % dims->stride != 0 && offset < 0) --step;
  for (const index_t s : {step, step + 1})
    if (s >= dims->low && s <= dims->high &&
        is_within(dims + 1, count - 1, offset - s * dims->stride))
      return true;
  return false;
}

}  // namespace

bool share_points(const FieldArgs& a, const void* a_origin, const FieldArgs& b,
                  const void* b_origin) {
  if (a.geometry == b.geometry) return true;  // one field, on ranks without points too
  const int rank = a.geometry->rank;
  if (rank != b.geometry->rank || a.value_size != b.value_size) return a_origin == b_origin;
  for (int d = 0; d < rank; ++d)
    if (a.geometry->owned(d) == 0 || b.geometry->owned(d) == 0) return false;
  const auto bytes = static_cast<const char*>(b_origin) - static_cast<const char*>(a_origin);
  if (a.stride != b.stride || bytes % a.value_size != 0) return a_origin == b_origin;
  std::array<Steps, max_rank> dims{};  // by descending strides
  int count = 0;
  for (int d = 0; d < rank; ++d) {
    const index_t m = a.geometry->owned(d), n = b.geometry->owned(d);
    if (m == 1 && n == 1) continue;
    const Steps steps{a.stride[Geometry::at(d)], 1 - n, m - 1};
    int at = count++;
    for (; at > 0 && dims[Geometry::at(at - 1)].stride < steps.stride; --at)
      dims[Geometry::at(at)] = dims[Geometry::at(at - 1)];
    dims[Geometry::at(at)] = steps;
  }
  return is_within(dims.data(), count, bytes / a.value_size);
}

void throw_shared(std::string_view function, const Geometry& to, const Geometry& from) {
  throw_argument(function, {"the output \"", to.label, "\" has memory of the input \"", from.label,
                            "\"; give another field"});
}

}  // namespace shard::impl
