// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_JOB_BUILDER_HPP
#define SHARD_SRC_EXCHANGE_JOB_BUILDER_HPP

#include <cstddef>
#include <vector>

#include "shard/exchange/jobs.hpp"
#include "shard/exchange/plan_spec.hpp"

namespace shard::impl {

/// A box as a message or buffer holds it: values one after the other, the layout's fastest
/// dimension first.
struct BufferBox {
  int table     = 0;  ///< entry of the address table
  index_t first = 0;  ///< bytes from the start of the buffer
};

/// Number of values of a box.
index_t cells_of(const FieldSpec& spec, const PlanBox& box);

/// Jobs that copy a box: from the field that is read into a buffer; from a buffer into the cells
/// that are wanted; from field to field; a constant (one value at `constant`) into the wanted
/// cells; and for the transpose from the wanted cells into a buffer. `from` and `to` are the
/// fields' entries of the address table.
void add_pack(const FieldSpec& spec, const PlanBox& box, int from, BufferBox buffer,
              std::vector<CopyJob>& jobs);
void add_unpack(const FieldSpec& spec, const PlanBox& box, BufferBox buffer, int to,
                std::vector<CopyJob>& jobs);
void add_local(const FieldSpec& spec, const PlanBox& box, int from, int to,
               std::vector<CopyJob>& jobs);
void add_constant(const FieldSpec& spec, const PlanBox& box, BufferBox constant, int to,
                  std::vector<CopyJob>& jobs);
void add_adjoint_pack(const FieldSpec& spec, const PlanBox& box, int to, BufferBox buffer,
                      std::vector<CopyJob>& jobs);

/// A box of the field that is read, and the buffer that holds what is to be added to it.
struct Contribution {
  const PlanBox* box = nullptr;
  BufferBox buffer;
};

/// Cuts the cells that the contributions cover into disjoint jobs, each with its summands in the
/// order of `contributions`.
void add_sums(const FieldSpec& spec, const std::vector<Contribution>& contributions, int from,
              std::vector<SumJob>& jobs, std::vector<SumSource>& sources);

}  // namespace shard::impl

#endif
