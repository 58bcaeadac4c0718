// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_JOB_BOXES_HPP
#define SHARD_SRC_EXCHANGE_JOB_BOXES_HPP

#include <array>
#include <cstddef>

#include "job_list.hpp"
#include "shard/exchange/plan_spec.hpp"

namespace shard::impl {

/// A box as a message or buffer holds it: values one after the other, the layout's fastest
/// dimension first.
struct BufferBox {
  int table     = 0;  ///< entry of the address table
  index_t first = 0;  ///< bytes from the start of the buffer
};

/// How a field lies in a rank's memory: global index of the first owned cell, and strides in
/// values.
struct FieldPlace {
  std::array<index_t, max_rank> begin{}, stride{};
};

/// A peer's own field, from which a box can be read where the peer offers it.
struct DirectBox {
  int table               = -1;  ///< entry of the address table; -1: never
  const FieldPlace* place = nullptr;
};

/// This rank's fields: the one that is read, and the one that is written.
FieldPlace place_read(const FieldSpec& spec);
FieldPlace place_written(const FieldSpec& spec);

/// A box within a field on this rank: bytes from the first owned cell to the box's first cell, and
/// strides along the box.
struct FieldBox {
  index_t first = 0;
  std::array<index_t, max_rank> stride{};
};

/// What is read of a box, in the field at `place`; and what is written.
FieldBox source_box(const FieldSpec& spec, const PlanBox& box, const FieldPlace& place);
FieldBox target_box(const FieldSpec& spec, const PlanBox& box, const FieldPlace& place);

/// Dimensions from the fastest in messages to the slowest.
inline std::array<int, max_rank> message_order(const FieldSpec& spec) {
  std::array<int, max_rank> order{};
  for (int k = 0; k < spec.rank; ++k) order[Geometry::at(k)] = spec.left ? k : spec.rank - 1 - k;
  return order;
}

/// Strides in bytes of a box in a buffer, by dimension of the field.
std::array<index_t, max_rank> buffer_strides(const FieldSpec& spec, const PlanBox& box);

/// Number of values of a box.
index_t cells_of(const FieldSpec& spec, const PlanBox& box);

}  // namespace shard::impl

#endif
