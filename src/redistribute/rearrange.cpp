// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/redistribute/rearrange.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"

namespace shard::impl {

namespace {

std::shared_ptr<const SourceRanges> ranges_of(std::vector<SourceRange> list) {
  return std::make_shared<SourceRanges>(std::move(list));
}

/// Appends one element, to the last range if it goes on.
void append(std::vector<SourceRange>& list, index_t source) {
  if (list.empty()) return list.push_back({0, source, 1, 1});
  SourceRange& last  = list.back();
  const index_t step = source - (last.source + last.step * (last.count - 1));
  if (last.count == 1 ? step == 1 || step == -1 : step == last.step) {
    last.step = step;
    ++last.count;
  } else {
    list.push_back({last.target + last.count, source, 1, 1});
  }
}

}  // namespace

void require_dimension(const char* function, int dim, int rank) {
  if (dim < 0 || dim >= rank)
    throw_argument(function, {"there is no dimension ", text(dim), "; the field has ", text(rank)});
}

void require_rearranged(const char* function, const Geometry& to, const Geometry& from, int dim,
                        index_t extent) {
  if (to.mesh != from.mesh)
    throw_argument(function, {"\"", to.label, "\" and \"", from.label, "\" are on two meshes"});
  for (int d = 0; d < to.rank; ++d)
    if (const index_t wanted = d == dim ? extent : from.global(d); to.global(d) != wanted)
      throw_argument(function,
                     {"dimension ", text(d), " of \"", to.label, "\" has ", text(to.global(d)),
                      " elements; from \"", from.label, "\" come ", text(wanted)});
}

std::shared_ptr<const SourceRanges> rolled(index_t n, index_t shift) {
  const index_t s = n == 0 ? 0 : (shift % n + n) % n;
  std::vector<SourceRange> list;
  if (s > 0) list.push_back({0, n - s, s});
  if (n > s) list.push_back({s, 0, n - s});
  return ranges_of(std::move(list));
}

std::shared_ptr<const SourceRanges> flipped(index_t n) {
  return ranges_of(n == 0 ? std::vector<SourceRange>{}
                          : std::vector<SourceRange>{{0, n - 1, n, -1}});
}

std::shared_ptr<const SourceRanges> placed(index_t target, index_t source, index_t count) {
  return ranges_of(count == 0 ? std::vector<SourceRange>{}
                              : std::vector<SourceRange>{{target, source, count}});
}

std::shared_ptr<const SourceRanges> sliced(index_t begin, index_t count, index_t step) {
  if (step == 1) return placed(0, begin, count);
  std::vector<SourceRange> list;
  for (index_t i = 0; i < count; ++i) list.push_back({i, begin + i * step, 1});
  return ranges_of(std::move(list));
}

std::shared_ptr<const SourceRanges> selected(const std::vector<index_t>& indices) {
  std::vector<SourceRange> list;
  for (const index_t i : indices) append(list, i);
  return ranges_of(std::move(list));
}

index_t slice_count(index_t n, index_t begin, index_t end, index_t step) {
  if (begin < 0 || begin > n || end < begin || step < 1)
    throw_argument("Slice", {text(begin), ":", text(end), ":", text(step), " of ", text(n),
                             " elements; give 0 <= begin <= end, begin of at most ", text(n),
                             ", and a step of at least 1"});
  return (std::min(end, n) - begin + step - 1) / step;
}

Partition slice_partition(const Partition& of, index_t begin, index_t count, index_t step) {
  std::vector<index_t> begins;
  for (int r = 0; r <= of.parts(); ++r) {
    const index_t first = r == of.parts() ? of.size() : of.begin(r);
    begins.push_back(std::clamp<index_t>((first - begin + step - 1) / step, 0, count));
  }
  begins.back() = count;
  return Partition::explicit_begins(std::move(begins));
}

void require_indices(const std::vector<index_t>& indices, index_t n) {
  for (const index_t i : indices)
    if (i < 0 || i >= n)
      throw_argument("IndexSelect", {"index ", text(i), " isn't among ", text(n), " elements"});
}

void require_sizes(const char* function, const std::vector<index_t>& sizes, index_t n) {
  index_t sum   = 0;
  bool negative = false;
  for (const index_t s : sizes) {
    sum += s;
    negative = negative || s < 0;
  }
  if (negative || sum != n)
    throw_argument(function, {"parts of ", text(sizes.data(), static_cast<int>(sizes.size())),
                              " elements; together they must be ", text(n)});
}

}  // namespace shard::impl
