// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layers whose weight is a function of other parameters: joined, spectral norm, weight norm, low
// rank.
#include "shard/layers/weights/icnr.hpp"
#include "shard/layers/weights/joined_weight.hpp"
#include "shard/layers/weights/low_rank.hpp"
#include "shard/layers/weights/spectral_norm.hpp"
#include "shard/layers/weights/weight_norm.hpp"

#include <map>
#include <string>

#include "model_support.hpp"
#include "support/thrown.hpp"

namespace shard::testing {

namespace {

struct Net {
  SpectralNorm<Conv3> first{Conv3{3, 3}};
  std::vector<LowRank<Conv1>> more{LowRank<Conv1>(Conv1{3, 3}, 2), LowRank<Conv1>(Conv1{3, 3}, 2)};
  auto operator()(auto& m, const auto& x) const {
    auto h = m.run(first, x);
    for (const auto& layer : more) h = m.run(Add{}, h, m.run(layer, h));
    return h;
  }
};

using Up4 = ConvTranspose<Kernel<4, 4>, Stride<2, 2>, Padding<1, 1>>;

/// sin(phase + 0.37 i (1 + i % 5))
std::vector<double> wave(std::size_t count, double phase) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = std::sin(phase + 0.37 * static_cast<double>(i * (1 + i % 5)));
  return values;
}

/// The first value, the last one, and a weighted sum of all.
std::vector<double> summary(const std::vector<double>& values) {
  const auto by = wave(values.size(), 0.2);
  double sum    = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += values[i] * by[i];
  return {values.front(), values.back(), sum};
}

/// The arrays of an arena by name, without the layer's name.
template <class Arena>
std::map<std::string, std::vector<double>> arrays_of(const Arena& arena, MPI_Comm comm) {
  const auto all = summed(arena.values(), comm);
  std::map<std::string, std::vector<double>> found;
  for (const ParameterEntry& e : arena.entries())
    found[e.name.substr(e.name.find('.') + 1)] = {all.begin() + e.offset,
                                                  all.begin() + e.offset + e.count()};
  return found;
}

/// Sets each array to a wave with a phase that goes with its place in the order of names.
template <class Arena>
void set_all(const Arena& arena, double phase, bool unit) {
  const auto host = Kokkos::create_mirror_view(arena.values());
  std::map<std::string, ParameterEntry> sorted;
  for (const ParameterEntry& e : arena.entries()) sorted[e.name] = e;
  for (const auto& [name, e] : sorted) {
    auto values = wave(static_cast<std::size_t>(e.count()), phase);
    double norm = 0.0;
    for (const double v : values) norm += v * v;
    for (std::size_t i = 0; i < values.size(); ++i)
      host(static_cast<std::size_t>(e.offset) + i) = unit ? values[i] / std::sqrt(norm) : values[i];
    phase += 1.0;
  }
  Kokkos::deep_copy(arena.values(), host);
}

using Numbers = std::map<std::string, std::vector<double>>;

void expect_numbers(const Numbers& found, const Numbers& expected) {
  for (const auto& [name, values] : expected) {
    SCOPED_TRACE(name);
    ASSERT_EQ(found.count(name), 1U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(found.at(name)[i], values[i], 2e-12) << i;
  }
}

/// What tests/data/make_torch_weights.py prints: a roll-out, its gradients and buffers, an
/// evaluation. `slots`: the states that the tape stores.
template <class Layer>
Numbers roll_out(const Layer& layer, const Extents<2>& shape, index_t steps, index_t slots) {
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, shape);
  const auto model = domain_parallel<Lat, Lon>(sequential<double>(named<"layer">(layer)), mesh);
  set_all(model.parameters(), 0.3, false);
  set_all(model.buffers(), 0.6, true);
  const auto x = model.input("x", {2, 3, 5, 6});
  fill(x, 0.1);
  const Space space;
  Tape tape(space);
  const auto run = [&] {
    if constexpr (Layer::transposed)
      return tape.run(model, x);
    else
      return tape.loop(model, x, steps, {slots, 0});
  };
  const auto y  = run();
  const auto dy = y.like("dy");
  fill(dy, 0.4);
  Numbers found;
  found["y"]  = summary(world(y));
  found["dx"] = summary(world(tape.pullback(y, dy, x)));
  for (const auto& [name, values] : arrays_of(model.gradients(), mesh.communicator()))
    found["d" + name] = summary(values);
  for (const auto& [name, values] : arrays_of(model.buffers(), MPI_COMM_SELF))
    found[name] = summary(values);
  model.set_training(false);
  found["evaluated"] = summary(world(model(space, x)));
  return found;
}

TEST(SpectralNorm, roll_outs_as_pytorch) {
  const Numbers expected{
      {"y", {1.6992747945052158, 0.9345451310242565, 6.839279956756124}},
      {"dx", {0.14796414262239807, 0.3751578666260081, -7.830891132190999}},
      {"dbias", {-8.69110553865961, -1.4284258824388565, -2.399091817951887}},
      {"dweight_orig", {-0.7269183364894103, -3.7572093767852572, -8.589565757864472}},
      {"weight_u", {0.4408896761852513, 0.45603090365888027, 1.0131434134231405}},
      {"weight_v", {0.1468082614020774, -0.1256116723134222, 0.27186324794784267}},
      {"evaluated", {-0.07690260831431062, 0.6793796903041454, -0.01633762609053724}}};
  const SpectralNorm<Conv3> layer(Conv3{3, 3});
  for (const auto& shape : mesh_shapes())
    for (const index_t slots : {0, 1, 2})
      expect_numbers(roll_out(layer, shape, 3, slots), expected);
}

TEST(SpectralNorm, of_a_transposed_convolution_as_pytorch) {
  const Numbers expected{
      {"y", {0.28792276974758013, -1.1786966262108074, 24.821084189431275}},
      {"dx", {0.1421641027692478, 0.9080604063419454, -8.401290305826164}},
      {"dbias", {-8.191127956363749, 6.4861834089325185, -11.876385869076767}},
      {"dweight_orig", {-1.2277016763889421, 0.3992851416839915, -1.2147147571647672}},
      {"weight_u", {0.3496430214192318, -0.6958249046183796, 1.3600948405092594}},
      {"weight_v", {0.12451260579462142, 0.09013100656011465, 0.908352267823699}},
      {"evaluated", {0.28792276974758013, -1.1786966262108074, 24.821084189431275}}};
  for (const auto& shape : mesh_shapes())
    expect_numbers(roll_out(SpectralNorm<Up4>(Up4{3, 4}), shape, 1, 0), expected);
}

TEST(SpectralNorm, remembers_a_number_of_applies) {
  EXPECT_NO_THROW(roll_out(SpectralNorm<Conv3>(Conv3{3, 3}, 1e-12, 4), {0, 0}, 4, 1));
  expect_parts(message_thrown_by<ArgumentError>([] {
                 roll_out(SpectralNorm<Conv3>(Conv3{3, 3}, 1e-12, 3), {0, 0}, 4, 1);
               }),
               {"SpectralNorm", "the last 3", "`remembered`"});
  message_thrown_by<ArgumentError>([] {
    roll_out(SpectralNorm<Conv3>(Conv3{3, 3}, 1e-12, 0), {0, 0}, 1, 0);
  });
}

TEST(SpectralNorm, begins_with_unit_vectors_and_the_layers_weight) {
  const auto norm  = sequential<double>(SpectralNorm<Conv3>(Conv3{3, 4}));
  const auto plain = sequential<double>(Conv3{3, 4});
  norm.initialise(Space(), 7);
  plain.initialise(Space(), 7);
  EXPECT_EQ(arrays_of(norm.parameters(), MPI_COMM_SELF)["weight_orig"],
            arrays_of(plain.parameters(), MPI_COMM_SELF)["weight"]);
  EXPECT_EQ(arrays_of(norm.parameters(), MPI_COMM_SELF)["bias"],
            arrays_of(plain.parameters(), MPI_COMM_SELF)["bias"]);
  for (const auto& [name, values] : arrays_of(norm.buffers(), MPI_COMM_SELF)) {
    double square = 0.0;
    for (const double v : values) square += v * v;
    EXPECT_NEAR(square, 1.0, 1e-14) << name;
  }
}

/// In a struct the names are those of the members.
TEST(SpectralNorm, in_structs) {
  const auto model = shard::model<double>(Net{});
  model.initialise(Space(), 3);
  std::vector<std::string> names;
  for (const auto& e : model.parameters().entries()) names.push_back(e.name);
  for (const auto& e : model.buffers().entries()) names.push_back(e.name);
  EXPECT_EQ(names, (std::vector<std::string>{"first.weight_orig", "first.bias", "more.0.lora_A",
                                             "more.0.lora_B", "more.1.lora_A", "more.1.lora_B",
                                             "first.weight_u", "first.weight_v", "more.0.weight",
                                             "more.0.bias", "more.1.weight", "more.1.bias"}));
  std::vector<Results> found;
  for (const MPI_Comm comm : {MPI_COMM_SELF, MPI_COMM_WORLD}) {
    const Mesh<Lat, Lon> mesh(comm, {0, 0});
    model.initialise(Space(), 3);
    found.push_back(run(domain_parallel<Lat, Lon>(model, mesh), {2, 3, 9, 8}));
    Kokkos::deep_copy(model.gradients().values(), 0.0);
  }
  expect_near(found[1], found[0], 1e-12);
}

TEST(WeightNorm, roll_outs_as_pytorch) {
  const Numbers expected{
      {"y", {0.5887208385429402, 0.5254789768515856, 0.7135470011252576}},
      {"dx", {0.04435065007886932, 0.17959285160773442, 0.844864590923639}},
      {"dbias", {-1.0548918197266803, -6.852788071404127, -0.27457608589499216}},
      {"dweight_g", {8.470349165445622, -2.980894748506032, 16.756610678913148}},
      {"dweight_v", {-0.5671142222055766, -0.1548118802150674, -9.14532658917576}},
      {"evaluated", {-0.5477893738289024, 0.3246627010197905, -9.444576661761007}}};
  for (const auto& shape : mesh_shapes())
    for (const index_t slots : {0, 1})
      expect_numbers(roll_out(WeightNorm<Conv3>(Conv3{3, 3}), shape, 3, slots), expected);
}

TEST(WeightNorm, begins_with_the_layers_weight) {
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto norm  = sequential<double>(WeightNorm<Conv3>(Conv3{3, 4}));
  const auto plain = sequential<double>(Conv3{3, 4});
  norm.initialise(Space(), 7);
  plain.initialise(Space(), 7);
  EXPECT_EQ(norm.parameters().entries()[0].extents, (std::vector<index_t>{4, 1, 1, 1}));
  expect_near(run(domain_parallel<Lat, Lon>(norm, mesh), {1, 3, 9, 8}).y,
              run(domain_parallel<Lat, Lon>(plain, mesh), {1, 3, 9, 8}).y, 1e-13);
}

auto low_rank_model() {
  const auto model = sequential<double>(named<"a">(LowRank<Conv3>(Conv3{3, 4}, 2, 6.0)), GELU{},
                                        named<"b">(LowRank<Conv1>(Conv1{4, 2, 1, false}, 1, 0.5)));
  set_all(model.parameters(), 0.3, false);
  set_all(model.buffers(), 0.6, false);
  return model;
}

TEST(LowRank, computes_as_the_merged_layer) {
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto model = low_rank_model();
  const auto merged =
      sequential<double>(named<"a">(Conv3{3, 4}), GELU{}, named<"b">(Conv1{4, 2, 1, false}));
  const Space space;
  // the base by itself has the names of the layers
  std::vector<std::string> names;
  for (const auto& e : model.buffers().entries()) names.push_back(e.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a.weight", "a.bias", "b.weight"}));
  Kokkos::deep_copy(merged.parameters().values(), model.buffers().values());
  const auto base  = run(domain_parallel<Lat, Lon>(merged, mesh), {2, 3, 9, 8});
  const auto merge = [&](const auto& from, const auto& to) {
    from.layer().merge(space, from.parameters(), from.buffers(), to.weight());
  };
  merge(model.get<"a">(), merged.get<"a">());
  merge(model.get<"b">(), merged.get<"b">());
  space.fence("merged");
  const auto sharded = domain_parallel<Lat, Lon>(model, mesh);
  const auto found   = run(sharded, {2, 3, 9, 8}),
             wanted  = run(domain_parallel<Lat, Lon>(merged, mesh), {2, 3, 9, 8});
  expect_near(found.y, wanted.y, 1e-13);
  expect_near(found.dx, wanted.dx, 1e-13);
  double difference = 0.0;
  for (std::size_t i = 0; i < base.y.size(); ++i)
    difference = std::max(difference, std::abs(base.y[i] - wanted.y[i]));
  EXPECT_GT(difference, 0.1);
  // without training lora_B is zero, and the layer is the base
  const auto before = arrays_of(model.buffers(), MPI_COMM_SELF);
  const auto b      = Kokkos::subview(model.parameters().values(), std::pair(2 * 27, 2 * 27 + 8));
  Kokkos::deep_copy(b, 0.0);
  EXPECT_EQ(model.parameters().entries()[1].name, "a.lora_B");
  EXPECT_EQ(model.parameters().entries()[0].extents, (std::vector<index_t>{2, 3, 3, 3}));
  EXPECT_EQ(arrays_of(model.buffers(), MPI_COMM_SELF), before);
}

TEST(LowRank, gradients_are_those_of_one_rank_and_of_differences) {
  std::vector<std::vector<double>> found;
  const Space space;
  for (const bool alone : {true, false})
    for (const auto& shape : alone ? std::vector<Extents<2>>{{1, 1}} : mesh_shapes()) {
      const Mesh<Lat, Lon> mesh(alone ? MPI_COMM_SELF : MPI_COMM_WORLD, shape);
      const auto model = domain_parallel<Lat, Lon>(low_rank_model(), mesh);
      found.push_back(run(model, {2, 3, 9, 8}).gradients);
      expect_near(found.back(), found.front(), 1e-12);
      if (!alone) continue;
      const auto x = model.input("x", {2, 3, 9, 8});
      fill(x, 0.1);
      const auto dy = model.output(x);
      fill(dy, 0.4);
      const auto with = [&](std::size_t i, double by) {
        const auto host = Kokkos::create_mirror_view(model.parameters().values());
        Kokkos::deep_copy(host, model.parameters().values());
        host(i) += by;
        Kokkos::deep_copy(model.parameters().values(), host);
        const double j = dot(space, model(space, x), dy);
        host(i) -= by;
        Kokkos::deep_copy(model.parameters().values(), host);
        return j;
      };
      for (std::size_t i = 0; i < found.front().size(); i += 3)
        EXPECT_NEAR(found.front()[i], (with(i, 1e-5) - with(i, -1e-5)) / 2e-5, 1e-6) << i;
    }
}

TEST(LowRank, refuses_other_layers) {
  expect_parts(message_thrown_by<ArgumentError>([] {
                 LowRank<Conv1>(Conv1{4, 4}, 0);
               }),
               {"LowRank", "the rank is 0"});
  expect_parts(message_thrown_by<ArgumentError>([] {
                 LowRank<Conv1>(Conv1{4, 4, 2});
               }),
               {"LowRank", "2 groups"});
}

/// Before the first step a shuffle's output points of one input point are equal.
TEST(ICNR, begins_as_nearest_upsampling) {
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto model = sequential<double>(named<"conv">(Conv3{3, 8}), PixelShuffle<2, 2>{});
  const auto plain = sequential<double>(named<"conv">(Conv3{3, 8}));
  const Space space;
  initialise_icnr(space, Conv3{3, 8}, model.get<"conv">().parameters(), 4, 7, 0);
  initialise(space, Conv3{3, 8}, plain.get<"conv">().parameters(), 7, 0);
  const auto y = run(domain_parallel<Lat, Lon>(model, mesh), {1, 3, 5, 4}).y,
             x = run(domain_parallel<Lat, Lon>(plain, mesh), {1, 3, 5, 4}).y;
  for (std::size_t c = 0; c < 2; ++c)
    for (std::size_t i = 0; i < 10; ++i)
      for (std::size_t j = 0; j < 8; ++j)
        EXPECT_EQ(y[(c * 10 + i) * 8 + j], x[(4 * c * 5 + i / 2) * 4 + j / 2]);
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 initialise_icnr(space, Conv3{3, 8}, plain.get<"conv">().parameters(), 3, 7, 0);
               }),
               {"initialise_icnr", "8 output channels", "groups of 3"});
}

/// A Linear on its own, without a model.
TEST(LowRank, of_a_linear) {
  using Field = ShardedView<float***, Kokkos::LayoutRight, ShardDim<1, Lat>>;
  const Mesh<Lat> mesh(MPI_COMM_WORLD, {ranks()});
  const Field x("x", mesh, {2, 9, 5}), y("y", mesh, {2, 9, 4}), expected("y", mesh, {2, 9, 4});
  const LowRank<Linear> layer(Linear{5, 4}, 2, 4.0);
  const auto p = make_parameters<float>(layer, "p"), g = make_parameters<float>(layer, "g");
  const auto plain = make_parameters<float>(Linear{5, 4}, "plain");
  const Space space;
  Kokkos::deep_copy(x.view(), 0.5F);
  initialise(space, layer, p, 3, 0);
  Kokkos::deep_copy(p.arrays[1], 0.25F);
  auto state = layer.state(x);
  layer.apply(space, state, p, y, x);
  layer.merge(space, p, state.buffers, plain.weight);
  Kokkos::deep_copy(plain.bias, state.bias);
  Linear{5, 4}.apply(space, plain, expected, x);
  space.fence("applied");
  EXPECT_EQ(world(y), world(expected));
  const Field dx = x.like("dx");
  layer.pullback(space, state, p, g, dx, y, x);
  space.fence("pulled back");
  double size = 0.0;
  for (const auto& [name, view] : {std::pair("A", g.arrays[0]), std::pair("B", g.arrays[1])})
    for (const double v : summed(view, mesh.communicator())) size += std::abs(v);
  EXPECT_GT(size, 0.1);
}

/// A model with joined weights and one with plain weights of the same values.
template <class Layer>
void check_joined(const Layer& layer, const std::vector<WeightPart>& parts) {
  const auto joined = sequential<double>(named<"embed">(JoinedWeight<Layer>(layer, parts)), SiLU{});
  const auto plain  = sequential<double>(named<"embed">(layer), SiLU{});
  set_all(joined.parameters(), 0.3, false);
  std::vector<std::string> names;
  for (const auto& e : joined.parameters().entries()) names.push_back(e.name);
  ASSERT_EQ(names.size(), parts.size() + 1);
  for (std::size_t i = 0; i < parts.size(); ++i) EXPECT_EQ(names[i], "embed." + parts[i].name);
  // the values of a weight [out, in, k], from those of the parts
  const auto shape  = layer.parameter_shapes().front();
  const index_t out = shape.extents[0], in = shape.extents[1], window = shape.count() / out / in;
  const auto in_plain = [&](std::size_t part, index_t o, index_t c, index_t k) {
    index_t first = 0;
    for (std::size_t p = 0; p < part; ++p) first += parts[p].channels;
    return static_cast<std::size_t>((o * in + first + c) * window + k);
  };
  const auto for_all = [&](const auto& use) {
    for (std::size_t p = 0; p < parts.size(); ++p)
      for (index_t o = 0; o < out; ++o)
        for (index_t c = 0; c < parts[p].channels; ++c)
          for (index_t k = 0; k < window; ++k)
            use(static_cast<std::size_t>(joined.parameters().entries()[p].offset +
                                         (o * parts[p].channels + c) * window + k),
                in_plain(p, o, c, k));
    for (index_t o = 0; o < out; ++o)
      use(static_cast<std::size_t>(joined.parameters().entries()[parts.size()].offset + o),
          static_cast<std::size_t>(shape.count() + o));
  };
  const auto from =
      Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), joined.parameters().values());
  const auto to = Kokkos::create_mirror_view(plain.parameters().values());
  for_all([&](std::size_t a, std::size_t b) { to(b) = from(a); });
  Kokkos::deep_copy(plain.parameters().values(), to);
  for (const auto& extents : mesh_shapes()) {
    const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, extents);
    const auto a = run(domain_parallel<Lat, Lon>(joined, mesh), {2, in, 7, 9}),
               b = run(domain_parallel<Lat, Lon>(plain, mesh), {2, in, 7, 9});
    EXPECT_EQ(a.y, b.y);
    EXPECT_EQ(a.dx, b.dx);
    for_all([&](std::size_t i, std::size_t j) { EXPECT_EQ(a.gradients[i], b.gradients[j]) << i; });
  }
}

TEST(JoinedWeight, IsTheWeightOfItsParts) {
  check_joined(Conv3{5, 4}, {{"weights.2t", 2}, {"weights.msl", 3}});
  check_joined(Conv1{3, 2}, {{"a", 1}, {"b", 1}, {"c", 1}});
  using Patches = Conv<Kernel<2, 2>, Stride<2, 2>>;
  check_joined(Patches{4, 3}, {{"weights.t", 4}});
}

TEST(JoinedWeight, SaysWhatDoesNotFit) {
  EXPECT_THROW(JoinedWeight<Conv3>(Conv3{5, 4}, {{"a", 2}, {"b", 2}}), ArgumentError);
  EXPECT_THROW(JoinedWeight<Conv3>(Conv3{4, 4}, {{"a", 2}, {"a", 2}}), ArgumentError);
  EXPECT_THROW(JoinedWeight<Conv3>(Conv3{4, 4, 2}, {{"a", 2}, {"b", 2}}), ArgumentError);
}

}  // namespace

}  // namespace shard::testing
