// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sum_builder.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

namespace shard::impl {

namespace {

/// A contribution as seen from the owned cells: the interval it covers along each dimension, and
/// how its buffer runs along them.
struct Covering {
  int table = 0, direct_table = -1;
  bool odd = false, local = false;
  index_t first        = 0;  // bytes in the buffer of the summand of the lowest cell
  index_t direct_first = 0;
  std::array<index_t, max_rank> begin{}, end{}, stride{}, direct_stride{};
};

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
  c.local        = contribution.local;
  c.first        = contribution.buffer.first;
  c.direct_first = peer.first;
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
  using SumLoops = std::vector<SumLoop>;

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
    // the longest is the inner loop where the first is short
    constexpr index_t short_line = 8;
    const auto longest =
        std::max_element(loops.begin(), loops.end(),
                         [](const SumLoop& a, const SumLoop& b) { return a.extent < b.extent; });
    if (loops.front().extent < short_line) std::rotate(loops.begin(), longest, longest + 1);
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
    std::vector<index_t> numbers;
    for (const SumLoop& loop : loops) numbers.push_back(loop.extent);
    for (const SumLoop& loop : loops) numbers.push_back(stride_of(loop));
    list.add(job, numbers);
    for (const Covering* c : active) {
      SumSource source;
      source.from          = c->table;
      source.direct        = c->direct_table;
      source.negative      = c->odd;
      source.clear         = !spec_.move;
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
  std::vector<const Covering*> all;
  for (const Covering& c : coverings) all.push_back(&c);
  if (!all.empty()) Cutter(spec, from, jobs, local).cut(0, all);
}

}  // namespace shard::impl
