// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_MOVED_RUN_HPP
#define SHARD_SRC_EXCHANGE_MOVED_RUN_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>

#include "rows.hpp"

namespace shard::impl {

/// Values of one line of memory.
template <class T>
inline constexpr index_t values_per_line = sizeof(T) < 64 ? 64 / static_cast<index_t>(sizeof(T))
                                                          : 1;

/// Values on both sides from here on; `Down`: those below, from the last on.
///
/// A piece of the source may be held, and set to zero, before its target is touched: in fields of
/// equal shape the two often have the same place in a near cache, where lines can drive each other
/// out although there is room (as it seems by an AMD core's predictor of ways). Line by line, each
/// read and written in turns, transposes of 32 kB faces took 7 us instead of 3 with some addresses
/// on a Zen 4. Of more than near caches hold that is the faster way all the same.
template <class T, bool Negative, bool Down>
struct MovedRun {
  T *from = nullptr, *to = nullptr;

  static constexpr index_t line = values_per_line<T>, ahead = 12 * line,
                           held = 32 * line;  // values

  KOKKOS_INLINE_FUNCTION static T* at(T* first, index_t n, index_t count) {
    return Down ? first - n - count : first + n;
  }
  KOKKOS_INLINE_FUNCTION MovedRun after(index_t n) const { return {at(from, n, 0), at(to, n, 0)}; }
  KOKKOS_INLINE_FUNCTION void ask_from(index_t n) const { prefetch_to_write(at(from, n, 1)); }
  KOKKOS_INLINE_FUNCTION void ask_to(index_t n) const { prefetch_to_write(at(to, n, 1)); }

  /// Values before those that have a line of memory to themselves, of which rows that have halos at
  /// their own ends begin with some: without them each line that is moved would be parts of two.
  /// None of short rows.
  KOKKOS_INLINE_FUNCTION static index_t head(const T* first, index_t count) {
    constexpr index_t bytes = 64, enough = 8 * line;
    if (count < enough) return 0;
    const auto within = static_cast<index_t>(reinterpret_cast<std::uintptr_t>(first) % bytes);
    return (Down ? within : (bytes - within) % bytes) / static_cast<index_t>(sizeof(T));
  }

  /// Reads `count` values, at most `held`, and sets them to zero. Calls ask(n) before each line.
  template <class Ask>
  KOKKOS_INLINE_FUNCTION void hold(T* values, index_t count, const Ask& ask) const {
    T* const begin  = Down ? values + count : values;
    const auto hold = [&](index_t n) {
      T* source        = at(from, n, 1);
      *at(begin, n, 1) = *source;
      *source          = T(0);
    };
    const index_t first = head(from, count);
    index_t n           = 0;
    if (first > 0) ask(n);
    for (; n < first; ++n) hold(n);
    for (; n + line <= count; n += line) {
      ask(n);
      T *source = at(from, n, line), *value = at(begin, n, line);
      for (index_t k = 0; k < line; ++k) value[k] = source[k];
      for (index_t k = 0; k < line; ++k) source[k] = T(0);
    }
    if (n < count) ask(n);
    for (; n < count; ++n) hold(n);
  }
  /// Adds what was held.
  KOKKOS_INLINE_FUNCTION void add(const T* values, index_t count) const {
    T* const target = at(to, 0, count);
    const auto one  = [&](index_t n) {
      target[n] = static_cast<T>(Negative ? target[n] - values[n] : target[n] + values[n]);
    };
    const index_t first = MovedRun<T, Negative, false>::head(target, count);
    for (index_t n = 0; n < first; ++n) one(n);
    for (index_t n = first; n < count; ++n) one(n);
  }
  /// Adds values, sets their source to zero unless that comes later, and asks for as many others to
  /// be written.
  template <bool AskFrom, bool AskTo, bool Clear = true>
  KOKKOS_INLINE_FUNCTION void move(index_t count, const MovedRun& next) const {
    const auto ask = [&](index_t n) {
      if constexpr (AskFrom) prefetch_to_write(at(next.from, n, 1));
      if constexpr (AskTo) prefetch_to_write(at(next.to, n, 1));
    };
    const auto one = [&](index_t n) {
      T *source = at(from, n, 1), *target = at(to, n, 1);
      *target = static_cast<T>(Negative ? *target - *source : *target + *source);
      if constexpr (Clear) *source = T(0);
    };
    const index_t first = head(from, count);
    index_t n           = 0;
    if (first > 0) ask(n);
    for (; n < first; ++n) one(n);
    for (; n + line <= count; n += line) {
      ask(n);
      T *source = at(from, n, line), *target = at(to, n, line);
      T sum[line];
      for (index_t k = 0; k < line; ++k)
        sum[k] = static_cast<T>(Negative ? target[k] - source[k] : target[k] + source[k]);
      for (index_t k = 0; k < line; ++k) target[k] = sum[k];
      if constexpr (Clear)
        for (index_t k = 0; k < line; ++k) source[k] = T(0);
    }
    if (n < count) ask(n);
    for (; n < count; ++n) one(n);
  }

  /// Asks for the source of the first values.
  KOKKOS_INLINE_FUNCTION void ask_first(index_t count) const {
    for (index_t n = 0; n < count && n < ahead; n += line) ask_from(n);
  }
  /// Adds values and sets their source to zero, in pieces that are held; the source's memory is
  /// asked for some of it ahead, at the end that of `next`, which is as long, unless there is none.
  KOKKOS_INLINE_FUNCTION void take_held(index_t count, const MovedRun& next = {}) const {
    alignas(64) T values[held];
    for (index_t first = 0; first < count; first += held) {
      const index_t n = count - first < held ? count - first : held;
      after(first).hold(values, n, [&](index_t k) {
        const index_t later = first + k + ahead;
        if (later < count) {
          ask_from(later);
        } else if (next.from != nullptr && later - count < count) {
          next.ask_from(later - count);
          next.ask_to(later - count);
        }
      });
      after(first).add(values, n);
    }
  }
  /// The same line by line; `count` is twice what is asked for ahead, or more. Of both the first
  /// values were asked for (ask_first).
  KOKKOS_INLINE_FUNCTION void take(index_t count, const MovedRun& next = {}) const {
    move<true, false>(count - ahead, after(ahead));
    const MovedRun last = after(count - ahead);
    if (next.from != nullptr)
      last.template move<true, true>(ahead, next);
    else
      last.template move<false, false>(ahead, {});
  }
};

}  // namespace shard::impl

#endif
