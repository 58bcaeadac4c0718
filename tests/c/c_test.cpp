// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The C interface: the bits of the C++ interface, and an error code and a sentence for each misuse.
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "c/cases.hpp"

namespace c_test {

template <class F>
void check_exchange(int type, const shard_boundary& low, const shard_boundary& high,
                    const shard_boundary& lon) {
  const Case c;
  const Space space;
  const F a("a", c.mesh, c.partitions), b("b", c.mesh, c.partitions), a2 = a.like("a2"),
                                                                      b2 = b.like("b2");
  const auto dims        = c.dimensions(low, high, lon);
  shard_field own[]      = {c.wrap("a", a2, type, dims), c.wrap("b", b2, type, dims)};
  const auto refill      = [&] { fill(a, 1), fill(a2, 1), fill(b, 2), fill(b2, 2); };
  const auto expect_same = [&](const char* what) {
    EXPECT_EQ(differences(a, a2), 0) << what;
    EXPECT_EQ(differences(b, b2), 0) << what;
  };
  const Exchange halos(a, b);
  const auto check = [&](const char* what, const auto& plan,
                         const shard_exchange_options& options) {
    shard_exchange exchange = nullptr;
    ASSERT_EQ(shard_exchange_create(2, own, &options, &exchange), shard_ok)
        << shard_error_message();
    refill();
    plan(space);
    EXPECT_EQ(shard_exchange_run(exchange), shard_ok);
    expect_same(what);
    plan.adjoint(space);
    EXPECT_EQ(shard_exchange_start_adjoint(exchange), shard_ok);
    EXPECT_EQ(shard_exchange_advance(exchange), shard_ok);
    EXPECT_EQ(shard_exchange_advance(exchange), shard_ok);
    EXPECT_EQ(shard_exchange_finish(exchange), shard_ok);
    expect_same(what);
    shard_exchange_release(&exchange);
    EXPECT_EQ(exchange, nullptr);
  };
  check("whole", halos, {});
  check("faces", halos.faces(), {.faces = 1, .width = 0, .layers = 0, .axes = 0, .messages = 0});
  check("width", halos.template width<Halo<1>>(),
        {.faces = 0, .width = 1, .layers = 0, .axes = 0, .messages = 0});
  check("short messages", halos,
        {.faces = 0, .width = 0, .layers = 0, .axes = 0, .messages = shard_short_messages});
  check("axis", halos.template only<Lon>(),
        {.faces = 0, .width = 0, .layers = 0, .axes = 2, .messages = 0});
  for (shard_field& f : own) shard_field_release(&f);
}

TEST(C, ExchangesHaveTheBitsOfCpp) {
  check_exchange<Haloed<double, Reflect>>(shard_double, kind(shard_reflect), kind(shard_reflect),
                                          kind(shard_periodic));
  check_exchange<Haloed<float, Sides<Odd<Symmetric>, Clamp>>>(
      shard_float, kind(shard_symmetric, 1), kind(shard_clamp), kind(shard_periodic));
  shard_boundary pole = kind(shard_pole_fold, 1, 1);
  pole.pole           = shard_pole_between_rows;
  check_exchange<Haloed<double, PoleFold<1, Pole::between_rows, Parity::odd>>>(
      shard_double, pole, pole, kind(shard_periodic));
  shard_boundary north = kind(shard_north_fold, 1, 1);
  north.pivot          = shard_t_point;
  north.position       = shard_at_east;
  check_exchange<Haloed<double, Sides<Clamp, NorthFold<1, Pivot::t_point, At::east, Parity::odd>>>>(
      shard_double, kind(shard_clamp), north, kind(shard_periodic));
  const shard_boundary of_level[] = {kind(shard_constant), kind(shard_clamp),
                                     kind(shard_symmetric, 1)};
  shard_boundary by_index         = kind(shard_by_index, 0, 2);
  by_index.count                  = 3;
  by_index.each                   = of_level;
  check_exchange<Haloed<double, ByIndex<2, Zero, Clamp, Odd<Symmetric>>>>(
      shard_double, by_index, by_index, kind(shard_periodic));
}

TEST(C, FieldsAreAddedAndRemovedByName) {
  const Case c;
  const Space space;
  using F = Haloed<double, Clamp>;
  using S = Haloed<float, Clamp>;
  const F t("t", c.mesh, c.partitions), t2 = t.like("t2");
  const S s("s", c.mesh, c.partitions), s2 = s.like("s2");
  const auto dims  = c.dimensions(kind(shard_clamp), kind(shard_clamp), kind(shard_periodic));
  shard_field of_t = c.wrap("t", t2, shard_double, dims), of_s = c.wrap("s", s2, shard_float, dims);
  shard_exchange set = nullptr;
  ASSERT_EQ(shard_exchange_create(0, nullptr, nullptr, &set), shard_ok);
  EXPECT_EQ(shard_exchange_run(set), shard_ok);  // of nothing
  const auto check = [&](bool has_t, bool has_s) {
    fill(t, 1), fill(t2, 1), fill(s, 2), fill(s2, 2);
    if (has_t) exchange(space, t);
    if (has_s) exchange(space, s);
    EXPECT_EQ(shard_exchange_run(set), shard_ok) << shard_error_message();
    EXPECT_EQ(differences(t, t2), 0);
    EXPECT_EQ(differences(s, s2), 0);
  };
  EXPECT_EQ(shard_exchange_add(set, of_t), shard_ok);
  check(true, false);
  EXPECT_EQ(shard_exchange_add(set, of_s), shard_ok);
  check(true, true);
  EXPECT_EQ(shard_exchange_add(set, of_s), shard_error_argument);
  EXPECT_EQ(shard_exchange_remove(set, "q"), shard_error_argument);
  EXPECT_EQ(shard_exchange_start(set), shard_ok);
  EXPECT_EQ(shard_exchange_remove(set, "t"), shard_error_argument);
  EXPECT_EQ(shard_exchange_finish(set), shard_ok);
  EXPECT_EQ(shard_exchange_remove(set, "t"), shard_ok);
  check(false, true);
  EXPECT_EQ(shard_exchange_remove(set, "s"), shard_ok);
  check(false, false);
  // in another order on one rank
  const bool last = rank() == ranks() - 1;
  EXPECT_EQ(shard_exchange_add(set, last ? of_s : of_t), shard_ok);
  EXPECT_EQ(shard_exchange_add(set, last ? of_t : of_s), shard_ok);
  if (ranks() > 1) {
    EXPECT_EQ(shard_exchange_run(set), shard_error_agreement);
  }
  shard_exchange_release(&set);
  shard_field_release(&of_t);
  shard_field_release(&of_s);
}

/// Three quarters of the nearest element inside, and a number for the place.
struct Wall {
  template <class F>
  KOKKOS_FUNCTION auto& nearest(const F& f, const OutsidePoint<3>& at) const {
    int i[3] = {at.index[0], at.index[1], at.index[2]};
    i[at.dim] += static_cast<int>(at.high ? f.global_extent(at.dim) - 1 - at.global[at.dim]
                                          : -at.global[at.dim]);
    return f(i[0], i[1], i[2]);
  }
  template <class F>
  KOKKOS_FUNCTION double operator()(const F& f, const OutsidePoint<3>& at) const {
    return 0.75 * nearest(f, at) + static_cast<double>(at.global[0] + 100 * at.global[1]);
  }
};
struct WallAdjoint {
  template <class F>
  KOKKOS_FUNCTION void operator()(const F& f, const OutsidePoint<3>& at, double cotangent) const {
    Wall{}.nearest(f, at) += 0.75 * cotangent;
  }
};
using Walled = Haloed<double, Custom<Wall, WallAdjoint>, Custom<Wall, WallAdjoint>>;
void fill_wall(void* context, const char* name, void* origin, int rank, int adjoint, int dimension,
               int high, const int64_t* begin, const int64_t* end) {
  const auto& f = *static_cast<const Walled*>(context);
  EXPECT_EQ(name, std::string("x"));
  EXPECT_EQ(origin, static_cast<void*>(f.origin()));
  EXPECT_EQ(rank, 3);
  OutsidePoint<3> at{{}, {}, dimension, high != 0};
  for (int64_t i = begin[0]; i < end[0]; ++i)
    for (int64_t j = begin[1]; j < end[1]; ++j)
      for (int64_t k = begin[2]; k < end[2]; ++k) {
        const int64_t index[] = {i, j, k};
        for (int d = 0; d < 3; ++d) {
          at.index[d]  = static_cast<int>(index[d]);
          at.global[d] = f.begin(d) + index[d];
        }
        double& value = f(at.index[0], at.index[1], at.index[2]);
        if (adjoint == 0) {
          value = Wall{}(f, at);
        } else {
          const double cotangent = value;
          value                  = 0;
          WallAdjoint{}(f, at, cotangent);
        }
      }
}

TEST(C, BoundariesOfTheCallersOwn) {
  const Case c;
  const Space space;
  const Walled x("x", c.mesh, c.partitions), x2 = x.like("x2");
  const auto given = kind(shard_given);
  shard_field own  = c.wrap("x", x2, shard_double, c.dimensions(given, given, given));
  const Exchange<Walled> whole(x);
  const auto check = [&](const Exchange<Walled>& plan, const shard_exchange_options& options) {
    shard_exchange exchange = nullptr;
    ASSERT_EQ(shard_exchange_create(1, &own, &options, &exchange), shard_ok);
    const auto halos = plan.with(Wall{}, WallAdjoint{});
    EXPECT_EQ(shard_exchange_set_boundary(exchange, &fill_wall, const_cast<Walled*>(&x2)),
              shard_ok);
    fill(x, 1), fill(x2, 1);
    halos(space);
    EXPECT_EQ(shard_exchange_run(exchange), shard_ok);
    EXPECT_EQ(differences(x, x2), 0);
    halos.adjoint(space);
    EXPECT_EQ(shard_exchange_adjoint(exchange), shard_ok);
    EXPECT_EQ(differences(x, x2), 0);
    // without it they are left
    EXPECT_EQ(shard_exchange_set_boundary(exchange, nullptr, nullptr), shard_ok);
    fill(x2, 1);
    const double corner = x2(-2, -1, 0);
    EXPECT_EQ(shard_exchange_run(exchange), shard_ok);
    if (x2.begin(0) == 0 && x2.begin(1) == 0) {
      EXPECT_EQ(x2(-2, -1, 0), corner);
    }
    shard_exchange_release(&exchange);
  };
  check(whole, {});
  shard_field_release(&own);
}

int handled = 0;
void count_errors(int code, const char*) { handled += code == shard_error_argument ? 1 : 100; }

TEST(C, MisuseIsACodeAndASentence) {
  const Case c;
  const auto good = c.dimensions(kind(shard_clamp), kind(shard_clamp), kind(shard_periodic));
  using F         = Haloed<double, Clamp>;
  const F x("x", c.mesh, c.partitions);
  const auto refused = [](int code, const std::vector<std::string>& parts, int returned) {
    EXPECT_EQ(returned, code);
    for (const std::string& part : parts)
      EXPECT_NE(std::string(shard_error_message()).find(part), std::string::npos)
          << part << " in " << shard_error_message();
  };
  const auto wrap = [&](const std::array<shard_dimension, 3>& dims, int type = shard_double,
                        int64_t more = 0) {
    shard_field field     = nullptr;
    const int64_t local[] = {static_cast<int64_t>(x.view().extent(0)) + more,
                             static_cast<int64_t>(x.view().extent(1)),
                             static_cast<int64_t>(x.view().extent(2))};
    const int returned    = shard_field_wrap(c.c_mesh, "x", x.view().data(), type, shard_host, 3,
                                             dims.data(), local, nullptr, &field);
    EXPECT_EQ(field == nullptr, returned != shard_ok);
    if (field != nullptr) shard_field_release(&field);
    return returned;
  };
  const auto changed = [&](const std::function<void(std::array<shard_dimension, 3>&)>& change) {
    auto dims = good;
    change(dims);
    return dims;
  };
  EXPECT_EQ(wrap(good), shard_ok) << shard_error_message();
  shard_set_error_handler(&count_errors);
  refused(shard_error_argument, {"type 17"}, wrap(good, 17));
  refused(shard_error_argument, {"wrap"}, wrap(good, shard_double, 1));
  refused(shard_error_argument, {"axis 2"}, wrap(changed([](auto& d) { d[2].axis = 2; })));
  refused(shard_error_argument, {"one axis"}, wrap(changed([](auto& d) {
            d[1].axis   = 0;
            d[1].begins = nullptr;
          })));
  refused(shard_error_argument, {"periodic", "dimension 1"},
          wrap(changed([](auto& d) { d[1].low = {}; })));
  refused(shard_error_argument, {"kind 99"}, wrap(changed([](auto& d) { d[0].low.kind = 99; })));
  refused(shard_error_argument, {"north fold", "low"},
          wrap(changed([](auto& d) { d[0].low = kind(shard_north_fold, 0, 1); })));
  refused(shard_error_argument, {"halo of -1"}, wrap(changed([](auto& d) { d[0].halo_low = -1; })));
  EXPECT_EQ(handled, 8);
  shard_set_error_handler(nullptr);

  refused(shard_error_argument, {"null"}, shard_exchange_run(nullptr));
  refused(shard_error_argument, {"mesh is null"}, shard_mesh_retain(nullptr));
  refused(shard_error_argument, {"0 axes"}, [&] {
    shard_mesh none = nullptr;
    return shard_mesh_create(MPI_COMM_WORLD, 0, nullptr, &none);
  }());
  shard_field own         = c.wrap("x", x, shard_double, good);
  shard_exchange exchange = nullptr;
  refused(shard_error_argument, {"-1 fields"}, shard_exchange_create(-1, &own, nullptr, &exchange));
  ASSERT_EQ(shard_exchange_create(1, &own, nullptr, &exchange), shard_ok);
  refused(shard_error_argument, {"no exchange"}, shard_exchange_finish(exchange));
  refused(shard_error_argument, {"no exchange"}, shard_exchange_advance(exchange));
  EXPECT_EQ(shard_exchange_start(exchange), shard_ok);
  refused(shard_error_argument, {"in progress"}, shard_exchange_run(exchange));
  EXPECT_EQ(shard_exchange_finish(exchange), shard_ok);
  const shard_exchange_options odd{.faces = 0, .width = 0, .layers = 0, .axes = 0, .messages = 7};
  shard_exchange unmade = nullptr;
  refused(shard_error_argument, {"7 isn't"}, shard_exchange_create(1, &own, &odd, &unmade));
  // what it was made of lives as long as the plan
  shard_field_release(&own);
  EXPECT_EQ(shard_exchange_run(exchange), shard_ok);
  shard_exchange_release(&exchange);

  if (ranks() == 1) return;
  // options and mistakes of one rank alone are errors on all
  const bool last = rank() == ranks() - 1;
  refused(shard_error_agreement, {"clamp", "reflect"}, wrap(changed([&](auto& d) {
            if (last) d[0].low = kind(shard_reflect);
          })));
  refused(shard_error_argument, {"0 axes"}, [&] {
    const int size  = 0;
    shard_mesh none = nullptr;
    return shard_mesh_create(MPI_COMM_WORLD, last ? 0 : 1, &size, &none);
  }());
  refused(shard_error_argument, {"halo of -1"}, wrap(changed([&](auto& d) {
            if (last) d[0].halo_low = -1;
          })));
  refused(shard_error_argument, {"wrap"}, wrap(good, shard_double, last ? 1 : 0));
  own                          = c.wrap("x", x, shard_double, good);
  shard_exchange_options faces = {last ? 1 : 0, 0, 0, 0, 0};
  refused(shard_error_agreement, {"faces"}, shard_exchange_create(1, &own, &faces, &exchange));
  shard_field_release(&own);
}

TEST(C, StreamsAreThoseOfADevice) {
  EXPECT_EQ(shard_set_stream(nullptr), shard_ok);
  if (std::is_same_v<Kokkos::DefaultExecutionSpace, Space>) {
    int nothing = 0;
    EXPECT_EQ(shard_set_stream(&nothing), shard_error_argument);
  }
  EXPECT_EQ(shard_fence(), shard_ok);
}

TEST(C, OutsideOfParallelRegionsOnly) {
  std::vector<int> codes(2, -1);
#if defined(_OPENMP)
#pragma omp parallel for num_threads(2)
#endif
  for (int i = 0; i < 2; ++i) codes[static_cast<std::size_t>(i)] = shard_fence();
#if defined(_OPENMP)
  for (const int code : codes) EXPECT_EQ(code, shard_error_argument);
#endif
  EXPECT_EQ(shard_fence(), shard_ok);
}

}  // namespace c_test
