// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/view/boundary.hpp"

#include <algorithm>
#include <deque>
#include <mutex>
#include <vector>

#include "handles.hpp"

namespace shard::c {

namespace {

using impl::text;
using impl::throw_argument;

/// A list that is equal to this one and never ends.
const BoundarySide* kept(const std::vector<BoundarySide>& sides) {
  static std::mutex mutex;
  static auto& lists = *new std::deque<std::vector<BoundarySide>>;  // plans outlive static objects
  const std::lock_guard lock(mutex);
  auto found = std::find(lists.begin(), lists.end(), sides);
  if (found == lists.end()) found = lists.insert(lists.end(), sides);
  return found->data();
}

int other_dimension(const shard_boundary& b, int own, int rank, const char* what) {
  if (b.dimension < 0 || b.dimension >= rank || b.dimension == own)
    throw_argument(field_wrap, {"dimension ", text(own), " has ", what, " whose dimension is ",
                                text(b.dimension), "; it is another one of 0 to ", text(rank - 1)});
  return b.dimension;
}

BoundarySide simple(BoundaryKind kind, bool odd = false) {
  BoundarySide side;
  side.kind = kind;
  side.odd  = odd;
  return side;
}

}  // namespace

BoundarySide side_of(const shard_boundary& b, int own, int rank, bool high) {
  switch (b.kind) {
    case shard_constant: {
      BoundarySide side = simple(BoundaryKind::constant);
      side.value        = b.value;
      return side;
    }
    case shard_periodic: return simple(BoundaryKind::periodic);
    case shard_reflect: return simple(BoundaryKind::reflect, b.odd != 0);
    case shard_symmetric: return simple(BoundaryKind::symmetric, b.odd != 0);
    case shard_clamp: return simple(BoundaryKind::clamp);
    case shard_given: return simple(BoundaryKind::given);
    case shard_pole_fold: {
      BoundarySide side = simple(
          b.pole == shard_pole_on_row ? BoundaryKind::fold_on_row : BoundaryKind::fold_between_rows,
          b.odd != 0);
      side.longitude = other_dimension(b, own, rank, "a pole fold");
      return side;
    }
    case shard_north_fold: {
      if (!high)
        throw_argument(field_wrap, {"dimension ", text(own),
                                    " has a north fold on its low side; it is on the high side"});
      if (b.pivot < shard_t_point || b.pivot > shard_f_point || b.position < shard_at_centre ||
          b.position > shard_at_south_west)
        throw_argument(field_wrap, {"the north fold of dimension ", text(own),
                                    " has an unknown pivot or position"});
      return impl::north_side(static_cast<Pivot>(b.pivot), static_cast<At>(b.position),
                              b.odd != 0 ? Parity::odd : Parity::even,
                              other_dimension(b, own, rank, "a north fold"));
    }
    case shard_by_index: {
      if (b.count < 1 || b.each == nullptr)
        throw_argument(field_wrap, {"dimension ", text(own),
                                    " has a boundary by index without a "
                                    "boundary for each index"});
      std::vector<BoundarySide> sides;
      for (int i = 0; i < b.count; ++i) {
        sides.push_back(side_of(b.each[i], own, rank, high));
        if (sides.back().longitude >= 0)
          throw_argument(field_wrap, {"the boundaries by index of dimension ", text(own),
                                      " are neither folds nor by index"});
      }
      BoundarySide side = simple(BoundaryKind::by_index);
      side.longitude    = other_dimension(b, own, rank, "a boundary by index");
      side.sides        = kept(sides);
      side.count        = b.count;
      return side;
    }
    default:
      throw_argument(field_wrap, {"dimension ", text(own), " has the boundary kind ", text(b.kind),
                                  ", which doesn't exist"});
  }
}

}  // namespace shard::c
