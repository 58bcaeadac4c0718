// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "by_dimension.hpp"

#include <algorithm>
#include <optional>

#include "shard/base/error.hpp"

namespace shard::impl {

namespace {

bool has_halo(const DimSpec& dim) { return dim.lo > 0 || dim.hi > 0; }

/// Whether `is` holds for a side of the dimension that has a halo.
template <class Predicate>
bool some_side(const DimSpec& dim, const Predicate& is) {
  return (dim.lo > 0 && is(dim.low)) || (dim.hi > 0 && is(dim.high));
}

bool is_constant(const BoundarySide& side) { return side.kind == BoundaryKind::constant; }

/// Whether the halo along dimension `a` must be filled before the halo along `b`, so that elements
/// outside in both get the same values as in the direct exchange.
bool goes_before(const FieldSpec& spec, int a, int b) {
  const DimSpec &first = spec.dims[Geometry::at(a)], &second = spec.dims[Geometry::at(b)];
  // a fold maps owned longitudes to owned ones, not their halo
  if (some_side(first, [&](const BoundarySide& side) { return side.longitude == b; })) return true;
  // an odd fold must not change the sign of constants
  if (some_side(first, [](const BoundarySide& side) { return side.odd; }) &&
      some_side(second, is_constant))
    return true;
  // where two constants overlap, that of the lower dimension holds, so it is filled last
  return a > b && some_side(first, [&](const BoundarySide& mine) {
           return is_constant(mine) && some_side(second, [&](const BoundarySide& other) {
                    return is_constant(other) && other.value != mine.value;
                  });
         });
}

/// The dimensions of a field's halo in the order of their phases. Unsharded ones are first, because
/// the last phase overlaps with the work between start and finish. The others follow by mesh axis,
/// so that the fields of a plan have the same peers in a phase. None if no order is right.
std::optional<std::vector<int>> order_of(const FieldSpec& spec) {
  std::vector<int> left, order;
  for (int d = 0; d < spec.rank; ++d)
    if (has_halo(spec.dims[Geometry::at(d)])) left.push_back(d);
  const auto axis_of = [&](int d) {
    const DimSpec& dim = spec.dims[Geometry::at(d)];
    return dim.axis_count > 0 ? dim.axes[0] : -1;
  };
  std::stable_sort(left.begin(), left.end(), [&](int a, int b) { return axis_of(a) < axis_of(b); });
  while (!left.empty()) {
    const auto next = std::find_if(left.begin(), left.end(), [&](int d) {
      return std::none_of(left.begin(), left.end(),
                          [&](int other) { return other != d && goes_before(spec, other, d); });
    });
    if (next == left.end()) return std::nullopt;
    order.push_back(*next);
    left.erase(next);
  }
  return order;
}

/// What the phase of dimension order[k] exchanges; nothing for k < 0.
FieldSpec spec_of_phase(const FieldSpec& whole, const std::vector<int>& order, int k) {
  FieldSpec spec = whole;
  for (int i = 0; i < static_cast<int>(order.size()); ++i) {
    DimSpec& dim = spec.dims[Geometry::at(order[Geometry::at(i)])];
    if (i == k) {
      spec.label += ", dimension " + text(order[Geometry::at(i)]);
    } else if (i > k) {
      dim.lo = dim.hi = 0;
    } else {
      // both ends of this phase's messages have these elements, so their owner doesn't matter
      const index_t cells = dim.to.count(dim.coordinate) + dim.lo + dim.hi;
      dim                 = DimSpec();
      dim.from = dim.to = Partition::balanced(cells, 1);
    }
  }
  return spec;
}

}  // namespace

PhasedFields::PhasedFields(const std::vector<FieldSpec>& fields) : fields_(fields) {
  int phases = 0;
  for (const FieldSpec& spec : fields) {
    if (spec.route != RouteKind::halo || spec.part != HaloPart::all) return;
    for (int d = 0; d < spec.rank; ++d)
      if (some_side(spec.dims[Geometry::at(d)],
                    [](const BoundarySide& side) { return !pads(side); })) {
        wrong_ = "the halo of \"" + spec.label + "\" has a NorthFold, Given, ByIndex or blocks";
        return;
      }
    const auto order = order_of(spec);
    if (!order) {
      wrong_ = "the halo of \"" + spec.label +
               "\" has folds or constants that would each have to be exchanged before the other";
      return;
    }
    orders_.push_back(*order);
    phases = std::max(phases, static_cast<int>(order->size()));
  }
  if (phases > 1) phases_ = phases;
}

Route PhasedFields::route(const MeshState& mesh, int phase) const {
  // fields with fewer phases take part in the last ones
  const auto own_phase = [&](std::size_t f) {
    return phase - phases_ + static_cast<int>(orders_[f].size());
  };
  std::vector<FieldSpec> specs;
  for (std::size_t f = 0; f < fields_.size(); ++f)
    specs.push_back(spec_of_phase(fields_[f], orders_[f], own_phase(f)));
  Route route = route_of(mesh, specs);
  // along dimensions of earlier phases, indices count from the beginning of the halo
  for (auto* list : {&route.sends, &route.receives, &route.locals, &route.fills})
    for (Piece& piece : *list) {
      const auto f = static_cast<std::size_t>(piece.field);
      for (int k = 0; k < own_phase(f); ++k) {
        const auto d = Geometry::at(orders_[f][Geometry::at(k)]);
        piece.source[d] -= fields_[f].dims[d].lo;
        piece.target[d] -= fields_[f].dims[d].lo;
      }
    }
  return route;
}

}  // namespace shard::impl
