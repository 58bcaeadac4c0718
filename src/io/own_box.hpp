// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_IO_OWN_BOX_HPP
#define SHARD_SRC_IO_OWN_BOX_HPP

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "shard/io/checkpoint.hpp"

/// \file
/// This rank's box of an array of a file: the places of its values, and copies of them.

namespace shard::impl {

/// Values of this rank's box.
inline index_t count_of(const CheckpointArray& array) {
  index_t n = 1;
  for (int d = 0; d < array.rank; ++d) n *= array.extent[Geometry::at(d)];
  return n;
}

/// The box is a row-major stream of values. Calls visit(place in the global array, first, n) for
/// the parts of its values [first, first + count) that are contiguous in the global array. Elements
/// of an index space are contiguous where their places in the file are.
template <class Visit>
void for_each_run(const CheckpointArray& array, index_t first, index_t count, const Visit& visit) {
  index_t run = 1;
  for (int d = array.rank - 1; d >= 0 && d != array.listed; --d) {
    run *= array.extent[Geometry::at(d)];
    if (array.extent[Geometry::at(d)] != array.global[Geometry::at(d)]) break;
  }
  const auto place_of = [&](index_t k) {
    index_t rest = k, place = 0, step = 1;
    for (int d = array.rank - 1; d >= 0; --d) {
      const index_t i = rest % array.extent[Geometry::at(d)];
      place += (d == array.listed ? array.places[static_cast<std::size_t>(i)]
                                  : array.begin[Geometry::at(d)] + i) *
               step;
      rest /= array.extent[Geometry::at(d)];
      step *= array.global[Geometry::at(d)];
    }
    return place;
  };
  const index_t end = first + count;
  for (index_t k = first; k < end;) {
    const index_t place = place_of(k);
    index_t n           = std::min(run - k % run, end - k);
    if (array.listed >= 0)
      while (k + n < end && place_of(k + n) == place + n) n += std::min(run, end - k - n);
    visit(place, k, n);
    k += n;
  }
}

/// Copies the stream's values [first, first + count) of this rank's box to or from `bytes`.
inline void copy_stream(const CheckpointArray& array, index_t size, index_t first, index_t count,
                        char* bytes, bool out) {
  if (array.rank == 0 || count == 0) {
    if (count > 0)
      std::memcpy(out ? bytes : reinterpret_cast<char*>(array.data),
                  out ? reinterpret_cast<char*>(array.data) : bytes,
                  static_cast<std::size_t>(size));
    return;
  }
  const index_t line = array.extent[Geometry::at(array.rank - 1)];
  for (index_t k = first; k < first + count;) {
    const index_t n = std::min(line - k % line, first + count - k);
    index_t rest = k, offset = 0;
    for (int d = array.rank - 1; d >= 0; --d) {
      offset += rest % array.extent[Geometry::at(d)] * array.stride[Geometry::at(d)];
      rest /= array.extent[Geometry::at(d)];
    }
    const index_t step = array.stride[Geometry::at(array.rank - 1)];
    char* const here   = reinterpret_cast<char*>(array.data) + offset * size;
    char* const there  = bytes + (k - first) * size;
    if (step == 1) {
      std::memcpy(out ? there : here, out ? here : there, static_cast<std::size_t>(n * size));
    } else {
      for (index_t i = 0; i < n; ++i)
        std::memcpy(out ? there + i * size : here + i * step * size,
                    out ? here + i * step * size : there + i * size,
                    static_cast<std::size_t>(size));
    }
    k += n;
  }
}

}  // namespace shard::impl

#endif
