// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "copy_builder.hpp"

#include <algorithm>
#include <array>

#include "rows.hpp"

namespace shard::impl {

namespace {

constexpr index_t short_line = 8;      // below this another dimension makes the better inner loop
constexpr index_t long_line  = 16384;  // above this a line is cut, so that threads can share it

/// One dimension of a copy: extent and strides in bytes.
struct Loop {
  index_t extent = 1, from = 0, to = 0, direct = 0;
};
using Loops = Few<Loop, max_rank>;

/// The longest loop comes first where lines are short; but short lines that are contiguous on every
/// side stay in front, with the longest loop over them next.
void choose_copy_order(Loops& loops, index_t size) {
  const auto contiguous = [&](index_t stride) { return stride == size || stride == 0; };
  const Loop& front     = loops.front();
  if (loops.size() < 2 || front.extent >= short_line) return;
  const bool stays    = front.from == size && front.to == size && contiguous(front.direct);
  Loop* const first   = loops.begin() + (stays ? 1 : 0);
  Loop* const longest = std::max_element(
      first, loops.end(), [](const Loop& x, const Loop& y) { return x.extent < y.extent; });
  std::rotate(first, longest, longest + 1);
}

/// Loops that lie one after the other in memory become one, single values none.
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

/// Whether these are a few contiguous rows that need nothing else; see CopyJob::rows. More of them
/// took longer that way than by the loop for any box.
bool are_rows(const Loops& loops, index_t size, const CopyJob& job) {
  if (loops.size() != 2 || loops[0].extent == 1 || loops[1].extent > few_rows) return false;
  constexpr index_t least_staged = 256;  // bytes: for less, the way by a cache is the longer
  const index_t row              = loops[0].extent * size;
  return (size == 4 || size == 8) && loops[0].from == size && loops[0].to == size &&
         (job.direct < 0 || loops[0].direct == size) &&
         (!job.staged || row >= long_packed_row || row * loops[1].extent < least_staged);
}

/// A field that a copy packs from, or unpacks into: its entry of the address table, and which of a
/// loop's strides are along it.
struct Side {
  using Stride = index_t Loop::*;
  int field;
  Stride stride;
};

/// Makes the jobs of one copy; overlong lines become several.
void add_copy(CopyJob job, const FieldSpec& spec, const Loops& all, Side side, CopyJobList& jobs) {
  Loops loops = merged(all, spec.value_size);
  choose_copy_order(loops, spec.value_size);
  Scattering scattered;
  if (jobs.by_lines) {
    if (is_best_by_ones(loops.size(), loops.front().extent, loops.front().*side.stride)) {
      loops.push_back({1, spec.value_size, spec.value_size, spec.value_size});
      std::rotate(loops.begin(), loops.end() - 1, loops.end());
    }
    if (loops.size() > 1)
      scattered = scattering_of(side.field, spec.value_size, loops[0].extent, loops[0].*side.stride,
                                loops[1].*side.stride);
  }
  job.value_size       = spec.value_size;
  job.dims             = static_cast<std::int8_t>(loops.size());
  const index_t length = loops.front().extent;
  for (index_t first = 0; first < length; first += long_line) {
    CopyJob piece = job;
    piece.from_offset += first * loops.front().from;
    piece.to_offset += first * loops.front().to;
    piece.direct_offset += first * loops.front().direct;
    JobNumbers numbers;
    loops.front().extent = std::min(long_line, length - first);
    for (const auto of_loop : {&Loop::extent, &Loop::from, &Loop::to})
      for (const Loop& loop : loops) numbers.push_back(loop.*of_loop);
    if (job.direct >= 0)
      for (const Loop& loop : loops) numbers.push_back(loop.direct);
    const Loop& front    = loops.front();
    const bool one_piece = loops.size() == 1 && front.from == spec.value_size &&
                           front.to == spec.value_size &&
                           (job.direct < 0 || front.direct == spec.value_size);
    if (job.negate == ValueKind::opaque) {
      if (one_piece) piece.plain = front.extent * spec.value_size;
      piece.rows = are_rows(loops, spec.value_size, job);
    }
    jobs.add(piece, numbers, scattered);
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
  job.staged      = buffer.staged;
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
           loops_of(spec, box, source.stride, packed, packed), {from, &Loop::from}, jobs);
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
  add_copy(job, spec, loops_of(spec, box, packed, target.stride, peer.stride), {to, &Loop::to},
           jobs);
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
  add_copy(job, spec, loops_of(spec, box, source.stride, target.stride, target.stride),
           {to, &Loop::to}, jobs);
}

void add_constant(const FieldSpec& spec, const PlanBox& box, BufferBox constant, int to,
                  CopyJobList& jobs) {
  const FieldBox target = target_box(spec, box, place_written(spec));
  CopyJob job;
  job.from        = constant.table;
  job.from_offset = constant.first;
  job.to          = to;
  job.to_offset   = target.first;
  add_copy(job, spec, loops_of(spec, box, {}, target.stride, {}), {to, &Loop::to}, jobs);
}

void add_touch(const FieldSpec& spec, const PlanBox& box, int from, CopyJobList& jobs) {
  const FieldBox source = source_box(spec, box, place_read(spec));
  CopyJob job;
  job.from = job.to = from;
  job.from_offset = job.to_offset = source.first;
  add_copy(job, spec, loops_of(spec, box, source.stride, source.stride, source.stride),
           {from, &Loop::from}, jobs);
}

void add_adjoint_pack(const FieldSpec& spec, const PlanBox& box, int to, BufferBox buffer,
                      int unless, CopyJobList& jobs) {
  const FieldBox target = target_box(spec, box, place_written(spec));
  const auto packed     = buffer_strides(spec, box);
  CopyJob job           = packing(to, target, buffer, unless);
  job.clear             = !spec.move;
  add_copy(job, spec, loops_of(spec, box, target.stride, packed, packed), {to, &Loop::from}, jobs);
}

}  // namespace shard::impl
