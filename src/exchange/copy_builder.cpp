// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "copy_builder.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace shard::impl {

namespace {

constexpr index_t short_line = 8;      // below this another dimension makes the better inner loop
constexpr index_t long_line  = 16384;  // above this a line is cut, so that threads can share it

/// One dimension of a copy: extent and strides in bytes.
struct Loop {
  index_t extent = 1, from = 0, to = 0, direct = 0;
};
using Loops = std::vector<Loop>;

/// Puts the longest loop first where lines are short.
void choose_copy_order(Loops& loops) {
  if (loops.size() < 2 || loops.front().extent >= short_line) return;
  const auto longest = std::max_element(
      loops.begin(), loops.end(), [](const Loop& x, const Loop& y) { return x.extent < y.extent; });
  std::rotate(loops.begin(), longest, longest + 1);
}

/// Joins loops that are contiguous in memory on every side, and leaves out those of one value.
Loops merged(const Loops& all, index_t size) {
  Loops loops;
  for (const Loop& loop : all) {
    if (loop.extent == 1) continue;
    if (!loops.empty() && loop.from == loops.back().from * loops.back().extent &&
        loop.to == loops.back().to * loops.back().extent &&
        loop.direct == loops.back().direct * loops.back().extent)
      loops.back().extent *= loop.extent;
    else
      loops.push_back(loop);
  }
  if (loops.empty()) loops.push_back({1, size, size, size});
  return loops;
}

/// Makes the jobs of one copy; overlong lines become several.
void add_copy(CopyJob job, const FieldSpec& spec, const Loops& all, CopyJobList& jobs) {
  Loops loops = merged(all, spec.value_size);
  choose_copy_order(loops);
  job.value_size       = spec.value_size;
  job.dims             = static_cast<std::int8_t>(loops.size());
  const index_t length = loops.front().extent;
  for (index_t first = 0; first < length; first += long_line) {
    CopyJob piece = job;
    piece.from_offset += first * loops.front().from;
    piece.to_offset += first * loops.front().to;
    piece.direct_offset += first * loops.front().direct;
    loops.front().extent = std::min(long_line, length - first);
    std::vector<index_t> numbers;
    for (const auto of_loop : {&Loop::extent, &Loop::from, &Loop::to})
      for (const Loop& loop : loops) numbers.push_back(loop.*of_loop);
    if (job.direct >= 0)
      for (const Loop& loop : loops) numbers.push_back(loop.direct);
    jobs.add(piece, numbers);
  }
}

/// The loops of a box in message order, with the strides of all sides.
Loops loops_of(const FieldSpec& spec, const PlanBox& box, const std::array<index_t, max_rank>& from,
               const std::array<index_t, max_rank>& to,
               const std::array<index_t, max_rank>& direct) {
  Loops loops;
  for (int k = 0; k < spec.rank; ++k) {
    const auto d = Geometry::at(message_order(spec)[Geometry::at(k)]);
    loops.push_back({box.segments[d].count, from[d], to[d], direct[d]});
  }
  return loops;
}

/// A job that packs a box of a field.
CopyJob packing(int field, const FieldBox& box, const BufferBox& buffer, int unless) {
  CopyJob job;
  job.from        = field;
  job.from_offset = box.first;
  job.to          = buffer.table;
  job.to_offset   = buffer.first;
  job.unless      = unless;
  return job;
}

}  // namespace

std::size_t run_of(const FieldSpec& spec, const PlanBox& box, const FieldPlace& read,
                   const FieldPlace& written) {
  const FieldBox source = source_box(spec, box, read), target = target_box(spec, box, written);
  const Loop front =
      merged(loops_of(spec, box, source.stride, target.stride, target.stride), spec.value_size)
          .front();
  return front.from == spec.value_size && front.to == spec.value_size
             ? static_cast<std::size_t>(front.extent * spec.value_size)
             : static_cast<std::size_t>(spec.value_size);
}

void add_pack(const FieldSpec& spec, const PlanBox& box, int from, BufferBox buffer, int unless,
              CopyJobList& jobs) {
  const FieldBox source = source_box(spec, box, place_read(spec));
  const auto packed     = buffer_strides(spec, box);
  add_copy(packing(from, source, buffer, unless), spec,
           loops_of(spec, box, source.stride, packed, packed), jobs);
}

void add_unpack(const FieldSpec& spec, const PlanBox& box, BufferBox buffer, DirectBox direct,
                int to, CopyJobList& jobs) {
  const FieldBox target = target_box(spec, box, place_written(spec));
  const auto packed     = buffer_strides(spec, box);
  CopyJob job;
  job.from        = buffer.table;
  job.from_offset = buffer.first;
  job.to          = to;
  job.to_offset   = target.first;
  if (box.odd) job.negate = spec.kind;
  FieldBox peer{0, packed};
  if (direct.table >= 0) {
    peer              = source_box(spec, box, *direct.place);
    job.direct        = direct.table;
    job.direct_offset = peer.first;
  }
  add_copy(job, spec, loops_of(spec, box, packed, target.stride, peer.stride), jobs);
}

void add_local(const FieldSpec& spec, const PlanBox& box, int from, int to, CopyJobList& jobs) {
  const FieldBox source = source_box(spec, box, place_read(spec)),
                 target = target_box(spec, box, place_written(spec));
  CopyJob job;
  job.from        = from;
  job.from_offset = source.first;
  job.to          = to;
  job.to_offset   = target.first;
  if (box.odd) job.negate = spec.kind;
  add_copy(job, spec, loops_of(spec, box, source.stride, target.stride, target.stride), jobs);
}

void add_constant(const FieldSpec& spec, const PlanBox& box, BufferBox constant, int to,
                  CopyJobList& jobs) {
  const FieldBox target = target_box(spec, box, place_written(spec));
  CopyJob job;
  job.from        = constant.table;
  job.from_offset = constant.first;
  job.to          = to;
  job.to_offset   = target.first;
  add_copy(job, spec, loops_of(spec, box, {}, target.stride, {}), jobs);
}

void add_touch(const FieldSpec& spec, const PlanBox& box, int from, CopyJobList& jobs) {
  const FieldBox source = source_box(spec, box, place_read(spec));
  CopyJob job;
  job.from = job.to = from;
  job.from_offset = job.to_offset = source.first;
  add_copy(job, spec, loops_of(spec, box, source.stride, source.stride, source.stride), jobs);
}

void add_adjoint_pack(const FieldSpec& spec, const PlanBox& box, int to, BufferBox buffer,
                      int unless, CopyJobList& jobs) {
  const FieldBox target = target_box(spec, box, place_written(spec));
  const auto packed     = buffer_strides(spec, box);
  CopyJob job           = packing(to, target, buffer, unless);
  job.clear             = !spec.move;
  add_copy(job, spec, loops_of(spec, box, target.stride, packed, packed), jobs);
}

}  // namespace shard::impl
