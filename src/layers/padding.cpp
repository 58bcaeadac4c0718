// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <vector>

#include "launch.hpp"
#include "shard/base/error.hpp"
#include "shard/layers/window/pad.hpp"

namespace shard::impl {

template <class T>
struct ClearCellsKernel {
  RowSplit split;
  Block<T> to;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r = split.row(item);
    for (index_t x = r.x; x < r.x + r.count; ++x) to.at(r.n, r.c, r.z, r.y, x) = T(0);
  }
};

template <class Space, class T>
void PaddingKernels<Space, T>::clear(const Space& space, const Block<T>& x) {
  const RowSplit split = RowSplit::of(space, x);
  launch("shard::clear_cells", space, split.items(), ClearCellsKernel<T>{split, x});
}

namespace {

/// The error of a padding of `width` cells at one side of a dimension; empty if it is valid.
std::string wrong_side(const Geometry& from, int d, int width, const BoundarySide& side) {
  if (width <= 0 || side.kind == BoundaryKind::constant) return {};
  const index_t n = from.global(d);
  if (n == 0) return "has no cells, so that there are no images of them around it";
  if (n == 1 && (side.kind == BoundaryKind::reflect || side.kind == BoundaryKind::fold_on_row))
    return "can't be reflected about its only cell; use Symmetric, Clamp or a fold between rows";
  if (side.longitude >= 0 && from.global(side.longitude) % 2 != 0)
    return "is folded over the poles, which needs an even number of longitudes; dimension " +
           text(side.longitude) + " has " + text(from.global(side.longitude));
  return {};
}

}  // namespace

void require_padding(const char* function, const Geometry& to, const Geometry& from,
                     const Reindexing* pads) {
  for (int d = 0; d < from.rank; ++d) {
    const Reindexing& pad = pads[d];
    const index_t n       = from.global(d);
    if (to.global(d) != n + pad.lo + pad.hi)
      throw_argument(function, {"dimension ", text(d), " of \"", to.label, "\" has ",
                                text(to.global(d)), " cells; ", text(n), " of \"", from.label,
                                "\" become ", text(n + pad.lo + pad.hi)});
    if (-pad.lo > n || -pad.hi > n)
      throw_argument(function, {"dimension ", text(d), " of \"", from.label, "\" has ", text(n),
                                " cells and would lose more"});
    for (const std::string& wrong :
         {wrong_side(from, d, pad.lo, pad.low), wrong_side(from, d, pad.hi, pad.high)})
      if (!wrong.empty())
        throw_argument(function, {"dimension ", text(d), " of \"", from.label, "\" ", wrong});
  }
}

Partition padded_partition(const char* function, const Partition& cells, index_t low, index_t high,
                           index_t multiple) {
  const index_t n = cells.size(), m = n + low + high;
  if (m < 0)
    throw_argument(function, {"a dimension of ", text(n), " cells would lose ", text(-low - high)});
  std::vector<index_t> begins(static_cast<std::size_t>(cells.parts()) + 1, m);
  for (int r = 0; r < cells.parts(); ++r) {
    const index_t b                     = cells.begin(r);
    begins[static_cast<std::size_t>(r)] = b == 0   ? 0
                                          : b == n ? m
                                                   : std::clamp<index_t>(b + low, 0, m);
  }
  if (multiple > 1)
    for (index_t& b : begins) b = std::min(m, (b + multiple - 1) / multiple * multiple);
  return Partition::explicit_begins(std::move(begins));
}

SHARD_KERNELS(PaddingKernels)

}  // namespace shard::impl
