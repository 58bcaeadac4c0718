// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/io/safetensors.hpp"

#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "io/scratch_file.hpp"
#include "shard/layers/window/conv.hpp"
#include "shard/layers/window/conv_transpose.hpp"
#include "shard/layers/norm/group_norm.hpp"
#include "shard/layers/norm/layer_norm.hpp"
#include "shard/layers/pointwise/linear.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

/// A layer with parameters of any shape.
struct Named {
  std::vector<ParameterShape> shapes;
  std::vector<ParameterShape> parameter_shapes() const { return shapes; }
  template <class T, class Memory>
  struct Parameters {
    Kokkos::View<T*, Kokkos::LayoutRight, Memory> weight, bias;
  };
};

template <class T>
using Arena = ParameterArena<T, Kokkos::HostSpace>;

template <class T>
Arena<T> model() {
  Arena<T> arena("model", 30);
  arena.take("0", Conv<Kernel<2>>{2, 4});
  arena.take("1.norm", GroupNorm{2, 4});
  return arena;
}

template <class T>
Arena<T> numbered(double factor) {
  const auto arena = model<T>();
  for (std::size_t i = 0; i < arena.values().extent(0); ++i)
    arena.values()(i) = static_cast<T>(factor * std::sin(1.0 + static_cast<double>(i)));
  return arena;
}

template <class T>
std::vector<double> values_of(const Arena<T>& arena) {
  return {arena.values().data(), arena.values().data() + arena.values().extent(0)};
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Safetensors, what_is_written_is_read_again_bit_for_bit) {
  const ScratchFile file("round");
  const auto from = numbered<double>(1.0);
  save_safetensors(file.path(), from, MPI_COMM_WORLD);
  const auto to                  = model<double>();
  const SafetensorsReport report = load_safetensors(file.path(), to, MPI_COMM_WORLD);
  // values beyond the entries are the arena's own
  const auto expected = values_of(from), read = values_of(to);
  for (std::size_t i = 0; i < 28; ++i) EXPECT_EQ(read[i], expected[i]);
  EXPECT_EQ(read[28], 0.0);
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
  const SafetensorsHeader header = read_safetensors_header(file.path());
  ASSERT_EQ(header.arrays.size(), 4U);
  EXPECT_EQ(header.arrays[0].name, "0.weight");
  EXPECT_EQ(header.arrays[0].extents, (std::vector<index_t>{4, 2, 2}));
  EXPECT_EQ(header.arrays[3].name, "1.norm.bias");
  EXPECT_EQ(header.data % 8, 0);
}

TEST(Safetensors, RanksWriteAndReadPiecesInTurn) {
  const ScratchFile file("pieces");
  const Conv<Kernel<1>> layer{500, 701};
  const auto arena = [&] {
    Arena<double> a("arena", 500 * 701 + 701);
    a.take("layer", layer);
    return a;
  };
  const auto from = arena(), to = arena();
  const auto number = [](std::size_t i) {
    return std::round(1e3 * std::sin(static_cast<double>(i)));
  };
  for (std::size_t i = 0; i < from.values().extent(0); ++i) from.values()(i) = number(i);
  for (const SafetensorsType type : {SafetensorsType::F64, SafetensorsType::F32}) {
    Kokkos::deep_copy(to.values(), 0.0);
    save_safetensors(file.path(), from, MPI_COMM_WORLD, {.type = type});
    load_safetensors(file.path(), to, MPI_COMM_WORLD);
    int wrong = 0;
    for (std::size_t i = 0; i < to.values().extent(0); ++i)
      wrong += to.values()(i) == number(i) ? 0 : 1;
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(read_safetensors<double>(file.path(), "layer.weight")[12345], number(12345));
  }
}

TEST(Safetensors, other_types_are_rounded_to_nearest_even) {
  const auto arena  = numbered<double>(1.0);
  arena.values()(0) = 2049.0;   // half: a tie, to 2048
  arena.values()(1) = 2051.0;   // half: a tie, to 2052
  arena.values()(2) = 65519.0;  // half: the largest below infinity
  arena.values()(3) = 65520.0;  // half: infinity
  arena.values()(4) = 3e-8;     // half: below the smallest, which it is nearer to than to 0
  arena.values()(5) = -2.9e-8;  // half: -0
  arena.values()(6) = 257.0;    // bfloat16: a tie, to 256
  arena.values()(7) = 259.0;    // bfloat16: a tie, to 260
  arena.values()(8) = 1e39;     // bfloat16: infinity
  arena.values()(9) = std::numeric_limits<double>::quiet_NaN();
  const double inf  = std::numeric_limits<double>::infinity();
  struct Case {
    SafetensorsType type;
    const char* name;
    std::vector<double> expected;
  };
  for (const Case& c :
       {Case{SafetensorsType::F16, "F16", {2048, 2052, 65504, inf, 0x1p-24, -0.0, 257, 259, inf}},
        Case{SafetensorsType::BF16,
             "BF16",
             {2048, 2048, 65536, 65536, 3.0035153e-8, -249 * 0x1p-33, 256, 260, inf}},
        Case{SafetensorsType::F32,
             "F32",
             {2049, 2051, 65519, 65520, 3e-8F, -2.9e-8F, 257, 259, inf}}}) {
    SCOPED_TRACE(c.name);
    const ScratchFile file("types");
    save_safetensors(file.path(), arena, MPI_COMM_WORLD, {.type = c.type});
    EXPECT_EQ(read_safetensors_header(file.path()).arrays[0].type, c.name);
    const auto to = model<float>();
    load_safetensors(file.path(), to, MPI_COMM_WORLD);
    for (std::size_t i = 0; i < c.expected.size(); ++i)
      EXPECT_EQ(to.values()(i), static_cast<float>(c.expected[i])) << i;
    EXPECT_TRUE(std::isnan(to.values()(9)));
  }
}

TEST(Safetensors, a_file_made_by_others) {
  const std::string path = SHARD_TEST_DATA "/by_hand.safetensors";
  Arena<double> arena("model", 13);
  arena.take("stem", Named{{{"weight", {2, 3}}, {"bias", {2}}}});
  arena.take("last", Named{{{"weight", {2, 1}}, {"bias", {3}}}});
  load_safetensors(path, arena, MPI_COMM_WORLD,
                   {.prefix = "module.", .rename = {{"**.conv.**", "**.**"}}});
  const std::vector<double> expected{
      0.0, 0.25,    -1.5, 3.0,  static_cast<double>(1e-3F),     -7e8, 65504.0, -0x1p-24,
      0.1, -1e-300, 1.0,  -2.5, static_cast<double>(0x1.fep127)};
  EXPECT_EQ(values_of(arena), expected);
  EXPECT_EQ(read_safetensors<double>(path, "module.last.weight"),
            (std::vector<double>{0.1, -1e-300}));
  message_thrown_by<ArgumentError>([&] { read_safetensors<double>(path, "last.weight"); });
  message_thrown_by<ArgumentError>([&] { read_safetensors<double>(path, "other.steps"); });
  const SafetensorsHeader header = read_safetensors_header(path);
  ASSERT_EQ(header.metadata.size(), 1U);
  EXPECT_EQ(header.metadata[0].first, "made by");
  EXPECT_EQ(header.metadata[0].second,
            "\xC3\x9C"
            "bung \xF0\x9F\x98\x80 \"1\"\n");
  ASSERT_NE(header.find("other.steps"), nullptr);
  EXPECT_TRUE(header.find("other.steps")->extents.empty());
}

TEST(Safetensors, prefix_and_renaming_when_writing) {
  const ScratchFile file("renamed");
  const auto from = numbered<float>(2.0);
  save_safetensors(file.path(), from, MPI_COMM_WORLD,
                   {.prefix = "net.", .rename = {{"0.**", "0.conv.**"}, {"1.norm.*", "gn.*"}}});
  EXPECT_NE(read_safetensors_header(file.path()).find("net.0.conv.weight"), nullptr);
  EXPECT_NE(read_safetensors_header(file.path()).find("net.gn.bias"), nullptr);
  const auto to = model<float>();
  load_safetensors(file.path(), to, MPI_COMM_WORLD,
                   {.prefix = "net.", .rename = {{"**.conv.**", "**.**"}, {"gn.*", "1.norm.*"}}});
  for (std::size_t i = 0; i < 28; ++i) EXPECT_EQ(to.values()(i), from.values()(i));
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 save_safetensors(file.path(), from, MPI_COMM_WORLD,
                                  {.rename = {{"**.weight", "**.w"}, {"**.bias", "**.w"}}});
               }),
               {"two arrays", "0.w"});
}

TEST(Safetensors, RenamingIsByWholeComponentsAndReported) {
  const ScratchFile file("components");
  Arena<double> from("from", 8);
  from.take("block.0.b", Named{{{"b", {1}}, {"bias", {1}}}});
  from.take("bb", Named{{{"b", {1}}, {"weight", {1}}}});
  for (std::size_t i = 0; i < 4; ++i) from.values()(i) = 1.0 + static_cast<double>(i);
  save_safetensors(file.path(), from, MPI_COMM_WORLD, {.prefix = "net."});
  const auto renamed = [&](const std::vector<std::pair<std::string, std::string>>& pairs) {
    Arena<double> none("none", 0);
    const SafetensorsReport report = load_safetensors(
        file.path(), none, MPI_COMM_WORLD, {.prefix = "net.", .rename = pairs, .strict = false});
    std::string words;
    for (const auto& [there, here] : report.renamed) words += there + ">" + here + " ";
    return words;
  };
  EXPECT_EQ(renamed({}), "");
  EXPECT_EQ(renamed({{"**.b", "**.bias"}}), "net.block.0.b.b>block.0.b.bias net.bb.b>bb.bias ");
  EXPECT_EQ(renamed({{"block.*.**", "layer.*.**"}}),
            "net.block.0.b.b>layer.0.b.b net.block.0.b.bias>layer.0.b.bias ");
  EXPECT_EQ(renamed({{"*.weight", "*.w"}, {"bb.**", "c.**"}}), "net.bb.b>c.b net.bb.weight>c.w ");
  EXPECT_EQ(renamed({{"b", "x"}, {"*.b.b", "*.b.x"}, {"**.b.b.**", "**.b.x.**"}}),
            "net.block.0.b.b>block.0.b.x ");
  Arena<double> to("to", 4);
  to.take("block.0.b", Named{{{"b", {1}}, {"bias", {1}}}});
  to.take("bb", Named{{{"bias", {1}}, {"weight", {1}}}});
  load_safetensors(file.path(), to, MPI_COMM_WORLD,
                   {.prefix = "net.", .rename = {{"bb.b", "bb.bias"}}});
  EXPECT_EQ(values_of(to), (std::vector<double>{1, 2, 3, 4}));
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 load_safetensors(file.path(), to, MPI_COMM_WORLD,
                                  {.prefix = "net.", .rename = {{"bb.b", "bb.c"}}});
               }),
               {"the file lacks \"bb.bias\"", "\"bb.c\" (\"net.bb.b\" in the file)"});
  struct Case {
    const char *from, *to, *part;
  };
  for (const Case& c : {Case{".b", ".bias", "between dots"}, Case{"", "a", "between dots"},
                        Case{"a.*", "a", "the same wildcards"}, Case{"a*", "b*", "\"a*\" has more"},
                        Case{"*.**", "**.*", "the same wildcards"}})
    for (const bool load : {true, false}) {
      SCOPED_TRACE(c.from);
      const SafetensorsOptions options{.rename = {{c.from, c.to}}};
      expect_parts(message_thrown_by<ArgumentError>([&] {
                     if (load)
                       load_safetensors(file.path(), to, MPI_COMM_WORLD, options);
                     else
                       save_safetensors(file.path(), to, MPI_COMM_WORLD, options);
                   }),
                   {c.part});
    }
}

TEST(Safetensors, ShapesThatMeanTheSameAreTaken) {
  const ScratchFile file("shapes");
  const auto named = [](std::vector<index_t> extents) {
    return Named{{{"weight", std::move(extents)}}};
  };
  // whether a file that `in_file` makes is read by `in_model`
  const auto taken = [&](const auto& in_file, const auto& in_model) {
    Arena<double> from("from", 100), to("to", 100);
    from.take("a", in_file);
    to.take("a", in_model);
    for (std::size_t i = 0; i < 100; ++i) from.values()(i) = 1.0 + static_cast<double>(i);
    save_safetensors(file.path(), from, MPI_COMM_WORLD);
    try {
      load_safetensors(file.path(), to, MPI_COMM_WORLD);
    } catch (const ArgumentError& error) {
      for (const Arena<double>* arena : {&from, &to}) {
        const auto& e = arena->entries()[0].extents;
        expect_parts(error.what(),
                     {"\"a.weight\"", impl::text(e.data(), static_cast<int>(e.size())).c_str()});
      }
      EXPECT_EQ(to.values()(0), 0.0);
      return false;
    }
    for (index_t i = 0; i < from.entries()[0].count(); ++i)
      EXPECT_EQ(to.values()(static_cast<std::size_t>(i)), 1.0 + static_cast<double>(i));
    return true;
  };
  const Linear linear{3, 2, false};
  const Conv<Kernel<1, 1>> flat{3, 2, 1, false};
  const Conv<Kernel<1, 1, 1>> cube{3, 2, 1, false};
  const Conv<Kernel<1, 2>> wide{3, 2, 1, false};
  const ConvTranspose<Kernel<1, 1>> transposed{2, 3, 1, false};  // [2, 3, 1, 1], from in to out
  EXPECT_TRUE(taken(linear, flat));
  EXPECT_TRUE(taken(flat, linear));
  EXPECT_TRUE(taken(linear, cube));
  EXPECT_TRUE(taken(cube, linear));
  EXPECT_FALSE(taken(flat, cube));
  EXPECT_FALSE(taken(linear, wide));
  EXPECT_FALSE(taken(linear, transposed));
  EXPECT_FALSE(taken(Linear{2, 3, false}, flat));
  EXPECT_FALSE(taken(linear, Conv<Kernel<1, 1>>{6, 2, 2, false}));  // in two groups
  EXPECT_TRUE(taken(named({1, 4, 1, 1}), named({4})));
  EXPECT_TRUE(taken(Named{{{"weight", {1, 4, 1, 1}}, {"bias", {1, 4, 1, 1}}}}, LayerNorm{4}));
  EXPECT_TRUE(taken(named({4}), named({1, 4, 1, 1})));
  EXPECT_TRUE(taken(named({1, 4, 1}), named({4})));
  for (const auto& other : std::vector<std::vector<index_t>>{
           {4, 1, 1}, {4, 1}, {1, 4}, {1, 4, 2, 1}, {1, 1, 4, 1}, {2, 2}, {1, 8, 1, 1}}) {
    EXPECT_FALSE(taken(named(other), named({4})));
    EXPECT_FALSE(taken(named({4}), named(other)));
  }
  EXPECT_FALSE(taken(named({3}), Conv<Kernel<1, 1>>{3, 1, 1, false}));
  EXPECT_FALSE(taken(named({2, 3, 1, 1}), named({2, 3})));
}

/// Loads into another model than the file's and expects this to be thrown and nothing changed.
template <class Exception>
void expect_refused(const std::string& path, const Arena<double>& arena,
                    std::initializer_list<const char*> parts,
                    const SafetensorsOptions& options = {}) {
  const auto before = values_of(arena);
  expect_parts(
      message_thrown_by<Exception>([&] { load_safetensors(path, arena, MPI_COMM_WORLD, options); }),
      parts);
  EXPECT_EQ(values_of(arena), before);
}

TEST(Safetensors, what_does_not_fit_is_told_with_names_and_shapes) {
  const ScratchFile file("misfit");
  save_safetensors(file.path(), numbered<double>(1.0), MPI_COMM_WORLD);
  Arena<double> other("model", 100);
  other.take("0", Conv<Kernel<3>>{2, 4});
  other.take("1.norm", GroupNorm{2, 4});
  expect_refused<ArgumentError>(file.path(), other,
                                {"\"0.weight\"", "[4, 2, 2]", "[4, 2, 3]", file.path().c_str()});
  expect_refused<ArgumentError>(file.path(), other, {"\"0.weight\"", "[4, 2, 2]", "[4, 2, 3]"},
                                {.strict = false});
  Arena<double> more = model<double>();
  expect_refused<ArgumentError>(file.path(), more, {"the model has no", "\"x\""},
                                {.rename = {{"0.weight", "x"}}});
  expect_refused<ArgumentError>(file.path(), more, {"the file lacks", "\"0.weight\""},
                                {.rename = {{"0.weight", "x"}}});
  expect_refused<ArgumentError>(file.path(), more, {"\"0.weight\" and \"0.bias\""},
                                {.rename = {{"0.bias", "0.weight"}}});
  const SafetensorsReport report = load_safetensors(
      file.path(), more, MPI_COMM_WORLD, {.rename = {{"0.weight", "x"}}, .strict = false});
  EXPECT_EQ(report.missing, std::vector<std::string>{"0.weight"});
  EXPECT_EQ(report.unexpected, std::vector<std::string>{"x"});
  EXPECT_EQ(more.values()(0), 0.0);
  EXPECT_EQ(more.values()(17), numbered<double>(1.0).values()(17));
  Arena<double> counter("model", 1);
  counter.take("other", Named{{{"steps", {}}}});
  expect_refused<ArgumentError>(SHARD_TEST_DATA "/by_hand.safetensors", counter,
                                {"\"other.steps\"", "I64"},
                                {.rename = {{"module.**", "other.**"}}});
}

TEST(Safetensors, ranks_with_other_models_are_told) {
  if (ranks() == 1) return;
  const ScratchFile file("disagree");
  save_safetensors(file.path(), numbered<double>(1.0), MPI_COMM_WORLD);
  Arena<double> mine("model", 100);
  mine.take(rank() == 0 ? "0" : "1", Conv<Kernel<3>>{2, 4});
  message_thrown_by<AgreementError>([&] { load_safetensors(file.path(), mine, MPI_COMM_WORLD); });
}

TEST(Safetensors, files_that_cannot_be_opened) {
  expect_refused<IoError>("/nowhere/x.safetensors", model<double>(), {"/nowhere/x.safetensors"});
  message_thrown_by<IoError>(
      [&] { save_safetensors("/nowhere/x.safetensors", model<double>(), MPI_COMM_WORLD); });
}

TEST(Safetensors, every_truncation_is_an_error) {
  const ScratchFile file("whole"), cut("cut");
  save_safetensors(file.path(), numbered<double>(1.0), MPI_COMM_WORLD);
  const std::string whole = bytes_of(file.path());
  for (std::size_t n = 0; n < whole.size(); n += whole.size() / 13) {
    cut.write(whole.substr(0, n));
    expect_refused<IoError>(cut.path(), model<double>(), {"truncated"});
    message_thrown_by<IoError>([&] { read_safetensors_header(cut.path()); });
  }
  cut.write(whole + "x");
  expect_refused<IoError>(cut.path(), model<double>(), {"bytes of data"});
}

/// A file of this header, the length before it and 16 bytes of data.
std::string with_header(const std::string& json) {
  std::string length(8, '\0');
  length[0] = static_cast<char>(json.size() & 0xFF);
  length[1] = static_cast<char>(json.size() >> 8);
  return length + json + std::string(16, '\0');
}

TEST(Safetensors, malformed_headers) {
  const std::string good =
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})";
  const ScratchFile file("malformed");
  file.write(with_header(good));
  EXPECT_EQ(read_safetensors_header(file.path()).arrays.size(), 2U);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string json = good;
    return json.replace(json.find(from), from.size(), to);
  };
  // an array of a type that isn't known doesn't keep others from being read
  file.write(with_header(changed("F32", "F8_E8M0")));
  EXPECT_EQ(read_safetensors<float>(file.path(), "b"), std::vector<float>(2, 0.0F));
  expect_parts(message_thrown_by<ArgumentError>([&] { read_safetensors<float>(file.path(), "a"); }),
               {"\"a\"", "F8_E8M0", "isn't one of"});
  struct Case {
    std::string json;
    const char* part;
  };
  for (const Case& c : std::vector<Case>{
           {changed("{", "["), "'{'"},
           {changed("}}", "}"), "'}'"},
           {good + "x", "follows"},
           {changed("\"b\"", "\"a\""), "twice"},
           {changed("\"dtype\":\"F32\",", "\"dtype\":\"F32\",\"dtype\":\"F64\","),
            "\"dtype\" appears twice"},
           {changed("\"shape\":[2],", "\"shape\":[3],\"shape\":[2],"), "\"shape\" appears twice"},
           {changed("{", "{\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"},"), "\"a\" appears twice"},
           {changed("[2]", "[02]"), "begins with a zero"},
           {changed("[0,8]", "[00,8]"), "begins with a zero"},
           {changed("\"a\"", "\"\xC3\""), "UTF-8"},
           {changed("\"a\"", "\"\xC0\x80\""), "UTF-8"},
           {changed("\"a\"", "\"\xED\xA0\x80\""), "UTF-8"},
           {changed("\"a\"", "\"\xE0\x9F\xBF\""), "UTF-8"},
           {changed("\"a\"", "\"\xF4\x90\x80\x80\""), "UTF-8"},
           {changed("\"a\"", "\"\xFF\""), "UTF-8"},
           {" " + good, "'{'"},
           {changed("\"shape\":[2],", ""), "lacks one of"},
           {changed("\"dtype\":\"F32\",", ""), "lacks one of"},
           {changed("F32", "F64"), "16 bytes by its shape"},
           {changed("[2]", "[-2]"), "a number of zero or more is missing"},
           {changed("[2]", "[99999999999999999999]"), "too large"},
           {changed("[2]", "[4611686018427387904,8]"), "too many values"},
           {changed("[0,8]", "[0]"), "not two"},
           {changed("[0,8]", "[8,0]"), "begins at byte"},
           {changed("[8,16]", "[0,8]"), "begins at byte"},
           {changed("[8,16]", "[9,17]"), "begins at byte"},
           {changed("[8,16]", "[8,24]"), "bytes by its shape"},
           {changed("\"F32\"", "\"F32"), "'}'"},
           {changed("\"a\"", "\"\\x\""), "escape"},
           {changed("\"a\"", "\"\\u12\""), "\\u"},
           {changed("\"a\"", "\"\\ud800\""), "surrogate"},
           {changed("\"a\"", "\"\n\""), "control character"},
           {changed("\"dtype\"", "\"kind\""), "has a \"kind\""},
           {"", "'{'"},
           {"{", "there is no"},
           {"{\"a", "doesn't end"},
           {"{}", "bytes of data"}}) {
    SCOPED_TRACE(c.json);
    MPI_Barrier(MPI_COMM_WORLD);
    file.write(with_header(c.json));
    expect_refused<IoError>(file.path(), model<double>(), {c.part});
  }
  file.write(std::string(7, 'x') + std::string(100, 'x'));
  expect_refused<IoError>(file.path(), model<double>(), {"isn't a safetensors file"});
}

TEST(Safetensors, NamesOfAnyCharacters) {
  const ScratchFile file("names");
  // an empty name, one with NUL, and one of more than ASCII
  file.write(with_header(
      R"({"":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"a\u0000b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},"\u00fc":{"dtype":"F32","shape":[],"data_offsets":[12,16]}})"));
  const SafetensorsHeader header = read_safetensors_header(file.path());
  ASSERT_EQ(header.arrays.size(), 3U);
  EXPECT_EQ(header.arrays[1].name, std::string("a\0b", 3));
  expect_refused<ArgumentError>(
      file.path(), model<double>(),
      {"the model has no \"\", \"a\\u0000b\", \"\xC3\xBC\"", "lacks \"0.weight\""});
  Arena<double> none("none", 0);
  const SafetensorsReport report =
      load_safetensors(file.path(), none, MPI_COMM_WORLD, {.strict = false});
  EXPECT_EQ(report.unexpected, (std::vector<std::string>{"", std::string("a\0b", 3), "\xC3\xBC"}));
  expect_refused<ArgumentError>(file.path(), none,
                                {"the model has no \"\" (\"\xC3\xBC\" in the file)"},
                                {.prefix = "\xC3\xBC"});
  expect_parts(
      message_thrown_by<ArgumentError>([&] { read_safetensors<double>(file.path(), "a\x1F"); }),
      {"\"a\\u001f\""});
  for (const char* name : {"a\xFF", "\xED\xB0\x80"}) {
    Arena<double> bad("bad", 1);
    bad.take(name, Named{{{"weight", {1}}}});
    expect_parts(message_thrown_by<ArgumentError>(
                     [&] { save_safetensors(file.path(), bad, MPI_COMM_WORLD); }),
                 {"UTF-8"});
  }
  EXPECT_EQ(read_safetensors_header(file.path()).arrays.size(), 3U);  // what was there stays
}

TEST(Safetensors, WhatIsNoFileIsAnErrorAtOnce) {
  for_special_files([](const std::string& path, const char* what) {
    expect_refused<IoError>(path, model<double>(), {what, path.c_str()});
    expect_parts(message_thrown_by<IoError>([&] { read_safetensors_header(path); }), {what});
    if (path.rfind("/dev/", 0) == 0) return;  // not to be tried
    expect_parts(message_thrown_by<IoError>(
                     [&] { save_safetensors(path, numbered<double>(1.0), MPI_COMM_WORLD); }),
                 {what, path.c_str()});
    expect_parts(message_thrown_by<IoError>([&] { require_writable(path, MPI_COMM_WORLD); }),
                 {what, path.c_str()});
  });
}

TEST(Safetensors, WhatCannotBeWrittenIsKnownBeforehand) {
  const ScratchFile file("probe");
  require_writable(file.path(), MPI_COMM_WORLD);
  EXPECT_NE(access(file.path().c_str(), F_OK), 0);
  MPI_Barrier(MPI_COMM_WORLD);
  file.write("as it was");
  require_writable(file.path(), MPI_COMM_WORLD);
  EXPECT_EQ(bytes_of(file.path()), "as it was");
  expect_parts(message_thrown_by<IoError>(
                   [] { require_writable("/nowhere/x.safetensors", MPI_COMM_WORLD); }),
               {"/nowhere/x.safetensors"});
}

}  // namespace
}  // namespace shard::testing
