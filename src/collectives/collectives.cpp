// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The boxes that each collective sends from rank to rank.
#include "collective.hpp"

namespace shard::impl {

namespace {

using Steps = std::vector<TransferStep>;

std::string along(const CollectiveCall& call) { return ", dimension " + text(call.dim); }
std::string scaled_by(const CollectiveCall& call) {
  constexpr const char* names[] = {"sum", "max", "min"};
  return std::string(", ") + names[static_cast<std::size_t>(call.op)] + ", scale " +
         text_of(call.scale);
}

/// Each rank reduces its share of all ranks' values.
template <class Space>
TransferStep reducing_shares(const Collective<Space>& all, const PieceBox& whole) {
  const int me   = all.coordinate();
  BoxRoute route = all.combining(all.reduction());
  route.keep(all.share(whole, me), all.share(whole, me), me);
  all.for_others([&](int r) {
    route.send(r, all.share(whole, r));
    route.receive(r, all.share(whole, me), r);
  });
  return route.step();
}

/// Each rank sends its share to the ranks that need it: to all but `from_root`, which has
/// everything; or only to `to_root` if that isn't -1.
template <class Space>
TransferStep gathering_shares(const Collective<Space>& all, const PieceBox& whole, int from_root,
                              int to_root) {
  const int me   = all.coordinate();
  BoxRoute route = all.copying(2);
  route.keep(all.share(whole, me), all.share(whole, me), 0, 1);
  all.for_others([&](int r) {
    if (r != from_root && (to_root < 0 || r == to_root)) route.send(r, all.share(whole, me), 1);
    if (me != from_root && (to_root < 0 || me == to_root))
      route.receive(r, all.share(whole, r), 0, 1);
  });
  return route.step();
}

template <class Space>
Steps scaled(const Collective<Space>& all, const PieceBox& read, const PieceBox& written,
             double scale) {
  BoxRoute route = scale == 1 ? all.copying() : all.combining({ReductionKind::sum, false, scale});
  route.keep(read, written);
  return one_step(std::move(route));
}

}  // namespace

template <class Space>
void Collectives<Space>::all_reduce(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  const auto check = [&] {
    all.agree(scaled_by(call));
    all.require_same();
    all.require_scalable();
  };
  all.run(check, [&] {
    const PieceBox whole = all.whole(call.to);
    Steps steps;
    if (!all.is_small()) {
      steps.push_back(reducing_shares(all, whole));
      steps.push_back(gathering_shares(all, whole, -1, -1));
      return steps;
    }
    BoxRoute route = all.combining(all.reduction());
    route.keep(whole, whole, all.coordinate());
    all.for_others([&](int r) {
      route.send(r, whole);
      route.receive(r, whole, r);
    });
    steps.push_back(route.step());
    return steps;
  });
}

template <class Space>
void Collectives<Space>::reduce_shares(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  all.add_to_key("reduce");
  const auto check = [&] {
    all.agree(scaled_by(call));
    all.require_same();
  };
  all.run(check, [&] { return Steps{reducing_shares(all, all.whole(call.to))}; });
}

template <class Space>
void Collectives<Space>::gather_shares(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  all.add_to_key("gather");
  const auto check = [&] {
    all.agree("");
    all.require_same();
  };
  all.run(check, [&] { return Steps{gathering_shares(all, all.whole(call.to), -1, -1)}; });
}

template <class Space>
void Collectives<Space>::all_gather(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  int d            = 0;
  const auto check = [&] {
    all.agree(along(call) + scaled_by(call));
    d = all.dim("the dimension", call.dim);
    all.require_same(d);
    all.require_extent(d, call.from.extent[Geometry::at(d)] * all.size(), ", which over all ranks");
    all.require_scalable();
  };
  all.run(check, [&] {
    const index_t n = call.from.extent[Geometry::at(d)];
    const int me    = all.coordinate();
    const auto of   = [&](int r) { return all.slice(call.to, d, r * n, n); };
    const bool once = call.scale == 1;
    Steps steps;
    if (!once) steps = scaled(all, all.whole(call.from), of(me), call.scale);
    const int field     = once ? 0 : 1;
    BoxRoute route      = all.copying(field + 1);
    const PieceBox mine = once ? all.whole(call.from) : of(me);
    route.keep(mine, of(me), 0, field);
    all.for_others([&](int r) {
      route.send(r, mine, field);
      route.receive(r, of(r), 0, field);
    });
    steps.push_back(route.step());
    return steps;
  });
}

template <class Space>
void Collectives<Space>::reduce_scatter(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  int d            = 0;
  const auto check = [&] {
    // first, because shards differ by rank if the length can't be divided equally
    all.agree(along(call) + scaled_by(call), -1, all.wrong_in([&] {
      d = all.dim("the dimension", call.dim);
      all.require_divides(d);
    }));
    all.require_same(d);
    all.require_extent(d, call.from.extent[Geometry::at(d)] / all.size(), ", a shard of which");
    all.require_scalable();
  };
  all.run(check, [&] {
    const index_t n = call.to.extent[Geometry::at(d)];
    const int me    = all.coordinate();
    const auto of   = [&](int r) { return all.slice(call.from, d, r * n, n); };
    BoxRoute route  = all.combining(all.reduction());
    route.keep(of(me), all.whole(call.to), me);
    all.for_others([&](int r) {
      route.send(r, of(r));
      route.receive(r, all.whole(call.to), r);
    });
    return one_step(std::move(route));
  });
}

template <class Space>
void Collectives<Space>::all_to_all(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  int split = 0, concat = 0;
  const auto check = [&] {
    all.agree(", split dimension " + text(call.dim) + ", concat dimension " + text(call.concat_dim),
              -1, all.wrong_in([&] {
                split  = all.dim("the split dimension", call.dim);
                concat = all.dim("the concat dimension", call.concat_dim);
                all.require_divides(split);
              }));
    if (split == concat) {
      all.require_same();
    } else {
      all.require_same(split, concat);
      all.require_extent(split, call.from.extent[Geometry::at(split)] / all.size(),
                         ", a piece of which");
      all.require_extent(concat, call.from.extent[Geometry::at(concat)] * all.size(),
                         ", which over all ranks");
    }
  };
  all.run(check, [&] {
    const index_t out  = call.from.extent[Geometry::at(split)] / all.size(),
                  in   = call.to.extent[Geometry::at(concat)] / all.size();
    const int me       = all.coordinate();
    const auto read    = [&](int r) { return all.slice(call.from, split, r * out, out); };
    const auto written = [&](int r) { return all.slice(call.to, concat, r * in, in); };
    BoxRoute route     = all.copying();
    route.keep(read(me), written(me));
    all.for_others([&](int r) {
      route.send(r, read(r));
      route.receive(r, written(r));
    });
    return one_step(std::move(route));
  });
}

template <class Space>
void Collectives<Space>::broadcast(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  const auto check = [&] {
    all.agree(", root " + text(call.root));
    all.require_same();
    all.require_root();
  };
  all.run(check, [&] {
    // large values are sent in shares, which all ranks pass on, so that the root sends each value
    // once
    const bool in_one_step = all.is_small() || all.size() == 2;
    const PieceBox whole   = all.whole(call.to);
    const auto of          = [&](int r) { return in_one_step ? whole : all.share(whole, r); };
    BoxRoute route         = all.copying();
    if (all.coordinate() == call.root) {
      route.keep(whole, whole);
      all.for_others([&](int r) { route.send(r, of(r)); });
    } else {
      route.receive(call.root, of(all.coordinate()));
    }
    Steps steps;
    steps.push_back(route.step());
    if (!in_one_step) steps.push_back(gathering_shares(all, whole, call.root, -1));
    return steps;
  });
}

template <class Space>
void Collectives<Space>::reduce(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  const auto check = [&] {
    all.agree(", root " + text(call.root));
    all.require_same();
    all.require_root();
  };
  all.run(check, [&] {
    const PieceBox whole = all.whole(call.to);
    const bool root      = all.coordinate() == call.root;
    Steps steps;
    if (!all.is_small()) {
      steps.push_back(reducing_shares(all, whole));
      steps.push_back(gathering_shares(all, whole, -1, call.root));
    } else {
      BoxRoute route = all.combining(all.reduction());
      if (root) {
        route.keep(whole, whole, call.root);
        all.for_others([&](int r) { route.receive(r, whole, r); });
      } else {
        route.send(call.root, whole);
      }
      steps.push_back(route.step());
    }
    BoxRoute zeros = all.copying();
    if (!root) zeros.clear(whole);
    steps.push_back(zeros.step());
    return steps;
  });
}

template <class Space>
void Collectives<Space>::scaled_copy(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  all.require_same();
  all.require_scalable();
  all.run_here(scaled(all, all.whole(call.from), all.whole(call.to), call.scale));
}

#define SHARD_STRUCT(Memory, Space) template struct Collectives<Space>;
SHARD_FOR_EACH_SPACE(SHARD_STRUCT)
#undef SHARD_STRUCT

}  // namespace shard::impl
