// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sum_builder.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace shard::impl {

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
    const bool contiguous   = in_one_piece(spec_.from_stride[front] * spec_.value_size) &&
                            std::all_of(active.begin(), active.end(), [&](const Covering* c) {
                              return in_one_piece(c->stride[front]) &&
                                     (c->direct_table < 0 || in_one_piece(c->direct_stride[front]));
                            });
    if (contiguous && loops.size() == 1) job.plain = loops.front().extent;
    job.rows = contiguous && loops.size() == 2 && loops.front().extent > 1;
    JobNumbers numbers;
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

void choose_order(SumJobList& jobs, std::size_t most_held, bool asks_ahead) {
  const auto is_taken = [](const SumSource& source) { return source.take && source.direct >= 0; };
  index_t taken[]     = {0, 0};  // within this rank, from others
  for (const SumJob& job : jobs.jobs)
    for (int s = job.first_source; s < job.first_source + job.source_count; ++s) {
      const SumSource& source = jobs.sources[static_cast<std::size_t>(s)];
      if (!is_taken(source)) continue;
      index_t bytes = job.value_size;
      for (int d = 0; d < job.dims; ++d)
        bytes *= jobs.numbers[static_cast<std::size_t>(job.first_number + d)];
      taken[source.remote ? 1 : 0] += bytes;
    }
  for (SumSource& source : jobs.sources) {
    const index_t all = taken[source.remote ? 1 : 0];
    source.held       = is_taken(source) && static_cast<std::size_t>(all) <= most_held;
    source.ahead      = asks_ahead;
  }
}

}  // namespace shard::impl
