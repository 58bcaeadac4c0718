// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_ATTENTION_TOKENS_HPP
#define SHARD_SRC_LAYERS_ATTENTION_TOKENS_HPP

#include <algorithm>
#include <cstdint>

#include "attention_items.hpp"

namespace shard::impl {

/// The tokens of a range of one group's that exist: the last window of a dimension may be partial.
template <index_t Most>
struct TokenList {
  /// Tokens `step` points apart along the last dimension.
  struct Run {
    index_t cell[3], step, length;
    index_t place;  ///< of the first one in the list
  };
  index_t count = 0, runs = 0;
  Run run[Most];
  std::int32_t token[Most];  ///< its number in the group
  std::int32_t side[Most];   ///< tokens attend only to tokens of the same side
  std::int32_t x[Most];      ///< its point along the last dimension

  TokenList(const Tokens& all, index_t group, index_t begin, index_t end) {
    index_t first[3];
    for (int d = 2; d >= 0; --d) {
      const TokenDim& dim = all.dims[d];
      first[d]            = group % dim.groups * dim.group_stride - dim.before;
      group /= dim.groups;
    }
    const index_t row = all.dims[2].tokens, rows = all.dims[1].tokens;
    for (index_t t = begin, length = 0; t < end; t += length) {
      const index_t place[3] = {t / row / rows, t / row % rows, t % row};
      length                 = std::min(row - place[2], end - t);
      add_row(all.dims, first, place, t, length);
    }
  }

  /// True if the tokens are consecutive.
  bool whole() const { return count > 0 && token[count - 1] - token[0] + 1 == count; }

 private:
  static std::int32_t side_of(const TokenDim& dim, index_t cell) {
    return (cell >= dim.first_apart ? 1 : 0) + (cell >= dim.second_apart ? 1 : 0);
  }
  void add_row(const TokenDim (&dims)[3], const index_t (&first)[3], const index_t (&place)[3],
               index_t number, index_t length) {
    Run r{{}, dims[2].token_stride, 0, count};
    for (int d = 0; d < 3; ++d) r.cell[d] = first[d] + place[d] * dims[d].token_stride;
    for (int d = 0; d < 2; ++d)
      if (r.cell[d] < 0 || r.cell[d] >= dims[d].cells) return;
    index_t begin = 0;
    for (; begin < length && r.cell[2] < 0; ++begin) r.cell[2] += r.step;
    const std::int32_t of_row = 16 * side_of(dims[0], r.cell[0]) + 4 * side_of(dims[1], r.cell[1]);
    for (index_t i = begin, at = r.cell[2]; i < length && at < dims[2].cells; ++i, at += r.step) {
      token[count] = static_cast<std::int32_t>(number + i);
      x[count]     = static_cast<std::int32_t>(at);
      side[count]  = of_row + side_of(dims[2], at);
      ++count;
    }
    r.length = count - r.place;
    if (r.length > 0) run[runs++] = r;
  }
};

}  // namespace shard::impl

#endif
