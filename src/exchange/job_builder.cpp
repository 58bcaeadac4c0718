// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "job_builder.hpp"

#include <algorithm>
#include <array>

#include "few.hpp"

namespace shard::impl {

namespace {

constexpr index_t short_line = 8;      // below this another dimension makes the better inner loop
constexpr index_t long_line  = 16384;  // above this a line is cut, so that threads can share it

/// One dimension of a copy: extent and strides in bytes.
struct Loop {
  index_t extent = 1, from = 0, to = 0, direct = 0;
};
using Loops = Few<Loop, max_rank>;
/// Extents, and strides on up to three sides.
using Numbers = Few<index_t, std::size_t{4} * max_rank>;

/// Dimensions from the fastest in messages to the slowest.
std::array<int, max_rank> message_order(const FieldSpec& spec) {
  std::array<int, max_rank> order{};
  for (int k = 0; k < spec.rank; ++k) order[Geometry::at(k)] = spec.left ? k : spec.rank - 1 - k;
  return order;
}

/// Strides in bytes of a box in a buffer, by dimension of the field.
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

/// A box within a field on this rank: bytes from the first owned cell to the box's first cell, and
/// strides along the box.
struct FieldBox {
  index_t first = 0;
  std::array<index_t, max_rank> stride{};
};

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

constexpr index_t cache_line = 64;  // bytes

/// How a job is scattered over a field whose first two loops have these extents and strides.
Scattering scattering_of(int field, index_t size, index_t extent, index_t stride, index_t next) {
  constexpr index_t sides = 4;  // both edges and both halos, which lie beside each other
  const bool one_run      = stride == size || extent == 1;
  if (one_run && sides * extent * size > cache_line) return {};
  if (std::abs(one_run ? next : stride) < cache_line) return {};
  return {field, one_run ? 1 : extent};
}

/// Whether a loop over single values is better one over lines of one: a work item may have any
/// number of those.
bool is_best_by_ones(std::size_t loops, index_t extent, index_t stride) {
  return std::abs(stride) >= cache_line && extent > lines_at_once && loops < max_rank;
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
    Numbers numbers;
    loops.front().extent = std::min(long_line, length - first);
    for (const auto of_loop : {&Loop::extent, &Loop::from, &Loop::to})
      for (const Loop& loop : loops) numbers.push_back(loop.*of_loop);
    if (job.direct >= 0)
      for (const Loop& loop : loops) numbers.push_back(loop.direct);
    const Loop& front    = loops.front();
    const bool one_piece = loops.size() == 1 && front.from == spec.value_size &&
                           front.to == spec.value_size &&
                           (job.direct < 0 || front.direct == spec.value_size);
    if (one_piece && job.negate == ValueKind::opaque) piece.plain = front.extent * spec.value_size;
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

}  // namespace

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

index_t cells_of(const FieldSpec& spec, const PlanBox& box) {
  index_t n = 1;
  for (int d = 0; d < spec.rank; ++d) n *= box.segments[Geometry::at(d)].count;
  return n;
}

void add_pack(const FieldSpec& spec, const PlanBox& box, int from, BufferBox buffer, int unless,
              CopyJobList& jobs) {
  const FieldBox source = source_box(spec, box, place_read(spec));
  const auto packed     = buffer_strides(spec, box);
  CopyJob job;
  job.from        = from;
  job.from_offset = source.first;
  job.to          = buffer.table;
  job.to_offset   = buffer.first;
  job.unless      = unless;
  job.staged      = buffer.staged;
  add_copy(job, spec, loops_of(spec, box, source.stride, packed, packed), {from, &Loop::from},
           jobs);
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
  CopyJob job;
  job.from        = to;
  job.from_offset = target.first;
  job.to          = buffer.table;
  job.to_offset   = buffer.first;
  job.unless      = unless;
  job.clear       = !spec.move;
  job.staged      = buffer.staged;
  add_copy(job, spec, loops_of(spec, box, target.stride, packed, packed), {to, &Loop::from}, jobs);
}

namespace {

/// A contribution as seen from the owned cells: the interval it covers along each dimension, and
/// how its buffer runs along them.
struct Covering {
  int table = 0, direct_table = -1;
  bool odd = false, remote = false, down = false, from_middle = false, local = false;
  index_t first        = 0;  // bytes in the buffer of the summand of the lowest cell
  index_t direct_first = 0;
  std::array<index_t, max_rank> begin{}, end{}, stride{}, direct_stride{};
};

/// Whether the wanted cells lie in the halo before the owned ones in memory: by the fastest
/// dimension in which they lie in a halo.
bool is_below(const FieldSpec& spec, const PlanBox& box, const FieldPlace& place) {
  for (int k = 0; k < spec.rank; ++k) {
    const auto d = Geometry::at(message_order(spec)[Geometry::at(k)]);
    if (box.segments[d].halo) return box.segments[d].target < place.begin[d];
  }
  return false;
}

Covering covering_of(const FieldSpec& spec, const Contribution& contribution) {
  const PlanBox& box                          = *contribution.box;
  const std::array<index_t, max_rank> strides = buffer_strides(spec, box);
  const bool direct                           = contribution.direct.table >= 0;
  const FieldBox peer =
      direct ? target_box(spec, box, *contribution.direct.place) : FieldBox{0, strides};
  Covering c;
  c.table        = contribution.buffer.table;
  c.direct_table = contribution.direct.table;
  c.odd          = box.odd;
  c.remote       = contribution.buffer.remote;
  c.local        = contribution.local;
  c.first        = contribution.buffer.first;
  c.direct_first = peer.first;
  c.from_middle  = contribution.direct.from_middle;
  if (direct) c.down = is_below(spec, box, *contribution.direct.place);
  for (int d = 0; d < spec.rank; ++d) {
    const auto i     = Geometry::at(d);
    const Segment& s = box.segments[i];
    const bool back  = s.step < 0;
    c.begin[i] =
        s.source - (back ? s.count - 1 : 0) - spec.dims[i].from.begin(spec.dims[i].coordinate);
    c.end[i]           = c.begin[i] + s.count;
    c.stride[i]        = back ? -strides[i] : strides[i];
    c.direct_stride[i] = back ? -peer.stride[i] : peer.stride[i];
    if (back) {
      c.first += (s.count - 1) * strides[i];
      c.direct_first += (s.count - 1) * peer.stride[i];
    }
  }
  return c;
}

/// Cuts dimension after dimension at the ends of the intervals that still cover the piece.
class Cutter {
 public:
  Cutter(const FieldSpec& spec, int from, SumJobList& list, SumJobList& local)
      : spec_(spec), from_(from), list_(list), local_(local) {}

  void cut(int d, const std::vector<const Covering*>& active) {
    if (d == spec_.rank) {
      const bool local =
          std::all_of(active.begin(), active.end(), [](const Covering* c) { return c->local; });
      emit(active, local ? local_ : list_);
      return;
    }
    const auto i = Geometry::at(d);
    std::vector<index_t> ends;
    for (const Covering* c : active) ends.insert(ends.end(), {c->begin[i], c->end[i]});
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    for (std::size_t k = 0; k + 1 < ends.size(); ++k) {
      begin_[i]  = ends[k];
      extent_[i] = ends[k + 1] - ends[k];
      std::vector<const Covering*> here;
      for (const Covering* c : active)
        if (c->begin[i] <= ends[k] && c->end[i] >= ends[k + 1]) here.push_back(c);
      if (!here.empty()) cut(d + 1, here);
    }
  }

 private:
  /// A loop over one dimension, or over several that lie one after the other on every side.
  struct SumLoop {
    std::size_t dim = 0;  // the fastest of them, whose strides the loop has
    index_t extent  = 1;
  };
  using SumLoops = Few<SumLoop, max_rank>;

  SumLoops loops_over(const std::vector<const Covering*>& active) const {
    SumLoops loops;
    for (int k = 0; k < spec_.rank; ++k) {
      const auto d = Geometry::at(message_order(spec_)[Geometry::at(k)]);
      if (extent_[d] == 1) continue;
      const auto follows = [&](const std::array<index_t, max_rank>& stride) {
        return stride[d] == stride[loops.back().dim] * loops.back().extent;
      };
      if (!loops.empty() && follows(spec_.from_stride) &&
          std::all_of(active.begin(), active.end(), [&](const Covering* c) {
            return follows(c->stride) && (c->direct_table < 0 || follows(c->direct_stride));
          }))
        loops.back().extent *= extent_[d];
      else
        loops.push_back({d, extent_[d]});
    }
    if (loops.empty()) loops.push_back({Geometry::at(message_order(spec_)[0])});
    // the second one's lines are summed at a stretch
    const auto longest =
        std::max_element(loops.begin() + 1, loops.end(),
                         [](const SumLoop& a, const SumLoop& b) { return a.extent < b.extent; });
    if (longest != loops.end()) std::rotate(loops.begin() + 1, longest, longest + 1);
    if (list_.by_lines &&
        is_best_by_ones(loops.size(), loops.front().extent, stride_of(loops.front()))) {
      loops.push_back({loops.front().dim});
      std::rotate(loops.begin(), loops.end() - 1, loops.end());
    }
    return loops;
  }

  index_t stride_of(const SumLoop& loop) const {
    return spec_.from_stride[loop.dim] * spec_.value_size;
  }

  void emit(const std::vector<const Covering*>& active, SumJobList& list) const {
    const SumLoops loops = loops_over(active);
    SumJob job;
    job.to           = from_;
    job.kind         = spec_.kind;
    job.value_size   = spec_.value_size;
    job.dims         = static_cast<std::int8_t>(loops.size());
    job.first_source = static_cast<int>(list.sources.size());
    job.source_count = static_cast<int>(active.size());
    for (int d = 0; d < spec_.rank; ++d)
      job.to_offset +=
          begin_[Geometry::at(d)] * spec_.from_stride[Geometry::at(d)] * spec_.value_size;
    const auto in_one_piece = [&](index_t stride) { return stride == spec_.value_size; };
    const std::size_t front = loops.front().dim;
    if (loops.size() == 1 && in_one_piece(spec_.from_stride[front] * spec_.value_size) &&
        std::all_of(active.begin(), active.end(), [&](const Covering* c) {
          return in_one_piece(c->stride[front]) &&
                 (c->direct_table < 0 || in_one_piece(c->direct_stride[front]));
        }))
      job.plain = loops.front().extent;
    Numbers numbers;
    for (const SumLoop& loop : loops) numbers.push_back(loop.extent);
    for (const SumLoop& loop : loops) numbers.push_back(stride_of(loop));
    const auto direct = std::find_if(active.begin(), active.end(), [](const Covering* c) {
      return c->direct_table >= 0 && !c->local;
    });
    Scattering scattered;
    if (list.by_lines && loops.size() > 1)
      scattered = scattering_of(from_, spec_.value_size, loops[0].extent, stride_of(loops[0]),
                                stride_of(loops[1]));
    list.add(job, numbers, scattered,
             direct == active.end() ? std::nullopt : std::optional((*direct)->from_middle));
    for (const Covering* c : active) {
      SumSource source;
      source.from          = c->table;
      source.direct        = c->direct_table;
      source.negative      = c->odd;
      source.take          = !spec_.move;
      source.last          = source.take && source.direct >= 0 && job.plain > 0 && list.clear_last;
      source.remote        = c->remote;
      source.down          = c->down;
      source.offset        = c->first;
      source.direct_offset = c->direct_first;
      source.first_number  = static_cast<int>(list.numbers.size());
      for (int d = 0; d < spec_.rank; ++d) {
        const auto i        = Geometry::at(d);
        const index_t there = begin_[i] - c->begin[i];
        source.offset += there * c->stride[i];
        source.direct_offset += there * c->direct_stride[i];
      }
      for (const SumLoop& loop : loops) list.numbers.push_back(c->stride[loop.dim]);
      if (source.direct >= 0)
        for (const SumLoop& loop : loops) list.numbers.push_back(c->direct_stride[loop.dim]);
      list.sources.push_back(source);
    }
  }

  const FieldSpec& spec_;
  int from_;
  SumJobList &list_, &local_;
  std::array<index_t, max_rank> begin_{}, extent_{};
};

}  // namespace

namespace {

/// Jobs that take turns: no two of them have cells in common, for those would be added out of
/// order.
class Turns {
 public:
  /// Whether this one may take turns with those since the last that might not.
  bool may_take(int rank, const Covering& c) {
    const bool may = std::none_of(taken_.begin(), taken_.end(), [&](const Covering* other) {
      for (int d = 0; d < rank; ++d) {
        const auto i = Geometry::at(d);
        if (c.end[i] <= other->begin[i] || other->end[i] <= c.begin[i]) return false;
      }
      return true;
    });
    if (!may) taken_.clear();
    taken_.push_back(&c);
    return may;
  }

 private:
  std::vector<const Covering*> taken_;
};

/// Whether a box's cells come before another's in the order of global indices, dimension 0 first,
/// those of a turned globe after the others. At the edges of the world each cell is in one rank's
/// box, and two boxes are apart in some dimension or have the same cells in it, so any cell of a
/// piece tells. On one rank it is the order of the boxes anyway.
bool is_before(const FieldSpec& spec, const Contribution& a, const Contribution& b) {
  for (int d = 0; d < spec.rank; ++d) {
    const Segment &s = a.box->segments[Geometry::at(d)], &t = b.box->segments[Geometry::at(d)];
    if (s.turned != t.turned) return t.turned;
    if (s.target != t.target) return s.target < t.target;
  }
  return false;
}

}  // namespace

void add_sums(const FieldSpec& spec, std::vector<Contribution> contributions, int from,
              SumJobList& jobs, SumJobList& local) {
  if (spec.part == HaloPart::edges)
    std::stable_sort(
        contributions.begin(), contributions.end(),
        [&](const Contribution& a, const Contribution& b) { return is_before(spec, a, b); });
  std::vector<Covering> coverings;
  coverings.reserve(contributions.size());
  for (const Contribution& c : contributions) coverings.push_back(covering_of(spec, c));
  if (!jobs.in_order) {
    std::vector<const Covering*> all;
    for (const Covering& c : coverings) all.push_back(&c);
    if (!all.empty()) Cutter(spec, from, jobs, local).cut(0, all);
    return;
  }
  // at the edges of the world this rank's own images are not the first
  SumJobList& own = spec.part == HaloPart::edges ? jobs : local;
  Cutter cutter(spec, from, jobs, own);
  Turns turns[2];
  for (const Covering& c : coverings) {
    SumJobList& list = c.local ? own : jobs;
    if (!turns[&list == &jobs ? 0 : 1].may_take(spec.rank, c)) list.end_turns();
    cutter.cut(0, {&c});
  }
}

}  // namespace shard::impl
