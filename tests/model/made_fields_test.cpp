// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every function that makes a field from another one, with fields that hold their cells in every
// way there is: the results are those of plain fields on a mesh of their own, and nothing but
// results is written to.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/autodiff/complex_step.hpp"
#include "shard/autodiff/external_function.hpp"
#include "shard/autodiff/halo_exchange.hpp"
#include "shard/autodiff/tape.hpp"
#include "shard/layers/attention/attention.hpp"
#include "shard/model/domain_parallel.hpp"
#include "shard/shard.hpp"
#include "support/support.hpp"

namespace {

using namespace shard;
using shard::testing::ScopedVariable;

struct Lat;
struct Lon;
using Grid   = Mesh<Lat, Lon>;
using Space  = Kokkos::DefaultHostExecutionSpace;
using Host   = Kokkos::HostSpace;
using Right  = Kokkos::LayoutRight;
using Values = std::vector<double>;

/// Fields with these boundaries; `Wide` and `Five` are what they are taken from.
template <class LatBoundary, class LonBoundary>
struct Fields {
  template <int Lo, int Hi, int First = 2>
  using North = ShardDim<First, Lat, Halo<Lo, Hi>, LatBoundary>;
  template <int Lo, int Hi, int First = 2>
  using East = ShardDim<First + 1, Lon, Halo<Lo, Hi>, LonBoundary>;

  using X        = ShardedView<double****, Right, North<1, 1>, East<1, 1>, Host>;
  using Wide     = ShardedView<double****, Right, North<2, 3>, East<3, 2>, Host>;
  using Five     = ShardedView<double*****, Right, North<1, 1, 3>, East<1, 1, 3>, Host>;
  using FiveWide = ShardedView<double*****, Right, ShardDim<0, Unsharded, Halo<2, 1>, Clamp>,
                               North<1, 1, 3>, East<1, 1, 3>, Host>;
  // the slices of these at an index of the last dimension have LayoutStride
  using Last     = ShardedView<double*****, Right, North<1, 1>, East<1, 1>, Host>;
  using LastWide = ShardedView<double*****, Right, North<1, 1>, East<1, 1>,
                               ShardDim<4, Unsharded, Halo<2, 1>, Clamp>, Host>;
  using Strided  = ShardedView<double****, Kokkos::LayoutStride, North<1, 1>, East<1, 1>, Host>;
};
using Real    = Fields<Constant<2.0>, Periodic>;
using X       = Real::X;
using Strided = Real::Strided;

static_assert(!std::is_convertible_v<const impl::FieldState&, impl::Geometry>,
              "a field is not made from the state of another one");

enum class Kind {
  plain,
  narrowed,
  padded,
  wrapped,
  slice,
  slice_of_narrowed,
  shared,
  narrowed_shared,
  slice_of_shared
};
constexpr Kind kinds[]        = {Kind::plain,   Kind::narrowed,        Kind::padded,
                                 Kind::wrapped, Kind::slice,           Kind::slice_of_narrowed,
                                 Kind::shared,  Kind::narrowed_shared, Kind::slice_of_shared};
constexpr const char* names[] = {"plain",   "narrowed",        "padded",
                                 "wrapped", "slice",           "slice of narrowed",
                                 "shared",  "narrowed shared", "slice of shared"};
constexpr index_t extents[]   = {1, 2, 7, 18};
const char* name_of(Kind kind) { return names[static_cast<int>(kind)]; }

/// Balanced along both axes, or the later ranks with more.
template <std::size_t Rank>
std::array<Partition, Rank> partitions_of(const Grid& mesh, bool uneven, std::size_t first_cut,
                                          std::array<index_t, Rank> n) {
  std::array<Partition, Rank> p;
  for (std::size_t d = 0; d < Rank; ++d) {
    const bool lat = d == first_cut, lon = d == first_cut + 1;
    const int parts = lat ? mesh.size<Lat>() : lon ? mesh.size<Lon>() : 1;
    p[d]            = Partition::balanced(n[d], parts);
    if (uneven && parts > 1) {
      std::vector<index_t> counts(static_cast<std::size_t>(parts), 3);
      counts.back() = n[d] - 3 * (parts - 1);
      p[d]          = Partition::explicit_counts(counts);
    }
  }
  return p;
}

double value_at(double phase, index_t n, index_t c, index_t i, index_t j) {
  return std::sin(phase + 0.9 * static_cast<double>(n) + 0.7 * static_cast<double>(c * (i + 1)) +
                  1.3 * static_cast<double>(j * (i + 2)) + 0.2 * static_cast<double>(i));
}

/// Calls visit(n, c, i, j) with local indices; with halos if `haloed`.
template <class F, class Visit>
void for_cells(const F& f, bool haloed, const Visit& visit) {
  const auto lo = [&](int d) { return haloed ? -static_cast<index_t>(F::halo_lo(d)) : 0; };
  const auto hi = [&](int d) { return f.extent(d) + (haloed ? F::halo_hi(d) : 0); };
  for (index_t n = lo(0); n < hi(0); ++n)
    for (index_t c = lo(1); c < hi(1); ++c)
      for (index_t i = lo(2); i < hi(2); ++i)
        for (index_t j = lo(3); j < hi(3); ++j) visit(n, c, i, j);
}
template <class F>
Values cells(const F& f, bool haloed) {
  Space().fence("cells are read");
  Values v;
  for_cells(f, haloed, [&](auto... i) { v.push_back(f(i...)); });
  return v;
}
void append(Values& to, const Values& more) { to.insert(to.end(), more.begin(), more.end()); }

/// A field, and the whole of the memory that it lies in as it was when it was made.
template <class F>
struct Input {
  F field;
  const double* data = nullptr;
  Values before;
  std::shared_ptr<void> keep;  ///< what the memory belongs to

  /// What lies around the field as it was and, unless it is a result, its cells too. Halos are
  /// written by every exchange.
  bool unchanged(bool is_result) const {
    Space().fence("memory is compared");
    std::vector<char> may(before.size(), 0);
    const auto mark = [&](bool haloed, char to) {
      for_cells(field, haloed,
                [&](auto... i) { may[static_cast<std::size_t>(&field(i...) - data)] = to; });
    };
    mark(true, 1);
    if (!is_result) mark(false, 0);
    for (std::size_t k = 0; k < before.size(); ++k)
      if (may[k] == 0 && data[k] != before[k]) return false;
    return true;
  }
};

template <class F, class View>
Input<F> input_in(const F& field, const View& all, double phase,
                  const std::shared_ptr<void>& keep = nullptr) {
  Input<F> made{field, all.data(), Values(all.span()), keep};
  for (std::size_t k = 0; k < all.span(); ++k) all.data()[k] = 1e3 + static_cast<double>(k);
  for_cells(field, false, [&](index_t n, index_t c, index_t i, index_t j) {
    field(n, c, i, j) = value_at(phase, n, c, field.begin(2) + i, field.begin(3) + j);
  });
  std::copy(all.data(), all.data() + all.span(), made.before.data());
  return made;
}

template <class F>
F made_of(bool shared, const char* label, const Grid& mesh,
          const std::array<Partition, F::rank>& p) {
  return shared ? shared_field<F>(label, mesh, p) : F(label, mesh, p);
}

template <class Types>
Input<typename Types::X> make(Kind kind, const Grid& mesh, bool uneven, double phase,
                              typename Types::X*) {
  using F = typename Types::X;
  const auto p =
      partitions_of<4>(mesh, uneven, 2, {extents[0], extents[1], extents[2], extents[3]});
  const auto five =
      partitions_of<5>(mesh, uneven, 3, {3, extents[0], extents[1], extents[2], extents[3]});
  const Kokkos::ALL_t all;
  const bool shared =
      kind == Kind::shared || kind == Kind::narrowed_shared || kind == Kind::slice_of_shared;
  switch (kind) {
    case Kind::narrowed:
    case Kind::narrowed_shared: {
      const auto wide = made_of<typename Types::Wide>(shared, "wide", mesh, p);
      return input_in<F>(wide, wide.view(), phase);
    }
    case Kind::padded:
    case Kind::wrapped: {
      const F like("like", mesh, p);
      const auto n = [&](int d) { return like.view().extent(static_cast<std::size_t>(d)); };
      if (kind == Kind::padded) {
        const typename F::view_type view(Kokkos::view_alloc("padded", Kokkos::AllowPadding), n(0),
                                         n(1), n(2), n(3));
        if (KOKKOS_VERSION >= 50000) {  // earlier ones pad other extents
          EXPECT_EQ(n(3) > 8, view.span() != n(0) * n(1) * n(2) * n(3)) << "not padded";
        }
        return input_in(F(mesh, view, p), view, phase);
      }
      const auto values = std::make_shared<Values>(like.view().span());
      const typename F::view_type view(values->data(), n(0), n(1), n(2), n(3));
      return input_in(F(mesh, view, p), view, phase, values);
    }
    case Kind::slice:
    case Kind::slice_of_shared: {
      const auto of = made_of<typename Types::Five>(shared, "five", mesh, five);
      return input_in<F>(subview(of, 1, all, all, all, all), of.view(), phase);
    }
    case Kind::slice_of_narrowed: {
      const typename Types::FiveWide wide("five", mesh, five);
      const typename Types::Five of = wide;
      const F f                     = subview(of, 1, all, all, all, all);
      EXPECT_EQ(f.origin(), &of(1, 0, 0, 0, 0));
      return input_in(f, of.view(), phase);
    }
    default: {
      const F f = made_of<F>(shared, "x", mesh, p);
      return input_in(f, f.view(), phase);
    }
  }
}

/// The same of fields with LayoutStride, which are slices.
template <class Types>
Input<typename Types::Strided> make(Kind kind, const Grid& mesh, bool uneven, double phase,
                                    typename Types::Strided*) {
  using F = typename Types::Strided;
  const auto p =
      partitions_of<5>(mesh, uneven, 2, {extents[0], extents[1], extents[2], extents[3], 3});
  const Kokkos::ALL_t all;
  if (kind == Kind::slice_of_narrowed) {
    const typename Types::LastWide wide("last", mesh, p);
    const typename Types::Last of = wide;
    const F f                     = subview(of, all, all, all, all, 1);
    EXPECT_EQ(f.origin(), &of(0, 0, 0, 0, 1));
    return input_in(f, of.view(), phase);
  }
  const auto of = made_of<typename Types::Last>(kind == Kind::slice_of_shared, "last", mesh, p);
  return input_in<F>(subview(of, all, all, all, all, 1), of.view(), phase);
}

// ---- what is done with them

/// What an operation is given. Fields `a` and `c` own the same cells, `b` others; `u` and `v` are
/// results, cut as a and as b.
template <class F>
struct Given {
  Space space;
  Grid mesh;
  F a, b, c, u, v;
};

template <class To, class From>
struct SquareKernel {
  To y;
  From x;
  KOKKOS_FUNCTION void operator()(index_t n, index_t c, index_t i, index_t j) const {
    y(n, c, i, j) = x(n, c, i, j) * x(n, c, i, j);
  }
};
template <class To, class From>
struct TwiceProductKernel {
  To y;
  From a, b;
  KOKKOS_FUNCTION void operator()(index_t n, index_t c, index_t i, index_t j) const {
    y(n, c, i, j) = 2.0 * a(n, c, i, j) * b(n, c, i, j);
  }
};
/// y = x^2, cell by cell.
struct Square {
  template <class Y, class From>
  void apply(const Space& space, const Y& y, const From& x) const {
    shard::parallel_for("square", space, owned_region(y), SquareKernel<Y, From>{y, x});
  }
  template <class TY, class From>
  void pushforward(const Space& space, const TY& ty, const From& tx, const From& x) const {
    shard::parallel_for("product", space, owned_region(ty),
                        TwiceProductKernel<TY, From>{ty, tx, x});
  }
  template <class DX, class DY>
  void pullback(const Space& space, const DX& dx, const DY& dy, const DX& x) const {
    shard::parallel_for("product", space, owned_region(dx), TwiceProductKernel<DX, DY>{dx, dy, x});
  }
};

using Halos     = HaloExchange<ShardDim<2, Lat, Halo<1, 1>, Constant<2.0>>,
                           ShardDim<3, Lon, Halo<1, 1>, Periodic>>;
using WideHalos = HaloExchange<ShardDim<2, Lat, Halo<2, 3>, Constant<2.0>>,
                               ShardDim<3, Lon, Halo<2, 1>, Periodic>>;
using Turned    = ShardedView<double****, Right, ShardDim<2, Lon>, ShardDim<3, Lat, Halo<1>>, Host>;

/// The halo of a field with X's boundaries as it is after an exchange: the serial answer.
template <class F>
void expect_halos(const F& f, double phase) {
  index_t wrong = 0;
  Space().fence("halos are read");
  for_cells(f, true, [&](index_t n, index_t c, index_t i, index_t j) {
    const index_t gi   = f.begin(2) + i,
                  gj   = ((f.begin(3) + j) % extents[3] + extents[3]) % extents[3];
    const double right = gi < 0 || gi >= extents[2] ? 2.0 : value_at(phase, n, c, gi, gj);
    if (f(n, c, i, j) != right) ++wrong;
  });
  EXPECT_EQ(wrong, 0);
}
constexpr double phase_a = 0.1, phase_b = 0.2, phase_c = 0.3;

template <class F>
struct Operation {
  const char* name;
  std::function<Values(const Given<F>&)> run;
};

template <class F>
std::vector<Operation<F>> operations() {
  using G = Given<F>;
  const Kokkos::ALL_t all;
  std::vector<Operation<F>> list;
  list.push_back({"like", [](const G& g) {
                    const F f = g.a.like("f");
                    Values v  = cells(f, true);
                    EXPECT_EQ(*std::max_element(v.begin(), v.end()), 0.0);
                    EXPECT_EQ(f.label(), "f");
                    deep_copy(g.space, f, g.a);
                    exchange(g.space, f);
                    expect_halos(f, phase_a);
                    append(v, cells(f, true));
                    const F next = f.like("next");
                    deep_copy(g.space, next, f);
                    append(v, cells(next, true));
                    return v;
                  }});
  list.push_back({"staggered", [](const G& g) {
                    const F f = g.a.template staggered<Lat>();
                    Values v  = cells(f, true);
                    distribute(g.space, f, [](auto n, auto c, auto i, auto j) {
                      return value_at(0.0, n, c, i, j);
                    });
                    append(v, cells(f, false));
                    return v;
                  }});
  list.push_back({"mirror", [](const G& g) {
                    const auto host = create_mirror_view(g.a);
                    deep_copy(g.space, host, g.a);
                    return cells(host, false);
                  }});
  list.push_back({"conversions", [](const G& g) {
                    using Bare = std::conditional_t<
                        std::is_same_v<F, X>,
                        ShardedView<const double****, Right, ShardDim<2, Lat>,
                                    ShardDim<3, Lon, Halo<1, 0>, Periodic>, Host>,
                        ShardedView<const double****, Kokkos::LayoutStride, ShardDim<2, Lat>,
                                    ShardDim<3, Lon, Halo<1, 0>, Periodic>, Host>>;
                    const Bare bare = g.a;
                    return cells(bare, false);
                  }});
  list.push_back(
      {"narrower fields", [](const G& g) {
         using Bare =
             std::conditional_t<std::is_same_v<F, X>,
                                ShardedView<double****, Right, ShardDim<2, Lat>,
                                            ShardDim<3, Lon, Halo<1, 0>, Periodic>, Host>,
                                ShardedView<double****, Kokkos::LayoutStride, ShardDim<2, Lat>,
                                            ShardDim<3, Lon, Halo<1, 0>, Periodic>, Host>>;
         const Bare bare = g.a, f = bare.like("f");
         deep_copy(g.space, f, bare);
         exchange(g.space, f);
         return cells(f, true);
       }});
  list.push_back({"slices", [all](const G& g) {
                    exchange(g.space, g.a);
                    const auto first = subview(g.a, all, 1, all, all), f = first.like("slice");
                    deep_copy(g.space, f, first);
                    Values v;
                    for (index_t n = 0; n < f.extent(0); ++n)
                      for (index_t i = -1; i < f.extent(1) + 1; ++i)
                        for (index_t j = -1; j < f.extent(2) + 1; ++j) {
                          EXPECT_EQ(first(n, i, j), g.a(n, 1, i, j));
                          v.push_back(f(n, i, j));
                        }
                    return v;
                  }});
  list.push_back({"HaloExchange", [](const G& g) {
                    const auto y = WideHalos{}.output(g.a);
                    WideHalos{}.apply(g.space, y, g.a);
                    expect_halos(y, phase_a);
                    Values v      = cells(y, true);
                    const auto dy = y.like("dy");
                    Kokkos::deep_copy(g.space, dy.owned(), y.owned());
                    exchange_tangent(g.space, dy);
                    append(v, cells(dy, true));
                    WideHalos{}.pullback(g.space, g.u, dy);
                    append(v, cells(g.u, false));
                    return v;
                  }});
  list.push_back({"exchange_tangent", [](const G& g) {
                    copy_owned(g.space, g.u, g.a);
                    exchange_tangent(g.space, g.u);
                    return cells(g.u, true);
                  }});
  list.push_back({"checks", [](const G& g) {
                    EXPECT_LT(complex_step_error(g.space, Square{}, g.a, g.c, g.c), 1e-14);
                    EXPECT_LT(complex_step_error(g.space, Halos{}, g.a, g.c, g.a), 1e-14);
                    EXPECT_LT(dot_product_error(g.space, Square{}, g.a, g.c, g.c), 1e-14);
                    EXPECT_LT(tangent_error(g.space, Square{}, g.a, g.c, g.c), 1e-6);
                    EXPECT_LT(gradient_error(g.space, Square{}, g.a, g.c, g.c), 1e-6);
                    return Values();
                  }});
  list.push_back({"Tape", [](const G& g) {
                    Tape<Space> tape(g.space);
                    const auto y = tape.run(Halos{}, g.a);
                    const auto z = tape.loop(Square{}, y, 3, Checkpoints{.slots = 2});
                    Values v     = cells(z, false);
                    append(v, cells(tape.pullback(z, g.c, g.a), false));
                    return v;
                  }});
  list.push_back({"chain", [](const G& g) {
                    const auto both = chain(g.a, Halos{}, Square{});
                    const auto y    = both.output(g.a);
                    both.apply(g.space, y, g.a);
                    both.pullback(g.space, g.u, g.c, g.a);
                    Values v = cells(y, false);
                    append(v, cells(g.u, false));
                    return v;
                  }});
  if constexpr (std::is_same_v<F, X>)
    list.push_back({"ExternalFunction", [](const G& g) {
                      const ExternalFunction function(g.space, Square{}, g.a, g.c);
                      Values in = cells(g.a, false), out(in.size());
                      function.apply(in.data(), out.data());
                      return out;
                    }});
  list.push_back({"redistribute", [](const G& g) {
                    const Turned turned = redistribute<Turned>(g.space, g.a);
                    Values v            = cells(turned, false);
                    const Turned to     = RedistributeTo<Turned>{}.output(g.b);
                    redistribute(g.space, to, g.b);
                    append(v, cells(to, false));
                    redistribute(g.space, g.v, turned);
                    append(v, cells(g.v, false));
                    return v;
                  }});
  list.push_back(
      {"gather and distribute", [](const G& g) {
         const bool root = g.mesh.rank() == 0;
         const auto n    = [&](int d) { return root ? static_cast<std::size_t>(extents[d]) : 0; };
         const Kokkos::View<double****, Right, Host> whole("whole", n(0), n(1), n(2), n(3));
         gather(g.space, whole, g.a);
         distribute(g.space, g.v, whole);
         return cells(g.v, false);
       }});
  list.push_back({"reductions", [](const G& g) {
                    return Values{dot(g.space, g.a, g.c), sum(g.space, g.b), norm2(g.space, g.a)};
                  }});
  list.push_back({"pointwise", [](const G& g) {
                    add(g.space, g.u, g.a, g.b);
                    add(g.space, g.v, g.a, g.b);
                    Values v = cells(g.u, false);
                    append(v, cells(g.v, false));
                    copy_owned(g.space, g.v, g.a);
                    copy_owned(g.space, g.u, g.b);
                    append(v, cells(g.u, false));
                    append(v, cells(g.v, false));
                    return v;
                  }});
  list.push_back({"concatenation", [](const G& g) {
                    Values v;
                    for (const F& like : {g.a, g.b}) {
                      auto p = like.partitions();
                      p[1]   = Partition::balanced(2 * extents[1], 1);
                      const X y("y", g.mesh, p);
                      concat_channels(g.space, y, g.a, g.b);
                      append(v, cells(y, false));
                      split_channels(g.space, y, g.u, g.v);
                      append(v, cells(g.u, false));
                      append(v, cells(g.v, false));
                    }
                    return v;
                  }});
  list.push_back(
      {"losses", [](const G& g) {
         double right = 0.0, cells_of_world = 1.0;
         for (index_t n : extents) cells_of_world *= static_cast<double>(n);
         for (index_t n = 0; n < extents[0]; ++n)
           for (index_t c = 0; c < extents[1]; ++c)
             for (index_t i = 0; i < extents[2]; ++i)
               for (index_t j = 0; j < extents[3]; ++j)
                 right +=
                     std::pow(value_at(phase_a, n, c, i, j) - value_at(phase_b, n, c, i, j), 2) /
                     cells_of_world;
         Values v;
         for (const F& like : {g.a, g.b}) {
           MeanSquare loss(like, {});
           v.push_back(loss(g.space, g.a, g.b));
           v.push_back(loss(g.space, g.b, g.a));
           EXPECT_NEAR(v.back(), right, 1e-12);
           append(v, loss.by_channel(g.space, g.a, g.b));
           v.push_back(loss.pushforward(g.space, g.c, g.a, g.b));
           loss.pullback(g.space, g.u, g.a, g.b);
           loss.pullback(g.space, g.v, g.a, g.b);
           append(v, cells(g.u, false));
           append(v, cells(g.v, false));
         }
         return v;
       }});
  list.push_back({"attention", [](const G& g) {
                    const WindowAttention<4, 4> attention{.shift = {1, 2}};
                    auto state = attention.state(g.a);
                    attention.apply(g.space, state, g.u, g.a, g.c, g.a);
                    Values v = cells(g.u, false);
                    attention.pullback(g.space, state, g.u, not_wanted, not_wanted, g.c, g.a, g.c,
                                       g.a);
                    append(v, cells(g.u, false));
                    return v;
                  }});
  list.push_back({"rebound", [](const G& g) {
                    const F like = g.a.like("like");
                    const F f    = rebind(g.a, like.view());
                    EXPECT_EQ(f.label(), g.a.label());
                    EXPECT_EQ(f.origin(), like.origin());
                    copy_owned(g.space, f, g.a);
                    exchange(g.space, f);
                    expect_halos(like, phase_a);
                    return cells(f, true);
                  }});
  list.push_back({"plans", [](const G& g) {
                    const Exchange halos(g.u);
                    copy_owned(g.space, g.u, g.a);
                    halos(g.space);
                    expect_halos(g.u, phase_a);
                    bool same = true;
                    for (int d = 0; d < F::rank; ++d)
                      same = same && g.u.stride(d) == g.u.like("like").stride(d);
                    Values v = cells(g.u, true);
                    MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_CXX_BOOL, MPI_LAND,
                                  g.mesh.communicator());
                    if (!same) return v;
                    const F f = halos.template allocate<0>("f");
                    copy_owned(g.space, f, g.a);
                    halos(g.space, f);
                    expect_halos(f, phase_a);
                    return v;
                  }});
  return list;
}

/// Fields of kind A cut in one way and of kind B in another.
template <class F>
struct Inputs {
  Inputs(const Grid& grid, Kind kind_a, Kind kind_b)
      : mesh(grid),
        a(make<Real>(kind_a, mesh, false, phase_a, type)),
        b(make<Real>(kind_b, mesh, true, phase_b, type)),
        c(make<Real>(kind_b, mesh, false, phase_c, type)),
        u(make<Real>(kind_a, mesh, false, 0.4, type)),
        v(make<Real>(kind_b, mesh, true, 0.5, type)),
        stranger(make<Real>(Kind::shared, mesh, true, 0.6, static_cast<X*>(nullptr))) {}

  Values run(const Operation<F>& operation) const {
    SCOPED_TRACE(operation.name);
    const Values values =
        operation.run({Space(), mesh, a.field, b.field, c.field, u.field, v.field});
    EXPECT_TRUE(a.unchanged(false)) << "a";
    EXPECT_TRUE(b.unchanged(false)) << "b";
    EXPECT_TRUE(c.unchanged(false)) << "c";
    EXPECT_TRUE(u.unchanged(true)) << "around u";
    EXPECT_TRUE(v.unchanged(true)) << "around v";
    EXPECT_TRUE(stranger.unchanged(false)) << "another field";
    return values;
  }

  static constexpr F* type = nullptr;
  Grid mesh;
  Input<F> a, b, c, u, v;
  Input<X> stranger;
};

void expect_near(const Values& got, const Values& right) {
  ASSERT_EQ(got.size(), right.size());
  double most = 0.0;
  for (std::size_t k = 0; k < got.size(); ++k) most = std::max(most, std::abs(got[k] - right[k]));
  EXPECT_LE(most, 1e-12);
}

class MadeFields : public ::testing::TestWithParam<bool> {
 protected:
  ScopedVariable check_{"SHARD_CHECK", GetParam() ? "1" : "0"};

  /// All operations with fields of the kinds in `of` beside those of the kinds in `beside`, and the
  /// other way round. The memory of one pair is gone when the next one is made on the same mesh.
  template <class F>
  void all_pairs(std::vector<Kind> of, const std::vector<Kind>& beside) {
    const auto all = operations<F>();
    std::vector<Values> right;
    {
      const Inputs<F> plain(Grid(MPI_COMM_WORLD, {0, 0}), of[0], of[0]);
      for (const Operation<F>& operation : all) right.push_back(plain.run(operation));
    }
    for (const bool turned : {false, true}) {
      const Grid mesh(MPI_COMM_WORLD, {0, 0});
      for (const Kind one : of)
        for (const Kind other : beside) {
          const Kind a = turned ? one : other, b = turned ? other : one;
          SCOPED_TRACE(std::string(name_of(a)) + " and " + name_of(b));
          const Inputs<F> inputs(mesh, a, b);
          for (std::size_t o = 0; o < all.size(); ++o) expect_near(inputs.run(all[o]), right[o]);
        }
      std::reverse(of.begin(), of.end());
    }
  }
};

TEST_P(MadeFields, AreRightWhateverTheirInputsLieIn) {
  all_pairs<X>({std::begin(kinds), std::end(kinds)}, {Kind::plain, Kind::shared});
}

TEST_P(MadeFields, AreRightForStridedInputs) {
  all_pairs<Strided>({Kind::slice, Kind::slice_of_narrowed, Kind::slice_of_shared}, {Kind::slice});
}

/// A model's activations and adjoints.
TEST_P(MadeFields, OfModels) {
  if constexpr (std::is_same_v<Kokkos::DefaultExecutionSpace::memory_space, Host>) {
    using Zeros      = Fields<Zero, Zero>;
    using F          = Zeros::X;
    F* const type    = nullptr;
    const auto model = sequential<double>(Conv<Kernel<3, 3>, Padding<1, 1>>{extents[1], 4}, SiLU{},
                                          Conv<Kernel<3, 3>, Padding<1, 1>>{4, 2});
    Values right;
    const Grid mesh(MPI_COMM_WORLD, {0, 0});
    const auto sharded = domain_parallel<Lat, Lon>(model, mesh);
    for (const Kind kind : kinds) {
      SCOPED_TRACE(name_of(kind));
      const auto x  = make<Zeros>(kind, mesh, true, phase_a, type),
                 dx = make<Zeros>(kind, mesh, true, phase_b, type);
      using Input   = typename decltype(sharded)::Input;
      const auto y  = sharded.output(Input(x.field));
      sharded.apply(Space(), y, Input(x.field));
      sharded.pullback(Space(), Input(dx.field), y, Input(x.field));
      Values v = cells(y, false);
      append(v, cells(dx.field, false));
      EXPECT_TRUE(x.unchanged(false));
      EXPECT_TRUE(dx.unchanged(true));
      if (right.empty()) right = v;
      expect_near(v, right);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Checked, MadeFields, ::testing::Bool(), [](const auto& check) {
  return check.param ? "WithShardCheck" : "WithoutShardCheck";
});

}  // namespace
