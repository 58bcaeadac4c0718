// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "job_boxes.hpp"

namespace shard::impl {

std::array<index_t, max_rank> buffer_strides(const FieldSpec& spec, const PlanBox& box) {
  std::array<index_t, max_rank> strides{};
  index_t stride = spec.value_size;
  for (int k = 0; k < spec.rank; ++k) {
    const int d              = message_order(spec)[Geometry::at(k)];
    strides[Geometry::at(d)] = stride;
    stride *= box.segments[Geometry::at(d)].count;
  }
  return strides;
}

FieldBox source_box(const FieldSpec& spec, const PlanBox& box, const FieldPlace& place) {
  FieldBox f;
  for (int d = 0; d < spec.rank; ++d) {
    const auto i         = Geometry::at(d);
    const Segment& s     = box.segments[i];
    const index_t stride = place.stride[i] * spec.value_size;
    f.first += (s.source - place.begin[i]) * stride;
    f.stride[i] = s.step * stride;
  }
  return f;
}

FieldBox target_box(const FieldSpec& spec, const PlanBox& box, const FieldPlace& place) {
  FieldBox f;
  for (int d = 0; d < spec.rank; ++d) {
    const auto i = Geometry::at(d);
    f.stride[i]  = place.stride[i] * spec.value_size;
    f.first += (box.segments[i].target - place.begin[i]) * f.stride[i];
  }
  return f;
}

FieldPlace place_read(const FieldSpec& spec) {
  FieldPlace place{{}, spec.from_stride};
  for (int d = 0; d < spec.rank; ++d) {
    const DimSpec& dim           = spec.dims[Geometry::at(d)];
    place.begin[Geometry::at(d)] = dim.from.begin(dim.coordinate);
  }
  return place;
}

FieldPlace place_written(const FieldSpec& spec) {
  FieldPlace place{{}, spec.to_stride};
  for (int d = 0; d < spec.rank; ++d) {
    const DimSpec& dim           = spec.dims[Geometry::at(d)];
    place.begin[Geometry::at(d)] = dim.to.begin(dim.coordinate);
  }
  return place;
}

index_t cells_of(const FieldSpec& spec, const PlanBox& box) {
  index_t n = 1;
  for (int d = 0; d < spec.rank; ++d) n *= box.segments[Geometry::at(d)].count;
  return n;
}

}  // namespace shard::impl
