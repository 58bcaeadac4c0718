// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/view/impl/host_points.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "shard/base/impl/launch.hpp"

namespace shard::impl {

namespace {

/// Words of `Size` bytes. They may stand for values of any type.
template <int Size>
struct WordOf;
template <>
struct WordOf<1> {
  typedef std::uint8_t type;
};
template <>
struct WordOf<2> {
  typedef std::uint16_t type __attribute__((may_alias));
};
template <>
struct WordOf<4> {
  typedef std::uint32_t type __attribute__((may_alias));
};
template <>
struct WordOf<8> {
  typedef std::uint64_t type __attribute__((may_alias));
};

/// The dimensions of the points that are left when those that follow each other in memory are one,
/// from the smallest stride of `to` upwards.
struct Loops {
  int rank                             = 0;
  index_t extent[HostPoints::max_rank] = {}, to[HostPoints::max_rank] = {},
          from[HostPoints::max_rank] = {};

  Loops(const HostPoints& t, const HostPoints& f) {
    int order[HostPoints::max_rank], count = 0;
    for (int d = 0; d < t.rank; ++d)
      if (t.extent[d] != 1) order[count++] = d;
    std::stable_sort(order, order + count, [&](int a, int b) { return t.stride[a] < t.stride[b]; });
    for (int k = 0; k < count; ++k) {
      const int d = order[k];
      if (rank > 0 && t.stride[d] == extent[rank - 1] * to[rank - 1] &&
          f.stride[d] == extent[rank - 1] * from[rank - 1]) {
        extent[rank - 1] *= t.extent[d];
        continue;
      }
      extent[rank] = t.extent[d];
      to[rank]     = t.stride[d];
      from[rank]   = f.stride[d];
      ++rank;
    }
    if (rank == 0) {
      rank      = 1;
      extent[0] = 1;
      to[0] = from[0] = 1;
    }
  }
  index_t lines() const {
    index_t n = 1;
    for (int k = 1; k < rank; ++k) n *= extent[k];
    return n;
  }
};

/// A work item is a part of a line, or several lines.
struct CopyLines {
  static constexpr index_t enough = 8192;  ///< values of an item
  Loops loops;
  std::byte *to, *from;  ///< `from`: null to fill
  std::size_t size;
  std::byte value[16];
  index_t lines, lines_at_once, parts;

  CopyLines(const HostPoints& t, const HostPoints& f, const void* set)
      : loops(t, f), to(t.origin), from(f.origin), size(t.size), value{} {
    if (set != nullptr) {
      from = nullptr;
      std::memcpy(value, set, size);
    }
    lines         = loops.lines();
    lines_at_once = std::max<index_t>(1, enough / std::max<index_t>(1, loops.extent[0]));
    parts         = (loops.extent[0] + enough - 1) / enough;
  }
  index_t items() const { return (lines + lines_at_once - 1) / lines_at_once * parts; }

  void operator()(index_t item) const {
    const index_t part = item % parts, begin = item / parts * lines_at_once,
                  end   = std::min(begin + lines_at_once, lines);
    const index_t first = part * enough, count = std::min(loops.extent[0] - first, enough);
    index_t index[HostPoints::max_rank] = {}, rest = begin;
    for (int k = 1; k < loops.rank; ++k) {
      index[k] = rest % loops.extent[k];
      rest /= loops.extent[k];
    }
    for (index_t line = begin; line < end; ++line) {
      index_t t = first * loops.to[0], f = first * loops.from[0];
      for (int k = 1; k < loops.rank; ++k) {
        t += index[k] * loops.to[k];
        f += index[k] * loops.from[k];
      }
      const auto bytes = static_cast<index_t>(size);
      run(to + t * bytes, from != nullptr ? from + f * bytes : nullptr, count);
      for (int k = 1; k < loops.rank && ++index[k] == loops.extent[k]; ++k) index[k] = 0;
    }
  }

 private:
  void run(std::byte* t, const std::byte* f, index_t count) const {
    const bool unit = loops.to[0] == 1 && (f == nullptr || loops.from[0] == 1);
    if (unit && f != nullptr) {
      std::memcpy(t, f, static_cast<std::size_t>(count) * size);
      return;
    }
    switch (size) {
      case 1: return words<1, 1>(t, f, count);
      case 2: return words<2, 1>(t, f, count);
      case 4: return words<4, 1>(t, f, count);
      case 8: return words<8, 1>(t, f, count);
      default: return words<8, 2>(t, f, count);
    }
  }
  /// A value is `Words` words.
  template <int Size, int Words>
  void words(std::byte* t, const std::byte* f, index_t count) const {
    using Word              = typename WordOf<Size>::type;
    auto* const out         = reinterpret_cast<Word*>(t);
    const index_t step      = loops.to[0] * Words;
    const auto* const given = reinterpret_cast<const Word*>(f != nullptr ? f : value);
    const index_t from_step = f != nullptr ? loops.from[0] * Words : 0;
    for (int w = 0; w < Words; ++w) {
      if (f != nullptr)
        for (index_t i = 0; i < count; ++i) out[i * step + w] = given[i * from_step + w];
      else if (step == 1)
        std::fill_n(out, count, given[w]);
      else
        for (index_t i = 0; i < count; ++i) out[i * step + w] = given[w];
    }
  }
};

void run_points(const char* label, const Kokkos::DefaultHostExecutionSpace& space,
                const HostPoints& to, const HostPoints& from, const void* value) {
  for (int d = 0; d < to.rank; ++d)
    if (to.extent[d] == 0) return;
  const CopyLines kernel(to, from, value);
  launch(label, space, kernel.items(), kernel);
}

}  // namespace

void copy_points(const Kokkos::DefaultHostExecutionSpace& space, const HostPoints& to,
                 const HostPoints& from) {
  if (to.origin == from.origin) return;
  run_points("shard::copy", space, to, from, nullptr);
}

void fill_points(const Kokkos::DefaultHostExecutionSpace& space, const HostPoints& to,
                 const void* value) {
  run_points("shard::fill", space, to, to, value);
}

}  // namespace shard::impl
