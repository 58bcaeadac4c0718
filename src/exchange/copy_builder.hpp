// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_COPY_BUILDER_HPP
#define SHARD_SRC_EXCHANGE_COPY_BUILDER_HPP

#include <cstddef>

#include "job_boxes.hpp"
#include "job_list.hpp"

namespace shard::impl {

/// Bytes that lie one after the other both where a box is read and where it is written.
std::size_t run_of(const FieldSpec& spec, const PlanBox& box, const FieldPlace& read,
                   const FieldPlace& written);

/// Jobs that copy a box: from the field that is read into a buffer; from a buffer into the cells
/// that are wanted; from field to field; a constant (one value at `constant`) into the wanted
/// cells; and for the transpose from the wanted cells into a buffer. `from` and `to` are the
/// fields' entries of the address table; where that of `unless` isn't null nothing is copied.
void add_pack(const FieldSpec& spec, const PlanBox& box, int from, BufferBox buffer, int unless,
              CopyJobList& jobs);
void add_unpack(const FieldSpec& spec, const PlanBox& box, BufferBox buffer, DirectBox direct,
                int to, CopyJobList& jobs);
void add_local(const FieldSpec& spec, const PlanBox& box, int from, int to, CopyJobList& jobs);
void add_constant(const FieldSpec& spec, const PlanBox& box, BufferBox constant, int to,
                  CopyJobList& jobs);
/// What writes again the cells of a box that are read, as they are: a field at work between two
/// exchanges.
void add_touch(const FieldSpec& spec, const PlanBox& box, int from, CopyJobList& jobs);
void add_adjoint_pack(const FieldSpec& spec, const PlanBox& box, int to, BufferBox buffer,
                      int unless, CopyJobList& jobs);

}  // namespace shard::impl

#endif
