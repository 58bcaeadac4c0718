// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "job_builder.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <utility>

namespace shard::impl {

namespace {

constexpr index_t short_line = 8;  // shorter than this, another dimension is the better inner loop
constexpr index_t long_line  = 16384;  // longer lines are divided, so that threads can share them

/// One dimension of a job: extent, and strides in bytes on each side.
struct Loop {
  index_t extent = 1;
  std::vector<index_t> stride;
};

/// A piece's loops, from the fastest dimension in messages to the slowest. Loops that are
/// contiguous on every side are merged, and dimensions of one element left out. If the first loop
/// is short, the longest loop becomes the innermost; but a short contiguous loop stays the
/// innermost, and the longest follows.
std::vector<Loop> loops_of(const RouteField& field, const std::array<index_t, max_rank>& extent,
                           const std::vector<const Strides*>& sides) {
  std::vector<Loop> loops;
  for (int k = 0; k < field.rank; ++k) {
    const auto d = Geometry::at(message_dim(field, k));
    if (extent[d] == 1) continue;
    bool follows = !loops.empty();
    for (std::size_t s = 0; s < sides.size() && follows; ++s)
      follows = (*sides[s])[d] == loops.back().stride[s] * loops.back().extent;
    if (follows) {
      loops.back().extent *= extent[d];
      continue;
    }
    loops.push_back({extent[d], {}});
    for (const Strides* side : sides) loops.back().stride.push_back((*side)[d]);
  }
  if (loops.empty())
    loops.push_back({1, std::vector<index_t>(sides.size(), index_t{field.value_size})});
  if (loops.front().extent < short_line) {
    const auto& stride = loops.front().stride;
    const bool contiguous =
        std::all_of(stride.begin(), stride.end(), [&](index_t s) { return s == field.value_size; });
    const auto first   = loops.begin() + (contiguous ? 1 : 0);
    const auto longest = std::max_element(
        first, loops.end(), [](const Loop& a, const Loop& b) { return a.extent < b.extent; });
    if (longest != loops.end()) std::rotate(first, longest, longest + 1);
  }
  // one side is contiguous along the lines, the other across them: put these two dimensions side by
  // side for the transposing copy
  if (sides.size() == 2) {
    const index_t size = field.value_size;
    const auto& stride = loops.front().stride;
    const int across   = stride[0] == size ? 1 : 0;
    const auto runs    = std::find_if(loops.begin() + 1, loops.end(), [&](const Loop& loop) {
      return loop.stride[static_cast<std::size_t>(across)] == size;
    });
    if (stride[static_cast<std::size_t>(1 - across)] == size && runs != loops.end())
      std::rotate(loops.begin() + 1, runs, runs + 1);
  }
  return loops;
}

/// Makes each value of a long line of scattered values a line of its own, so that work items can
/// begin and end inside the long line.
void allow_interleaving(std::vector<Loop>& loops, index_t size) {
  const auto stride = [&](int side, int d) {
    return loops[static_cast<std::size_t>(d)].stride[static_cast<std::size_t>(side)];
  };
  const index_t count = loops.front().extent;
  if (count <= interleaved_values || loops.size() == max_rank ||
      !lies_scattered(count, size, static_cast<int>(loops.size()), stride))
    return;
  loops.insert(loops.begin(), {1, std::vector<index_t>(loops.front().stride.size(), size)});
}

/// The extents of the loops, then the strides of each side.
std::vector<index_t> numbers_of(const std::vector<Loop>& loops) {
  std::vector<index_t> numbers;
  for (const Loop& loop : loops) numbers.push_back(loop.extent);
  for (std::size_t s = 0; s < loops.front().stride.size(); ++s)
    for (const Loop& loop : loops) numbers.push_back(loop.stride[s]);
  return numbers;
}

/// A summand in the order of the owned elements: the box that it covers, and its strides along that
/// box.
struct Covering {
  const Summand* summand;
  Elements from, direct;
  std::array<index_t, max_rank> begin{}, end{};
};

Covering covering_of(const RouteField& field, const Summand& summand) {
  const Piece& piece = *summand.piece;
  Covering c{&summand, summand.from, summand.direct};
  for (int d = 0; d < field.rank; ++d) {
    const auto i = Geometry::at(d), of = Geometry::at(piece.along[i]);
    c.begin[of] = piece.source[of];
    for (const auto& [e, as] :
         {std::pair(&c.from, &summand.from), std::pair(&c.direct, &summand.direct)}) {
      e->stride[of] = as->stride[i];
      if (piece.step[i] > 0) continue;
      e->first += (piece.extent[i] - 1) * as->stride[i];
      e->stride[of] = -as->stride[i];
    }
    if (piece.step[i] < 0) c.begin[of] -= piece.extent[i] - 1;
    c.end[of] = c.begin[of] + piece.extent[i];
  }
  return c;
}

/// Divides the covered elements into disjoint boxes: one dimension after the other, at the ends of
/// the boxes that cover them.
class Cutter {
 public:
  Cutter(const RouteField& field, int to, const Strides& strides, SumJobList& jobs,
         SumJobList& local, const Reduction* reduction)
      : field_(field), to_(to), jobs_(jobs), local_(local), reduction_(reduction) {
    for (int d = 0; d < field.rank; ++d)
      stride_[Geometry::at(d)] = strides[Geometry::at(d)] * field.value_size;
  }

  void cut(int d, const std::vector<const Covering*>& active) {
    if (d == field_.rank) {
      const bool local = std::all_of(active.begin(), active.end(),
                                     [](const Covering* c) { return c->summand->local; });
      emit(active, local ? local_ : jobs_);
      return;
    }
    const auto i = Geometry::at(d);
    std::vector<index_t> ends;
    for (const Covering* c : active) ends.insert(ends.end(), {c->begin[i], c->end[i]});
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    // a sweep along the ends, so that many small boxes take little time; in the order of summands
    std::multimap<index_t, std::size_t> beginning, ending;
    for (std::size_t a = 0; a < active.size(); ++a) {
      beginning.emplace(active[a]->begin[i], a);
      ending.emplace(active[a]->end[i], a);
    }
    std::set<std::size_t> covering;
    for (std::size_t k = 0; k + 1 < ends.size(); ++k) {
      begin_[i]       = ends[k];
      extent_[i]      = ends[k + 1] - ends[k];
      const auto over = ending.equal_range(ends[k]), added = beginning.equal_range(ends[k]);
      for (auto e = over.first; e != over.second; ++e) covering.erase(e->second);
      for (auto b = added.first; b != added.second; ++b) covering.insert(b->second);
      std::vector<const Covering*> here;
      for (const std::size_t a : covering) here.push_back(active[a]);
      if (!here.empty()) cut(d + 1, here);
    }
  }

 private:
  /// Bytes from a covering's first element to the first of this job.
  index_t offset_in(const Covering& c, const Strides& stride) const {
    index_t offset = 0;
    for (int d = 0; d < field_.rank; ++d)
      offset += (begin_[Geometry::at(d)] - c.begin[Geometry::at(d)]) * stride[Geometry::at(d)];
    return offset;
  }

  void emit(const std::vector<const Covering*>& active, SumJobList& list) const {
    std::vector<const Strides*> sides{&stride_};
    for (const Covering* c : active) {
      sides.push_back(&c->from.stride);
      if (c->direct.entry >= 0) sides.push_back(&c->direct.stride);
    }
    std::vector<Loop> loops = loops_of(field_, extent_, sides);
    if (list.interleaves) allow_interleaving(loops, field_.value_size);
    Loop& line        = loops.front();
    const index_t all = line.extent;
    for (index_t done = 0; done < all; done += line.extent) {
      line.extent = std::min(long_line, all - done);
      emit(active, loops, done, list);
    }
  }

  /// The part of a job that begins `done` elements along its lines.
  void emit(const std::vector<const Covering*>& active, const std::vector<Loop>& loops,
            index_t done, SumJobList& list) const {
    const Loop& line = loops.front();
    SumJob job;
    job.to         = to_;
    job.kind       = field_.kind;
    job.value_size = field_.value_size;
    job.combines   = reduction_ != nullptr;
    if (job.combines) job.reduction = *reduction_;
    job.dims         = static_cast<std::int8_t>(loops.size());
    job.first_source = static_cast<int>(list.sources.size());
    job.source_count = static_cast<int>(active.size());
    for (int d = 0; d < field_.rank; ++d)
      job.to_offset += begin_[Geometry::at(d)] * stride_[Geometry::at(d)];
    std::size_t side = 0;
    job.to_offset += done * line.stride[side++];
    // extents and strides of the job, then the strides of each source, direct ones after
    int number = static_cast<int>(list.numbers.size()) + 2 * job.dims;
    for (const Covering* c : active) {
      SumSource source;
      source.from     = c->from.entry;
      source.offset   = c->from.first + offset_in(*c, c->from.stride) + done * line.stride[side++];
      source.direct   = c->direct.entry;
      source.negative = c->summand->piece->negative;
      source.clear    = !field_.move;
      source.first_number = number;
      number += job.dims;
      if (source.direct >= 0) {
        source.direct_offset =
            c->direct.first + offset_in(*c, c->direct.stride) + done * line.stride[side++];
        number += job.dims;
      }
      list.sources.push_back(source);
    }
    list.add(job, numbers_of(loops));
  }

  const RouteField& field_;
  int to_;
  SumJobList &jobs_, &local_;
  const Reduction* reduction_;
  Strides stride_{};  // bytes
  std::array<index_t, max_rank> begin_{}, extent_{};
};

}  // namespace

index_t count_of(const RouteField& field, const Piece& piece) {
  index_t n = 1;
  for (int d = 0; d < field.rank; ++d) n *= piece.extent[Geometry::at(d)];
  return n;
}

Elements source_elements(const RouteField& field, const Piece& piece, int entry,
                         const Strides& strides) {
  Elements e{entry};
  for (int d = 0; d < field.rank; ++d) {
    const auto i = Geometry::at(d);
    e.first += piece.source[i] * strides[i] * field.value_size;
    e.stride[i] = piece.step[i] * strides[Geometry::at(piece.along[i])] * field.value_size;
  }
  return e;
}

Elements target_elements(const RouteField& field, const Piece& piece, int entry,
                         const Strides& strides) {
  Elements e{entry};
  for (int d = 0; d < field.rank; ++d) {
    const auto i = Geometry::at(d);
    e.stride[i]  = strides[i] * field.value_size;
    e.first += piece.target[i] * e.stride[i];
  }
  return e;
}

Elements packed_elements(const RouteField& field, const Piece& piece, int entry, index_t first) {
  Elements e{entry, first};
  index_t stride = field.value_size;
  for (int k = 0; k < field.rank; ++k) {
    const auto d = Geometry::at(message_dim(field, k));
    e.stride[d]  = stride;
    stride *= piece.extent[d];
  }
  return e;
}

std::size_t run_of(const RouteField& field, const Piece& piece, const Elements& from,
                   const Elements& to) {
  index_t run = field.value_size;
  for (int k = 0; k < field.rank; ++k) {
    const auto d = Geometry::at(message_dim(field, k));
    if (piece.extent[d] == 1) continue;
    if (from.stride[d] != run || to.stride[d] != run) break;
    run *= piece.extent[d];
  }
  return static_cast<std::size_t>(run);
}

void add_copy(const RouteField& field, const Piece& piece, const Elements& from, const Elements& to,
              CopyJobList& jobs, const CopyOptions& options) {
  const bool direct = options.direct.entry >= 0;
  std::vector<const Strides*> sides{&from.stride, &to.stride};
  if (direct) sides.push_back(&options.direct.stride);
  std::vector<Loop> loops = loops_of(field, piece.extent, sides);
  if (jobs.interleaves) allow_interleaving(loops, field.value_size);
  CopyJob job;
  job.from          = from.entry;
  job.from_offset   = from.first;
  job.to            = to.entry;
  job.to_offset     = to.first;
  job.direct        = options.direct.entry;
  job.direct_offset = options.direct.first;
  job.unless        = options.unless;
  job.value_size    = field.value_size;
  job.dims          = static_cast<std::int8_t>(loops.size());
  job.negate        = options.negative ? field.kind : ValueKind::opaque;
  job.clear         = options.clear;
  Loop& line        = loops.front();
  for (index_t left = line.extent; left > 0; left -= line.extent) {
    line.extent = std::min(long_line, left);
    jobs.add(job, numbers_of(loops));
    job.from_offset += line.extent * line.stride[0];
    job.to_offset += line.extent * line.stride[1];
    if (direct) job.direct_offset += line.extent * line.stride[2];
  }
}

namespace {

/// A job's extents and strides.
std::span<const index_t> numbers_of(const CopyJobList& jobs, const CopyJob& job) {
  return {jobs.numbers.data() + job.first_number,
          static_cast<std::size_t>(job.dims * (job.direct >= 0 ? 4 : 3))};
}

std::vector<index_t> to_vector(std::span<const index_t> numbers) {
  return {numbers.begin(), numbers.end()};
}

/// Whether a job is one line of contiguous values on all sides.
bool is_line(const CopyJobList& jobs, const CopyJob& job) {
  const auto numbers = numbers_of(jobs, job);
  return job.dims == 1 && std::all_of(numbers.begin() + 1, numbers.end(),
                                      [&](index_t s) { return s == job.value_size; });
}

/// What jobs that differ only in their boxes have in common.
std::array<index_t, 9> sides_of(const CopyJob& job) {
  return {job.from,
          job.to,
          job.direct,
          job.unless,
          job.value_size,
          job.dims,
          static_cast<index_t>(job.negate),
          job.clear,
          job.streams};
}

/// Joins lines that continue each other on all sides: what one rank sends to consecutive places of
/// a halo.
void join_lines(CopyJobList& jobs) {
  CopyJobList joined = jobs.like();
  const auto follows = [](const CopyJob& a, const CopyJob& b, index_t bytes) {
    return sides_of(a) == sides_of(b) && b.from_offset == a.from_offset + bytes &&
           b.to_offset == a.to_offset + bytes &&
           (a.direct < 0 || b.direct_offset == a.direct_offset + bytes);
  };
  for (std::size_t j = 0; j < jobs.jobs.size();) {
    const CopyJob& job           = jobs.jobs[j];
    std::vector<index_t> numbers = to_vector(numbers_of(jobs, job));
    std::size_t next             = j + 1;
    if (is_line(jobs, job))
      for (; next < jobs.jobs.size() && is_line(jobs, jobs.jobs[next]); ++next) {
        const index_t more = numbers_of(jobs, jobs.jobs[next]).front();
        if (numbers[0] + more > long_line ||
            !follows(job, jobs.jobs[next], numbers[0] * job.value_size))
          break;
        numbers[0] += more;
      }
    joined.add(job, numbers);
    j = next;
  }
  jobs = std::move(joined);
}

constexpr std::size_t many       = 16;  // jobs for which lists are tried; lines of a list
constexpr std::size_t some_boxes = 4;   // boxes of a list

/// Divides lines into single values, where so few have their length that they would remain jobs:
/// a value of a list takes less time than a tenth of a job.
void part_short_lines(CopyJobList& jobs) {
  constexpr index_t longest = 16;  // values
  struct Lengths {
    std::map<index_t, std::size_t> lines;
    bool is_rare(index_t length) const { return length <= longest && lines.at(length) < many; }
    bool parts() const {  // the single values are enough for a list
      std::size_t values = 0;
      for (const auto& [length, count] : lines)
        if (length == 1 || is_rare(length)) values += count * static_cast<std::size_t>(length);
      return values >= many;
    }
  };
  std::map<std::array<index_t, 9>, Lengths> lengths;
  for (const CopyJob& job : jobs.jobs)
    if (is_line(jobs, job)) ++lengths[sides_of(job)].lines[numbers_of(jobs, job).front()];
  CopyJobList parted = jobs.like();
  for (CopyJob job : jobs.jobs) {
    std::vector<index_t> numbers = to_vector(numbers_of(jobs, job));
    index_t values               = 1;
    if (is_line(jobs, job))
      if (const Lengths& all = lengths[sides_of(job)]; all.is_rare(numbers[0]) && all.parts())
        std::swap(values, numbers[0]);
    for (; values > 0; --values) {
      parted.add(job, numbers);
      job.from_offset += job.value_size;
      job.to_offset += job.value_size;
      job.direct_offset += job.value_size;
    }
  }
  jobs = std::move(parted);
}

}  // namespace

void list_equal_boxes(CopyJobList& jobs) {
  if (jobs.jobs.size() < many) return;
  join_lines(jobs);
  part_short_lines(jobs);
  // by all that is equal: the boxes of a job, in the order of their first
  std::map<std::vector<index_t>, std::vector<std::size_t>> equal;
  std::vector<const std::vector<std::size_t>*> order;
  for (std::size_t j = 0; j < jobs.jobs.size(); ++j) {
    const CopyJob& job       = jobs.jobs[j];
    std::vector<index_t> key = to_vector(numbers_of(jobs, job));
    for (const index_t side : sides_of(job)) key.push_back(side);
    auto& boxes = equal[std::move(key)];
    if (boxes.empty()) order.push_back(&boxes);
    boxes.push_back(j);
  }
  CopyJobList listed = jobs.like();
  for (const auto* boxes : order) {
    CopyJob job = jobs.jobs[boxes->front()];
    if (boxes->size() < some_boxes || job.dims == max_rank) {
      for (const std::size_t j : *boxes)
        listed.add(jobs.jobs[j], to_vector(numbers_of(jobs, jobs.jobs[j])));
      continue;
    }
    const std::vector<index_t> box = to_vector(numbers_of(jobs, job));
    const auto count               = static_cast<index_t>(boxes->size());
    const int sides                = job.direct >= 0 ? 3 : 2;
    const index_t lists            = (job.dims + 1) * (sides + 1);  // where they begin
    std::vector<index_t> numbers;
    for (int part = 0; part <= sides; ++part) {  // extents, then the strides of each side
      numbers.insert(numbers.end(), box.begin() + part * job.dims,
                     box.begin() + (part + 1) * job.dims);
      numbers.push_back(part == 0 ? count : lists + (part - 1) * count);
    }
    const auto append = [&](index_t CopyJob::*offset) {
      for (const std::size_t j : *boxes) numbers.push_back(jobs.jobs[j].*offset);
    };
    append(&CopyJob::from_offset);
    append(&CopyJob::to_offset);
    if (sides == 3) append(&CopyJob::direct_offset);
    ++job.dims;
    job.listed      = true;
    job.from_offset = job.to_offset = job.direct_offset = 0;
    listed.add(job, numbers);
  }
  jobs = std::move(listed);
}

void add_sums(const RouteField& field, std::vector<Summand> summands, int to,
              const Strides& strides, SumJobList& jobs, SumJobList& local,
              const Reduction* reduction) {
  if (summands.empty()) return;
  std::stable_sort(summands.begin(), summands.end(), [](const Summand& a, const Summand& b) {
    return a.piece->order < b.piece->order;
  });
  std::vector<Covering> coverings;
  coverings.reserve(summands.size());
  for (const Summand& s : summands) coverings.push_back(covering_of(field, s));
  std::vector<const Covering*> all;
  for (const Covering& c : coverings) all.push_back(&c);
  Cutter(field, to, strides, jobs, local, reduction).cut(0, all);
}

}  // namespace shard::impl
