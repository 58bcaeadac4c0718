// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/pointwise/linear.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "layers/layer_support.hpp"
#include "layers/scoped_precision.hpp"
#include "shard/base/impl/fused.hpp"
#include "shard/layers/product_precision.hpp"
#include "shard/layers/window/conv.hpp"
#include "support/thrown.hpp"

#include "../../src/layers/device_tile.hpp"

namespace {

using namespace shard::testing;
using namespace shard;
using Right = Kokkos::LayoutRight;

/// Of sums that no rank shares with another: those of a host have the serial loop's bits.
double tolerance(bool whole_sums) { return whole_sums && computes_on_host ? 0.0 : 1e-12; }

/// A Linear, serially: x is rows x in, and the gradients of <dy, y>. Sums in the order that the
/// header gives.
template <class T>
struct Serial {
  index_t rows, in, out;
  bool rounded = product_precision() == ProductPrecision::bfloat16;
  std::vector<T> x, w, b, dy, y, dx, dw, db;

  Serial(index_t r, index_t n, index_t m, Random& random) : rows(r), in(n), out(m) {
    for (auto* v : {&x, &w, &b, &dy}) v->clear();
    const auto fill = [&](std::vector<T>& v, index_t count) {
      for (index_t i = 0; i < count; ++i) v.push_back(static_cast<T>(random.real()));
    };
    fill(x, rows * in);
    fill(w, out * in);
    fill(b, out);
    fill(dy, rows * out);
  }
  static std::size_t at(index_t i, index_t j, index_t columns) {
    return static_cast<std::size_t>(i * columns + j);
  }
  /// start plus the products of the pairs, in blocks of 128, fused where the machine has it; in
  /// bfloat16 each 32 products as two sums, of the even and the odd terms.
  template <class Term>
  T sum_in_blocks(T start, index_t count, const Term& term) const {
    for (index_t first = 0; first < count; first += 128) {
      T sum = 0, even_and_odd[2] = {};
      const index_t end = std::min(count, first + 128);
      for (index_t i = first; i < end; ++i) {
        const auto [left, right] = term(i);
        if (!rounded) {
          sum = shard::impl::multiplied_and_added(sum, left, right);
          continue;
        }
        even_and_odd[i % 2] += in_bfloat16(left) * in_bfloat16(right);
        if (i % 32 == 31 || i + 1 == end) {
          sum += even_and_odd[0] + even_and_odd[1];
          even_and_odd[0] = even_and_odd[1] = 0;
        }
      }
      start += sum;
    }
    return start;
  }
  void compute(bool with_bias) {
    y.assign(at(rows, 0, out), T(0));
    dx.assign(x.size(), T(0));
    dw.assign(w.size(), T(0));
    db.assign(b.size(), T(0));
    for (index_t r = 0; r < rows; ++r)
      for (index_t m = 0; m < out; ++m)
        y[at(r, m, out)] = sum_in_blocks(with_bias ? b[at(0, m, 0)] : T(0), in, [&](index_t n) {
          return std::pair{w[at(m, n, in)], x[at(r, n, in)]};
        });
    for (index_t r = 0; r < rows; ++r)
      for (index_t n = 0; n < in; ++n)
        dx[at(r, n, in)] = sum_in_blocks(T(0), out, [&](index_t m) {
          return std::pair{w[at(m, n, in)], dy[at(r, m, out)]};
        });
    for (index_t m = 0; m < out; ++m) {
      for (index_t n = 0; n < in; ++n)
        dw[at(m, n, in)] = sum_in_blocks(T(0), rows, [&](index_t r) {
          return std::pair{dy[at(r, m, out)], x[at(r, n, in)]};
        });
      double sum = 0;  // as the library adds biases' gradients
      for (index_t r = 0; r < rows; ++r) sum += static_cast<double>(dy[at(r, m, out)]);
      db[at(0, m, 0)] = static_cast<T>(sum);
    }
  }
};

/// The same bits; on a device, which adds in another order, the same values to rounding.
template <class T>
bool same_values(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return false;
  if constexpr (computes_on_host)
    return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
  double most = 0.0, off = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, static_cast<double>(std::abs(b[i])));
    off  = std::max(off, static_cast<double>(std::abs(a[i] - b[i])));
  }
  return off <= most * (sizeof(T) == 8 ? 1e-13 : 1e-5);
}

/// Visits the elements of a host View, the last dimension the fastest.
template <class View, class Visit>
void visit(const View& view, const Visit& visit_one) {
  constexpr int rank = static_cast<int>(View::rank);
  for (std::size_t i = 0; i < view.size(); ++i) {
    std::size_t rest = i, offset = 0;
    for (int d = rank - 1; d >= 0; --d) {
      offset += rest % view.extent(static_cast<std::size_t>(d)) * view.stride(d);
      rest /= view.extent(static_cast<std::size_t>(d));
    }
    visit_one(i, view.data()[offset]);
  }
}

template <class View, class T>
View filled(const char* label, const std::vector<T>& values, const typename View::array_layout& n) {
  const View view(std::string(label), n);
  const auto host = Kokkos::create_mirror_view(view);
  visit(host, [&](std::size_t i, auto& value) { value = values[i]; });
  Kokkos::deep_copy(view, host);
  return view;
}

template <class View>
auto values_of(const View& view) {
  Space().fence();
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  std::vector<typename View::non_const_value_type> values;
  visit(host, [&](std::size_t, const auto& value) { values.push_back(value); });
  return values;
}

template <class Data, class Layout, class T>
void check_plain(const std::vector<index_t>& leading, index_t in, index_t out, bool with_bias) {
  Random random(seed() + static_cast<std::uint64_t>(in));
  using View   = Kokkos::View<Data, Layout>;
  using Matrix = Kokkos::View<T**, Layout>;
  using Vector = Kokkos::View<T*, Layout>;
  index_t rows = 1;
  typename View::array_layout of_x, of_y;
  std::size_t d = 0;
  for (; d < leading.size(); ++d) {
    rows *= leading[d];
    of_x.dimension[d] = of_y.dimension[d] = static_cast<std::size_t>(leading[d]);
  }
  of_x.dimension[d] = static_cast<std::size_t>(in);
  of_y.dimension[d] = static_cast<std::size_t>(out);
  Serial<T> serial(rows, in, out, random);
  serial.compute(with_bias);

  const Space space;
  typename Matrix::array_layout of_w;
  of_w.dimension[0] = static_cast<std::size_t>(out);
  of_w.dimension[1] = static_cast<std::size_t>(in);
  typename Vector::array_layout of_b;
  of_b.dimension[0] = static_cast<std::size_t>(out);
  const auto x = filled<View>("x", serial.x, of_x), dy = filled<View>("dy", serial.dy, of_y);
  const auto w = filled<Matrix>("w", serial.w, of_w);
  const auto b = filled<Vector>("b", serial.b, of_b);
  const View y(std::string("y"), of_y), dx(std::string("dx"), of_x);
  Kokkos::deep_copy(y, T(7));
  Kokkos::deep_copy(dx, T(7));
  const Matrix dw(std::string("dw"), of_w);
  const Vector db(std::string("db"), of_b);
  const typename View::const_type const_x = x;
  if (with_bias)
    shard::linear(space, y, const_x, w, b);
  else
    shard::linear(space, y, const_x, w);
  shard::linear_pullback(space, dx, dw, db, dy, x, w);
  const std::string of = "rank " + std::to_string(leading.size() + 1);
  EXPECT_TRUE(same_values(values_of(y), serial.y)) << of;
  EXPECT_TRUE(same_values(values_of(dx), serial.dx)) << of;
  EXPECT_TRUE(same_values(values_of(dw), serial.dw)) << of;
  EXPECT_TRUE(same_values(values_of(db), serial.db)) << of;

  // gradients of parameters are added to, the input's is set
  shard::linear_pullback(space, dx, dw, db, dy, x, w);
  EXPECT_TRUE(same_values(values_of(dx), serial.dx)) << of;
  std::vector<T> twice = serial.dw;
  for (T& v : twice) v += v;
  EXPECT_TRUE(same_values(values_of(dw), twice)) << of;
  twice = serial.db;
  for (T& v : twice) v += v;
  EXPECT_TRUE(same_values(values_of(db), twice)) << of;
}

TEST(Linear, PlainViewsHaveTheBitsOfTheLoop) {
  check_plain<double*, Right, double>({}, 7, 5, true);
  check_plain<double**, Right, double>({2}, 3, 4, true);
  check_plain<double**, Right, double>({67}, 133, 70, false);  // several blocks each way
  check_plain<double***, Right, double>({3, 50}, 17, 9, true);
  check_plain<double****, Right, double>({2, 3, 4}, 5, 6, true);
  check_plain<double*****, Right, double>({2, 1, 3, 2}, 5, 6, false);
  check_plain<double******, Right, double>({2, 1, 3, 2, 2}, 4, 3, true);
  check_plain<double***, Kokkos::LayoutLeft, double>({5, 4}, 6, 7, true);
  check_plain<float***, Right, float>({3, 50}, 19, 21, true);
}

TEST(Linear, Bfloat16OnHostsHasTheBitsOfTheLoop) {
  if constexpr (computes_on_host)
    with_bfloat16_tiles([] {
      check_plain<float*, Right, float>({}, 7, 5, true);
      check_plain<float**, Right, float>({67}, 133, 70, false);  // several blocks each way
      check_plain<float**, Right, float>({160}, 64, 48, true);   // no block with a rest
      check_plain<float***, Right, float>({3, 50}, 19, 21, true);
      check_plain<float***, Kokkos::LayoutLeft, float>({5, 41}, 36, 17, true);
    });
}

// A row or column that is not a number stays alone: unused places of tiles aren't added.
TEST(Linear, Bfloat16KeepsRowsApart) {
  if constexpr (computes_on_host)
    with_bfloat16_tiles([] {
      const Kokkos::View<float**, Right> x("x", 35, 33), y("y", 35, 18), w("w", 18, 33);
      const auto not_a_number = Kokkos::bit_cast<float>(0x7f800001U);
      Kokkos::deep_copy(x, 1.0F);
      Kokkos::deep_copy(w, 1.0F);
      for (std::size_t i = 0; i < 33; ++i) x(34, i) = w(17, i) = not_a_number;
      shard::linear(Space(), y, Kokkos::View<const float**, Right>(x), w);
      Space().fence();
      for (std::size_t r = 0; r < 35; ++r)
        for (std::size_t m = 0; m < 18; ++m)
          EXPECT_EQ(std::isnan(y(r, m)), r == 34 || m == 17) << r << ", " << m;
    });
}

struct Row;
using Tokens = ShardedView<float**, Right, ShardDim<0, Row>>;
using Image  = ShardedView<float****, Right, ShardDim<2, Row>>;

/// Layers of 40 to 48 channels on a field of one value, with weights of one value, no bias: an
/// output is a count of products.
template <class Layer, class X, class Y>
std::pair<float, float> product_of(const Layer& layer, const X& x, const Y& y, float value) {
  const Space space;
  const auto p = shard::make_parameters<float>(layer, "p"),
             g = shard::make_parameters<float>(layer, "g");
  Kokkos::deep_copy(p.weight, 1.0F);
  Kokkos::deep_copy(x.view(), value);
  layer.apply(space, p, y, x);
  const auto first_of = [](const auto& view) {
    return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view).data()[0];
  };
  const float sum = first_of(y.view());
  Kokkos::deep_copy(y.view(), value);
  Kokkos::deep_copy(x.view(), 1.0F);
  layer.pullback(space, p, g, x.like("dx"), y, x);
  return {sum, first_of(g.weight)};
}

// TF32 needs tensor cores, bfloat16 those or a host's tile registers. Nothing changes where Kokkos
// Kernels multiplies.
TEST(Linear, TensorCoresAndTileRegistersRoundFactors) {
  using Precision = shard::ProductPrecision;
  const shard::Mesh<Row> mesh(MPI_COMM_SELF, {1});
#ifdef KOKKOS_ENABLE_CUDA
  const auto rounds = [](Precision p) {
    return impl::has_tensor_tiles_v<Kokkos::Cuda, float> && p != Precision::float32;
  };
#else
  const auto rounds = [](Precision p) {
    return computes_on_host && p == Precision::bfloat16 && impl::has_bfloat16_tiles();
  };
#endif
#if defined(SHARD_ENABLE_KERNELS) && defined(KOKKOS_ENABLE_CUDA)
  constexpr bool by_library = true;
#else
  constexpr bool by_library = false;
#endif
  const float x = 1.0F + 0x1p-12F;  // 1 in TF32 and in bfloat16
  for (const auto precision : {Precision::tf32, Precision::bfloat16, Precision::float32}) {
    shard::set_product_precision(precision);
    const bool rounded   = rounds(precision);
    const float in_tiles = rounded ? 1.0F : x, factor = rounded && !by_library ? 1.0F : x;
    const auto linear = product_of(shard::Linear{40, 48, false}, Tokens("x", mesh, {64, 40}),
                                   Tokens("y", mesh, {64, 48}), x);
    EXPECT_EQ(linear.first, 40.0F * factor);
    EXPECT_EQ(linear.second, 64.0F * factor);
    const auto image =
        product_of(shard::Conv<shard::Kernel<1, 1>>{40, 48, 1, false},
                   Image("x", mesh, {1, 40, 8, 8}), Image("y", mesh, {1, 48, 8, 8}), x);
    EXPECT_EQ(image.first, 40.0F * factor);
    EXPECT_EQ(image.second, 64.0F * in_tiles);
  }
}

TEST(Linear, Bfloat16IsForManyChannels) {
  if constexpr (computes_on_host)
    with_bfloat16_tiles([] {
      const shard::Mesh<Row> mesh(MPI_COMM_SELF, {1});
      const float x = 1.0F + 0x1p-12F;
      const auto few =
          product_of(shard::Conv<shard::Kernel<1, 1>>{15, 48, 1, false},
                     Image("x", mesh, {1, 15, 8, 8}), Image("y", mesh, {1, 48, 8, 8}), x);
      EXPECT_EQ(few.first, 15.0F * x);
      EXPECT_EQ(few.second, 64.0F * x);
    });
}

// Rounded, they would be the smallest normal float: in whole tiles, or in rests of them.
TEST(Linear, Bfloat16TakesDenormalValuesForZeros) {
  if constexpr (computes_on_host)
    with_bfloat16_tiles([] {
      const Kokkos::View<float**, Right> small("small", 35, 33), ones("ones", 18, 33),
          y("y", 35, 18), dy("dy", 35, 18), dx("dx", 35, 33), dw("dw", 18, 33);
      const Kokkos::View<float*, Right> db("db", 18);
      const auto denormal = Kokkos::bit_cast<float>(0x007fffffU);
      Kokkos::deep_copy(small, denormal);
      Kokkos::deep_copy(dy, denormal);
      Kokkos::deep_copy(ones, 1.0F);
      const Kokkos::View<const float**, Right> x = small;
      shard::linear(Space(), y, x, ones);
      Kokkos::deep_copy(small, 1.0F);
      shard::linear_pullback(Space(), dx, dw, db, dy, x, ones);
      Space().fence();
      const auto check = [](const auto& view) {
        visit(view, [](std::size_t i, float value) { EXPECT_EQ(value, 0.0F) << i; });
      };
      check(y);
      check(dx);
      check(dw);
    });
}

TEST(Linear, NothingToContractOrToGive) {
  check_plain<double***, Right, double>({2, 3}, 0, 4, true);  // y is the bias
  check_plain<double***, Right, double>({2, 0}, 3, 4, true);
  check_plain<double***, Right, double>({2, 3}, 3, 0, true);
}

// ---- fields -----------------------------------------------------------------------------------

template <int Rank, class T>
World<Rank> world_of(const std::array<index_t, Rank>& n, const std::vector<T>& v) {
  World<Rank> world(n);
  for (std::size_t i = 0; i < v.size(); ++i) world.v[i] = v[i];
  return world;
}

/// Parameters that are fields, or gradients of them.
template <class W, class B>
struct FieldParameters {
  W weight;
  B bias;
};

/// x is [batch, sequence, in]; X and W fields, and the mesh axes over which y, dx and the
/// parameters' gradients are contributions.
template <class X, class W, class... OverY, class... OverX, class... OverW>
void check_fields(const Grid& mesh, int which, shard::impl::AxisList<OverY...>,
                  shard::impl::AxisList<OverX...>, shard::impl::AxisList<OverW...>) {
  using Y  = shard::linear_result_t<X, W>;
  using DY = shard::linear_result_gradient_t<X, W>;
  using DX = shard::linear_input_gradient_t<X, W>;
  using DW = shard::linear_weight_gradient_t<X, W>;
  using DB = shard::linear_bias_gradient_t<X, W>;
  using B  = ShardedView<double*, Right, ShardDim<0, typename W::template axis<0>>>;
  Random random(seed() + static_cast<std::uint64_t>(which));
  const index_t batch = which == 2 ? 1 : 5, sequence = 7, in = which == 1 ? 3 : 11, out = 6;
  const auto parts = [&]<class Axis>(std::type_identity<Axis>) {
    if constexpr (std::is_same_v<Axis, Lat>)
      return mesh.size<Lat>();
    else if constexpr (std::is_same_v<Axis, Lon>)
      return mesh.size<Lon>();
    else if constexpr (std::is_same_v<Axis, shard::Unsharded>)
      return 1;
    else
      return mesh.size();
  };
  const auto some = [&]<class Axis>(index_t n, std::type_identity<Axis> axis) {
    return some_partition(n, parts(axis), which, random);
  };
  const Partition p_batch    = some(batch, std::type_identity<typename X::template axis<0>>()),
                  p_sequence = some(sequence, std::type_identity<typename X::template axis<1>>()),
                  p_in       = some(in, std::type_identity<typename X::template axis<2>>()),
                  p_out      = some(out, std::type_identity<typename W::template axis<0>>());
  const X x("x", mesh, {p_batch, p_sequence, p_in});
  const W w("w", mesh, {p_out, p_in});
  const B b("b", mesh, {p_out});
  const Y y("y", mesh, {p_batch, p_sequence, p_out});
  const DY dy("dy", mesh, {p_batch, p_sequence, p_out});
  const DX dx("dx", mesh, {p_batch, p_sequence, p_in});
  const DW dw("dw", mesh, {p_out, p_in});
  const DB db("db", mesh, {p_out});

  Serial<double> serial(batch * sequence, in, out, random);
  serial.compute(true);
  scatter(x, world_of<3>({batch, sequence, in}, serial.x));
  scatter(w, world_of<2>({out, in}, serial.w));
  scatter(b, world_of<1>({out}, serial.b));
  scatter(dy, world_of<3>({batch, sequence, out}, serial.dy));
  const Space space;
  const shard::Linear layer{in, out};
  const FieldParameters<W, B> parameters{w, b};
  layer.apply(space, parameters, y, x);
  layer.pullback(space, parameters, FieldParameters<DW, DB>{dw, db}, dx, dy, x);

  const DY whole_y      = shard::redistribute<DY>(space, y);
  using WholeX          = ShardedView<double***, Right, ShardDim<0, typename X::template axis<0>>,
                             ShardDim<1, typename X::template axis<1>>,
                             ShardDim<2, typename X::template axis<2>>>;
  const WholeX whole_dx = shard::redistribute<WholeX>(space, dx);
  using WholeW          = ShardedView<double**, Right, ShardDim<0, typename W::template axis<0>>,
                             ShardDim<1, typename W::template axis<1>>>;
  const WholeW whole_dw = shard::redistribute<WholeW>(space, dw);
  const B whole_db      = shard::redistribute<B>(space, db);
  const auto far        = [&](const auto& field, const auto& values) {
    constexpr int rank = std::remove_cvref_t<decltype(field)>::rank;
    std::array<index_t, rank> n{};
    for (int d = 0; d < rank; ++d) n[static_cast<std::size_t>(d)] = field.global_extent(d);
    return difference(field, world_of<rank>(n, values));
  };
  // sums that no rank shares have the serial bits
  EXPECT_LE(far(whole_y, serial.y), tolerance(sizeof...(OverY) == 0));
  EXPECT_LE(far(whole_dx, serial.dx), tolerance(sizeof...(OverX) == 0));
  EXPECT_LE(far(whole_dw, serial.dw), tolerance(sizeof...(OverW) == 0));
  EXPECT_LE(far(whole_db, serial.db), tolerance(sizeof...(OverW) == 0));

  // the tangent of x, W and b along themselves: twice the product, once the bias
  std::vector<double> tangent = serial.y, bias_once = serial.y;
  for (std::size_t i = 0; i < tangent.size(); ++i) {
    const double of_bias = serial.b[i % static_cast<std::size_t>(out)];
    tangent[i]           = 2.0 * (tangent[i] - of_bias) + of_bias;
  }
  layer.pushforward(space, parameters, parameters, y, x, x);
  EXPECT_LE(far(shard::redistribute<DY>(space, y), tangent), 1e-12);
  layer.pushforward(space, parameters, parameters, y, shard::not_wanted, x);
  EXPECT_LE(far(shard::redistribute<DY>(space, y), serial.y), tolerance(sizeof...(OverY) == 0));
  layer.pushforward(space, parameters, shard::not_wanted, y, x, x);
  for (std::size_t i = 0; i < tangent.size(); ++i)
    bias_once[i] -= serial.b[i % static_cast<std::size_t>(out)];
  EXPECT_LE(far(shard::redistribute<DY>(space, y), bias_once), 1e-12);
  shard::Linear bare{in, out};
  bare.bias = false;
  for (double& v : bias_once) v *= 2.0;
  bare.pushforward(space, parameters, parameters, y, x, x);
  EXPECT_LE(far(shard::redistribute<DY>(space, y), bias_once), 1e-12);

  // half of the gradients
  const DW only_w("dw", mesh, {p_out, p_in});
  const DB only_b("db", mesh, {p_out});
  const FieldParameters<DW, DB> only{only_w, only_b};
  layer.pullback(space, parameters, only, shard::not_wanted, dy, x);
  EXPECT_LE(far(shard::redistribute<WholeW>(space, only_w), serial.dw),
            tolerance(sizeof...(OverW) == 0));
  layer.pullback(space, parameters, shard::not_wanted, dx, dy, x);
  EXPECT_LE(far(WholeX(shard::redistribute<WholeX>(space, dx)), serial.dx),
            tolerance(sizeof...(OverX) == 0));

  // <L x, dy> = <x, L' dy> = <w, dw>, without the bias
  shard::linear(space, y, x, w);
  const DY again    = shard::redistribute<DY>(space, y);
  const double left = shard::dot(space, again, dy), right = shard::dot(space, WholeX(x), whole_dx),
               weighted = shard::dot(space, WholeW(w), whole_dw);
  const double scale    = std::max({std::abs(left), 1.0});
  EXPECT_NEAR(left, right, 1e-12 * scale);
  EXPECT_NEAR(left, weighted, 1e-12 * scale);
}

template <class... A>
using Over = shard::impl::AxisList<A...>;

template <class X, class W, class OverY, class OverX, class OverW>
void check_all() {
  for (const auto& shape : shapes(world_size())) {
    const Grid mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
    for (int which = 0; which < 4; ++which)
      check_fields<X, W>(mesh, which, OverY(), OverX(), OverW());
  }
}

TEST(Linear, BatchOverOneAxisAndRowsOverAnother) {
  using X = ShardedView<double***, Right, ShardDim<0, Lat>>;
  using W = ShardedView<double**, Right, ShardDim<0, Lon>>;
  static_assert(std::is_same_v<shard::linear_result_t<X, W>,
                               ShardedView<double***, Right, ShardDim<0, Lat>, ShardDim<2, Lon>>>);
  static_assert(std::is_same_v<shard::linear_input_gradient_t<X, W>,
                               ShardedView<double***, Right, ShardDim<0, Lat>, Partial<Lon, Sum>>>);
  static_assert(std::is_same_v<shard::linear_weight_gradient_t<X, W>,
                               ShardedView<double**, Right, ShardDim<0, Lon>, Partial<Lat, Sum>>>);
  static_assert(std::is_same_v<shard::linear_bias_gradient_t<X, W>,
                               ShardedView<double*, Right, ShardDim<0, Lon>, Partial<Lat, Sum>>>);
  check_all<X, W, Over<>, Over<Lon>, Over<Lat>>();
}

TEST(Linear, SequenceOverOneAxisAndTheContractionOverAnother) {
  using X = ShardedView<double***, Right, ShardDim<1, Lat>, ShardDim<2, Lon>>;
  using W = ShardedView<double**, Right, ShardDim<1, Lon>>;
  static_assert(std::is_same_v<shard::linear_result_t<X, W>,
                               ShardedView<double***, Right, ShardDim<1, Lat>, Partial<Lon, Sum>>>);
  static_assert(std::is_same_v<shard::linear_result_gradient_t<X, W>,
                               ShardedView<double***, Right, ShardDim<1, Lat>>>);
  check_all<X, W, Over<Lon>, Over<>, Over<Lat>>();
}

TEST(Linear, BothLeadingDimensions) {
  using X = ShardedView<double***, Right, ShardDim<0, Lat>, ShardDim<1, Lon>>;
  using W = ShardedView<double**, Right>;
  check_all<X, W, Over<>, Over<>, Over<Lat, Lon>>();
}

TEST(Linear, RowsAndColumns) {
  using X = ShardedView<double***, Right, ShardDim<2, Lat>>;
  using W = ShardedView<double**, Right, ShardDim<0, Lon>, ShardDim<1, Lat>>;
  check_all<X, W, Over<Lat>, Over<Lon>, Over<>>();
}

TEST(Linear, TheContractionOverTwoAxesTogether) {
  using X = ShardedView<double***, Right, ShardDim<2, Axes<Lat, Lon>>>;
  using W = ShardedView<double**, Right, ShardDim<1, Axes<Lat, Lon>>>;
  check_all<X, W, Over<Lat, Lon>, Over<>, Over<>>();
}

TEST(Linear, HalosAreLeftAloneAndWeightsMayBeViews) {
  using X =
      ShardedView<float**, Kokkos::LayoutLeft, ShardDim<0, Lat, shard::Halo<2, 1>, shard::Reflect>>;
  using W = Kokkos::View<float**, Right>;
  static_assert(std::is_same_v<shard::linear_result_t<X, W>,
                               ShardedView<float**, Kokkos::LayoutLeft, ShardDim<0, Lat>>>);
  Random random(seed());
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const ScopedVariable unchecked("SHARD_CHECK", "0");  // else halos that are out of date are marked
  const shard::Linear layer{5, 6};
  const auto parameters = shard::make_parameters<float>(layer, "linear"),
             gradients  = shard::make_parameters<float>(layer, "gradients");
  EXPECT_EQ(parameters.weight.extent(0), 6U);
  EXPECT_EQ(parameters.bias.extent(0), 6U);
  shard::initialise(Space(), layer, parameters, 1, 0);
  Space().fence();
  for (const float v : values_of(parameters.weight)) EXPECT_LT(std::abs(v), 1.0 / std::sqrt(5.0));
  Serial<float> serial(13, 5, 6, random);
  serial.w = values_of(parameters.weight);
  serial.b = values_of(parameters.bias);
  serial.compute(true);

  const X x("x", mesh, {13, 5}), dx                                     = x.like("dx");
  const X y("y", mesh, {x.partition(0), Partition::balanced(6, 1)}), dy = y.like("dy");
  scatter(x, world_of<2>({13, 5}, serial.x));
  scatter(dy, world_of<2>({13, 6}, serial.dy));
  Kokkos::deep_copy(y.view(), 3.0F);
  layer.apply(Space(), parameters, y, x);
  layer.pullback(Space(), parameters, gradients, dx, dy, x);
  EXPECT_LE(difference(y, world_of<2>({13, 6}, serial.y)), computes_on_host ? 0.0 : 1e-6);
  EXPECT_LE(difference(dx, world_of<2>({13, 5}, serial.dx)), computes_on_host ? 0.0 : 1e-6);
  EXPECT_LT(difference(summed(gradients.weight, x), {serial.dw.begin(), serial.dw.end()}), 1e-6);
  EXPECT_LT(difference(summed(gradients.bias, x), {serial.db.begin(), serial.db.end()}), 1e-6);
  Kokkos::deep_copy(y.owned(), 3.0F);
  for (const float v : values_of(y.view())) EXPECT_EQ(v, 3.0F) << "a halo was written";
}

TEST(Linear, SaysWhatDoesNotFit) {
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  using X = ShardedView<double**, Right, ShardDim<0, Lat>>;
  using W = ShardedView<double**, Right>;
  const X x("x", mesh, {8, 5}), y("y", mesh, {8, 6});
  const W w("w", mesh, {6, 4}), right("right", mesh, {6, 5});
  const Space space;
  expect_parts(message_thrown_by<ArgumentError>([&] { shard::linear(space, y, x, w); }),
               {"shard::linear", "dimension 1 of \"x\" has the partition balanced 5 over 1",
                "dimension 1 of \"w\" balanced 4 over 1"});
  const Kokkos::View<double**, Right> plain("plain", 7, 5);
  expect_parts(message_thrown_by<ArgumentError>([&] { shard::linear(space, y, x, plain); }),
               {"dimension 1 of \"y\" has extent 6", "dimension 0 of \"plain\" 7"});
  const Kokkos::View<double*, Right> bias("bias", 5);
  expect_parts(message_thrown_by<ArgumentError>([&] { shard::linear(space, y, x, right, bias); }),
               {"dimension 0 of \"bias\" 5"});
  const Grid other(MPI_COMM_WORLD, {world_size(), 1});
  const W elsewhere("elsewhere", other, {6, 5});
  expect_parts(message_thrown_by<ArgumentError>([&] { shard::linear(space, y, x, elsewhere); }),
               {"\"elsewhere\" live on different meshes"});
  const X longer("longer", mesh, {9, 6});
  expect_parts(message_thrown_by<ArgumentError>([&] { shard::linear(space, longer, x, right); }),
               {"dimension 0 of \"longer\"", "9", "8"});
}

}  // namespace
