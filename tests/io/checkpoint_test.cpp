// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/io/checkpoint.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "io/scratch_file.hpp"
#include "shard/layers/window/conv.hpp"
#include "shard/layers/norm/group_norm.hpp"
#include "shard/mesh/mesh.hpp"
#include "shard/train/loss_scale.hpp"
#include "shard/train/optimisers.hpp"
#include "shard/reduce/reductions.hpp"
#include "support/counting.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

struct Lat;
struct Lon;

using Space = Kokkos::DefaultExecutionSpace;
using Grid  = Mesh<Lat, Lon>;
using Map   = ShardedView<double***, Kokkos::LayoutRight, ShardDim<1, Lat, Halo<2, 1>>,
                        ShardDim<2, Lon, Halo<1>>>;
using Left  = ShardedView<float**, Kokkos::LayoutLeft, ShardDim<0, Lon, Halo<1>>>;
using Line  = ShardedView<std::int32_t*, Kokkos::LayoutRight, ShardDim<0, Axes<Lat, Lon>>>;

Partition some_partition(std::mt19937_64& engine, index_t n, int parts) {
  std::vector<index_t> begins{0, n};
  std::uniform_int_distribution<index_t> anywhere(0, n);
  for (int p = 1; p < parts; ++p) begins.push_back(anywhere(engine));
  std::sort(begins.begin(), begins.end());
  return Partition::explicit_begins(begins);
}

/// Calls visit(value, global index in words) for the owned cells of a host field.
template <class F, class Visit>
void for_each_cell(const F& f, const Visit& visit) {
  for (index_t i = 0; i < f.extent(0); ++i)
    if constexpr (F::rank == 1)
      visit(f(i), f.to_global(0, i));
    else
      for (index_t j = 0; j < f.extent(1); ++j)
        if constexpr (F::rank == 2)
          visit(f(i, j), f.to_global(0, i) * 1000 + f.to_global(1, j));
        else
          for (index_t k = 0; k < f.extent(2); ++k)
            visit(f(i, j, k),
                  (f.to_global(0, i) * 1000 + f.to_global(1, j)) * 1000 + f.to_global(2, k));
}

double value_at(index_t global) { return std::sin(0.1 + static_cast<double>(global)) * 1e5; }

/// Everything that a state can have, with other values for another seed.
struct State {
  Grid mesh;
  Map map;
  Left left;
  Line line;
  ParameterArena<float> arena{"parameters", 40};
  AdamW<float> adam{40};
  LossScale<float> scale;
  index_t step       = 0;
  std::uint64_t seed = 0;
  double rate        = 0.0;

  State(MPI_Comm comm, const Extents<2>& shape, std::uint64_t partitions)
      : mesh(comm, shape), scale(40, mesh.communicator()) {
    std::mt19937_64 engine(partitions);
    const auto lat = [&](index_t n) { return some_partition(engine, n, mesh.size<Lat>()); };
    const auto lon = [&](index_t n) { return some_partition(engine, n, mesh.size<Lon>()); };
    map            = Map("map", mesh, {Partition::balanced(3, 1), lat(11), lon(13)});
    left           = Left("left", mesh, {lon(17), Partition::balanced(5, 1)});
    line = Line("line", mesh, {some_partition(engine, 29, mesh.size<Lat>() * mesh.size<Lon>())});
    arena.take("0", Conv<Kernel<2>>{2, 4});
    arena.take("1", GroupNorm{2, 4});
  }

  template <class F>
  static void fill(const F& f) {
    const auto host = create_mirror_view(f);
    for_each_cell(host, [](auto& value, index_t global) {
      value = static_cast<std::decay_t<decltype(value)>>(value_at(global));
    });
    deep_copy(Space(), f, host);
    Kokkos::fence();
  }
  void fill() {
    fill(map);
    fill(left);
    fill(line);
    const auto host = Kokkos::create_mirror_view(arena.values());
    for (std::size_t i = 0; i < host.extent(0); ++i)
      host(i) = static_cast<float>(value_at(static_cast<index_t>(i)));
    Kokkos::deep_copy(arena.values(), host);
    adam(Space(), arena.values(), arena.values());
    adam(Space(), arena.values(), arena.values());
    step = 12345;
    seed = std::numeric_limits<std::uint64_t>::max() - 3;
    rate = 0.1;
    scale.unscale(Space(), Kokkos::View<float*, Kokkos::LayoutRight, Space::memory_space>("g", 40));
  }

  Checkpoint checkpoint() {
    Checkpoint all(mesh.communicator());
    all.add("map", map);
    all.add("left", left);
    all.add("line", line);
    all.add("model", arena);
    all.add("adam", adam);
    all.add("scale", scale);
    all.add("step", step);
    all.add("seed", seed);
    all.add("rate", rate);
    return all;
  }

  /// What is the same on every rank, and this rank's cells that aren't as `fill` made them.
  std::vector<double> replicated() {
    std::vector<double> all{static_cast<double>(step), static_cast<double>(seed), rate};
    const auto add = [&](const char*, auto& part) {
      if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>) {
        all.push_back(static_cast<double>(part));
      } else {
        const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), part);
        for (std::size_t i = 0; i < host.extent(0); ++i)
          all.push_back(static_cast<double>(host(i)));
      }
    };
    auto values = Kokkos::subview(arena.values(), std::pair<std::size_t, std::size_t>(0, 28));
    add("", values);
    adam.for_each_state(add);
    scale.for_each_state(add);
    return all;
  }
  int wrong_cells() const {
    int wrong        = 0;
    const auto check = [&](const auto& f) {
      const auto host = create_mirror_view(f);
      deep_copy(Space(), host, f);
      Kokkos::fence();
      for_each_cell(host, [&](const auto& value, index_t global) {
        wrong += value == static_cast<std::decay_t<decltype(value)>>(value_at(global)) ? 0 : 1;
      });
    };
    check(map);
    check(left);
    check(line);
    return wrong;
  }
};

TEST(Checkpoint, is_read_on_other_ranks_and_meshes_bit_for_bit) {
  const ScratchFile file("checkpoint");
  State before(MPI_COMM_WORLD, {ranks(), 1}, seed());
  before.fill();
  before.checkpoint().save(file.path());
  const auto expected = before.replicated();
  MPI_Comm some       = MPI_COMM_NULL;  // two groups of ranks, each reads it all
  MPI_Comm_split(MPI_COMM_WORLD, rank() % 2, rank(), &some);
  const auto expect_read = [&](MPI_Comm comm, const Extents<2>& shape) {
    State after(comm, shape, seed() + 5);
    ASSERT_NE(after.replicated(), expected);
    after.checkpoint().load(file.path());
    EXPECT_EQ(after.replicated(), expected);
    EXPECT_EQ(after.wrong_cells(), 0);
  };
  expect_read(MPI_COMM_WORLD, {1, ranks()});
  expect_read(MPI_COMM_WORLD, {0, 0});
  expect_read(MPI_COMM_SELF, {1, 1});
  expect_read(some, {0, 1});
  MPI_Comm_free(&some);

  // the other way: written by one rank, and by a mesh with another shape
  const ScratchFile other("checkpoint2");
  if (rank() == 0) {
    State alone(MPI_COMM_SELF, {1, 1}, 1);
    alone.fill();
    alone.checkpoint().save(other.path());
  }
  MPI_Barrier(MPI_COMM_WORLD);
  State after(MPI_COMM_WORLD, {0, 0}, seed() + 9);
  after.checkpoint().load(other.path());
  EXPECT_EQ(after.replicated(), expected);
  EXPECT_EQ(after.wrong_cells(), 0);
}

TEST(Checkpoint, its_parameters_are_a_state_dict) {
  const ScratchFile file("checkpoint");
  State before(MPI_COMM_WORLD, {ranks(), 1}, seed());
  before.fill();
  // of whatever instance wrote the state
  const auto fences =
      shard::testing::count([&] { before.checkpoint().save(file.path()); }).fence_names;
  EXPECT_EQ(fences.at(0), "shard::Checkpoint: kernels that write the state are complete");
  State after(MPI_COMM_WORLD, {ranks(), 1}, seed());
  load_safetensors(file.path(), after.arena, MPI_COMM_WORLD, {.prefix = "model."});
  const auto a = before.replicated(), b = after.replicated();
  for (std::size_t i = 3; i < 31; ++i) EXPECT_EQ(a[i], b[i]);
  EXPECT_EQ(read_safetensors_header(file.path()).find("map")->extents,
            (std::vector<index_t>{3, 11, 13}));
}

/// The state is longer than a piece: of the View the ranks write and read pieces in turn.
TEST(Checkpoint, StateOfManyPieces) {
  const ScratchFile file("long");
  using Numbers     = Kokkos::View<double*, Space::memory_space>;
  const auto number = [](std::size_t i) { return value_at(static_cast<index_t>(i) + 7); };
  const Numbers numbers("numbers", 300007), read("read", 300007);
  const auto numbers_host = Kokkos::create_mirror_view(numbers);
  for (std::size_t i = 0; i < numbers_host.extent(0); ++i) numbers_host(i) = number(i);
  Kokkos::deep_copy(numbers, numbers_host);
  using Long = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Lat>, ShardDim<1, Lon>>;
  const Grid mesh(MPI_COMM_WORLD, {0, 0});
  const Long from("long", mesh, {700, 601});
  State::fill(from);
  Checkpoint saved(mesh.communicator());
  saved.add("numbers", numbers);
  saved.add("field", from);
  saved.save(file.path());
  const Grid turned(MPI_COMM_WORLD, {1, ranks()});
  const Long to("long", turned, {700, 601});
  Checkpoint loaded(turned.communicator());
  loaded.add("numbers", read);
  loaded.add("field", to);
  loaded.load(file.path());
  int wrong            = 0;
  const auto read_host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), read);
  for (std::size_t i = 0; i < read_host.extent(0); ++i) wrong += read_host(i) == number(i) ? 0 : 1;
  const auto host = create_mirror_view(to);
  deep_copy(Space(), host, to);
  Kokkos::fence();
  for_each_cell(host,
                [&](double value, index_t global) { wrong += value == value_at(global) ? 0 : 1; });
  EXPECT_EQ(wrong, 0);
}

TEST(Checkpoint, ASetOfFieldsIsSavedByNumber) {
  const ScratchFile file("set");
  using Small    = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Lat>, ShardDim<1, Lon>>;
  const auto set = [](const Grid& mesh) {
    std::vector<Small> fields;
    for (const index_t n : {5, 7}) fields.emplace_back("field", mesh, std::array<index_t, 2>{n, 9});
    return fields;
  };
  const Grid mesh(MPI_COMM_WORLD, {0, 0}), turned(MPI_COMM_WORLD, {1, ranks()});
  const auto from = set(mesh), to = set(turned);
  for (const Small& field : from) State::fill(field);
  Checkpoint saved(mesh.communicator()), loaded(turned.communicator());
  saved.add("tracers", from);
  saved.save(file.path());
  loaded.add("tracers", to);
  loaded.load(file.path());
  EXPECT_EQ(read_safetensors_header(file.path()).find("tracers.1")->extents,
            (std::vector<index_t>{7, 9}));
  int wrong = 0;
  for (const Small& field : to) {
    const auto host = create_mirror_view(field);
    deep_copy(Space(), host, field);
    Kokkos::fence();
    for_each_cell(
        host, [&](double value, index_t global) { wrong += value == value_at(global) ? 0 : 1; });
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Checkpoint, LoadedFieldsHaveStaleHalos) {
  const ScopedVariable checked("SHARD_CHECK", "1");
  const ScratchFile file("stale");
  const Grid mesh(MPI_COMM_WORLD, {0, 0});
  const Map map("map", mesh, {3, 11, 13});
  Checkpoint all(mesh.communicator());
  all.add("map", map);
  deep_copy(Space(), map, 1.0);
  all.save(file.path());
  all.load(file.path());
  const auto host = create_mirror_view(map);
  deep_copy(Space(), host, map);
  Kokkos::fence();
  for_each_cell(host, [](double value, index_t) { EXPECT_EQ(value, 1.0); });
  for (index_t k = 0; k < host.extent(2); ++k) {
    EXPECT_TRUE(std::isnan(host(0, -1, k)));
    EXPECT_TRUE(std::isnan(host(2, host.extent(1), k)));
  }
}

/// y = a x + b, J = sum (y - t)^2, every sum exact, so that no bit hangs on the number of ranks.
struct Training {
  Grid mesh;
  using F    = ShardedView<double***, Kokkos::LayoutRight, ShardDim<1, Lat>, ShardDim<2, Lon>,
                        Kokkos::HostSpace>;
  using Host = Kokkos::DefaultHostExecutionSpace;
  F x, ones, error;
  Kokkos::View<double*, Kokkos::LayoutRight, Kokkos::HostSpace> parameters{"p", 2};
  AdamW<double, Kokkos::HostSpace> adam{2, {0.05, 0.9, 0.999, 1e-8, 0.01}};
  index_t step = 0;

  Training(MPI_Comm comm, const Extents<2>& shape)
      : mesh(comm, shape), x("x", mesh, {2, 9, 10}), ones(x.like("ones")), error(x.like("error")) {
    for_each_cell(x, [](double& value, index_t g) { value = 1e-5 * value_at(g); });
    for_each_cell(ones, [](double& value, index_t) { value = 1.0; });
  }
  void go(int steps) {
    for (int s = 0; s < steps; ++s, ++step) {
      for (index_t l = 0; l < x.extent(0); ++l)
        for (index_t i = 0; i < x.extent(1); ++i)
          for (index_t j = 0; j < x.extent(2); ++j) {
            error(l, i, j) = parameters(0) * x(l, i, j) + parameters(1) - std::cos(x(l, i, j));
            x(l, i, j) += 0.01 * error(l, i, j);  // the state moves on too
          }
      Kokkos::View<double*, Kokkos::LayoutRight, Kokkos::HostSpace> g("g", 2);
      g(0) = 2.0 * dot<Determinism::ordered>(Host(), error, x);
      g(1) = 2.0 * dot<Determinism::ordered>(Host(), error, ones);
      adam(Host(), parameters, g);
      Kokkos::fence();
    }
  }
  Checkpoint checkpoint() {
    Checkpoint all(mesh.communicator());
    all.add("x", x);
    all.add("parameters", parameters);
    all.add("adam", adam);
    all.add("step", step);
    return all;
  }
};

TEST(Checkpoint, the_run_goes_on_with_the_same_bits_on_other_ranks) {
  const ScratchFile file("run");
  Training whole(MPI_COMM_SELF, {1, 1});
  whole.go(7);
  Training first(MPI_COMM_WORLD, {ranks(), 1});
  first.go(3);
  first.checkpoint().save(file.path());
  Training second(MPI_COMM_WORLD, {1, ranks()});
  second.checkpoint().load(file.path());
  EXPECT_EQ(second.step, 3);
  second.go(4);
  Training alone(MPI_COMM_SELF, {1, 1});
  alone.checkpoint().load(file.path());
  alone.go(4);
  for (std::size_t p = 0; p < 2; ++p) {
    EXPECT_EQ(second.parameters(p), whole.parameters(p));
    EXPECT_EQ(alone.parameters(p), whole.parameters(p));
  }
  int wrong = 0;
  for (index_t l = 0; l < 2; ++l)
    for (index_t i = 0; i < second.x.extent(1); ++i)
      for (index_t j = 0; j < second.x.extent(2); ++j)
        wrong += second.x(l, i, j) == whole.x(l, second.x.to_global(1, i), second.x.to_global(2, j))
                     ? 0
                     : 1;
  EXPECT_EQ(wrong, 0);
}

TEST(Checkpoint, a_damaged_file_is_refused_and_the_state_stays) {
  const ScratchFile file("good"), bad("bad");
  State before(MPI_COMM_WORLD, {ranks(), 1}, seed());
  before.fill();
  before.checkpoint().save(file.path());
  std::ifstream in(file.path(), std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  State after(MPI_COMM_WORLD, {ranks(), 1}, seed());
  const auto untouched = after.replicated();
  const int wrong      = after.wrong_cells();
  const auto refused   = [&](const std::string& bytes) {
    bad.write(bytes);
    message_thrown_by<IoError>([&] { after.checkpoint().load(bad.path()); });
    EXPECT_EQ(after.replicated(), untouched);
    EXPECT_EQ(after.wrong_cells(), wrong);
  };
  for (std::size_t at = 3; at < good.size(); at += good.size() / 23) {
    std::string bytes = good;
    bytes[at]         = static_cast<char>(bytes[at] ^ 4);
    SCOPED_TRACE(at);
    refused(bytes);
  }
  refused(good.substr(0, good.size() - 1));
  std::string swapped = good;  // two values of one array have changed places
  std::swap_ranges(swapped.end() - 16, swapped.end() - 8, swapped.end() - 8);
  EXPECT_NE(swapped, good);
  refused(swapped);
  message_thrown_by<IoError>([&] { after.checkpoint().load("/nowhere/checkpoint"); });
  save_safetensors(bad.path(), before.arena, MPI_COMM_WORLD);
  expect_parts(message_thrown_by<IoError>([&] { after.checkpoint().load(bad.path()); }),
               {"isn't a checkpoint", "\"format\""});
  std::string later = good;  // a format of the future, whose checksum may be another
  later.replace(later.find("shard checkpoint 1"), 18, "shard checkpoint 2");
  bad.write(later);
  expect_parts(message_thrown_by<IoError>([&] { after.checkpoint().load(bad.path()); }),
               {"\"shard checkpoint 2\"", "this version reads \"shard checkpoint 1\""});
  EXPECT_EQ(after.replicated(), untouched);
}

/// A field and a number with these values.
struct Small {
  Grid mesh;
  Map map;
  index_t step;

  Small(MPI_Comm comm, index_t value, index_t rows = 11)
      : mesh(comm, {0, 0}), map("map", mesh, {3, rows, 13}), step(value) {
    deep_copy(Space(), map, static_cast<double>(value));
    Kokkos::fence();
  }
  Checkpoint checkpoint() {
    Checkpoint all(mesh.communicator());
    all.add("map", map);
    all.add("step", step);
    return all;
  }
  /// Whether every owned cell and the number have this value.
  bool is(index_t value) const {
    const auto host = create_mirror_view(map);
    deep_copy(Space(), host, map);
    Kokkos::fence();
    bool same = step == value;
    for_each_cell(host,
                  [&](double cell, index_t) { same = same && cell == static_cast<double>(value); });
    return same;
  }
};

TEST(Checkpoint, WhatIsNoFileIsAnErrorAtOnce) {
  Small state(MPI_COMM_WORLD, 1);
  for_special_files([&](const std::string& path, const char* what) {
    expect_parts(message_thrown_by<IoError>([&] { state.checkpoint().load(path); }), {what});
    if (path.rfind("/dev/", 0) == 0) return;  // not to be tried
    expect_parts(message_thrown_by<IoError>([&] { state.checkpoint().save(path); }), {what});
  });
  EXPECT_TRUE(state.is(1));
}

TEST(Checkpoint, FilesOfStrangersAreNeverWritten) {
  const ScratchFile file("mine"), theirs("theirs");
  theirs.write("theirs");
  const std::string old   = file.path() + ".part";
  const std::string first = file.path() + "." + std::to_string(getpid()) + ".0.part";
  if (rank() == 0) {  // links where a name might be guessed
    EXPECT_EQ(symlink(theirs.path().c_str(), old.c_str()), 0);
    EXPECT_EQ(symlink(theirs.path().c_str(), first.c_str()), 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  Small state(MPI_COMM_WORLD, 7), read(MPI_COMM_WORLD, 0);
  state.checkpoint().save(file.path());
  read.checkpoint().load(file.path());
  EXPECT_TRUE(read.is(7));
  std::ifstream in(theirs.path(), std::ios::binary);
  EXPECT_EQ((std::string{std::istreambuf_iterator<char>(in), {}}), "theirs");
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank() == 0) {
    for (const std::string& link : {old, first}) {
      char target[4096];
      EXPECT_GT(readlink(link.c_str(), target, sizeof target), 0);
      std::remove(link.c_str());
    }
    // nothing of ours is left beside it
    EXPECT_NE(access((file.path() + "." + std::to_string(getpid()) + ".1.part").c_str(), F_OK), 0);
  }
}

TEST(Checkpoint, JobsThatSaveToOnePathLeaveACompleteFile) {
  if (ranks() == 1) return;
  // each rank is a job of its own: a process that saves what it alone has
  const ScratchFile file("shared");
  Small mine(MPI_COMM_SELF, rank(), 400);
  int all_saved = 0;
  for (int round = 0; round < 15; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    int saved = 0;
    try {
      mine.checkpoint().save(file.path());
      saved = 1;
    } catch (const IoError& error) {
      expect_parts(error.what(), {"another program"});
    }
    std::vector<int> who(static_cast<std::size_t>(ranks()));
    MPI_Allgather(&saved, 1, MPI_INT, who.data(), 1, MPI_INT, MPI_COMM_WORLD);
    all_saved += std::count(who.begin(), who.end(), 1) > 0 ? 1 : 0;
    Small read(MPI_COMM_SELF, -1, 400);
    read.checkpoint().load(file.path());
    ASSERT_TRUE(read.step >= 0 && read.step < ranks());
    EXPECT_EQ(who[static_cast<std::size_t>(read.step)], 1) << "it was told that it failed";
    EXPECT_TRUE(read.is(read.step));
  }
  EXPECT_EQ(all_saved, 15);
}

TEST(Checkpoint, AFileThatIsCutOffWhileItIsReadChangesNothing) {
  if (ranks() > 2) return;
  const ScratchFile file("cut");
  Small before(MPI_COMM_WORLD, 5, 9000), after(MPI_COMM_WORLD, 1, 9000);
  before.checkpoint().save(file.path());
  const double begin = MPI_Wtime();
  after.checkpoint().load(file.path());
  const double whole = MPI_Wtime() - begin;
  EXPECT_TRUE(after.is(5));
  for (int k = 0; k < 16; ++k) {
    before.checkpoint().save(file.path());
    Small state(MPI_COMM_WORLD, 1, 9000);
    MPI_Barrier(MPI_COMM_WORLD);
    std::thread cutter;
    if (rank() == 0)
      cutter = std::thread([&] {  // another program, at any time of the load
        std::this_thread::sleep_for(std::chrono::duration<double>(whole * k / 16));
        EXPECT_EQ(truncate(file.path().c_str(), 3000), 0);
      });
    bool read = true;
    try {
      state.checkpoint().load(file.path());
    } catch (const IoError&) {
      read = false;
    }
    if (rank() == 0) cutter.join();
    EXPECT_TRUE(state.is(read ? 5 : 1)) << k;
  }
}

TEST(Checkpoint, another_state_is_told) {
  const ScratchFile file("another");
  const Grid mesh(MPI_COMM_WORLD, {ranks(), 1});
  const Left small("small", mesh, {4, 2}), large("large", mesh, {4, 3});
  index_t step = 1;
  double real  = 1.0;
  Checkpoint saved(mesh.communicator());
  saved.add("field", small);
  saved.add("step", step);
  saved.save(file.path());
  Checkpoint loaded(mesh.communicator());
  loaded.add("field", large);
  loaded.add("step", real);
  loaded.add("more", step);
  expect_parts(message_thrown_by<ArgumentError>([&] { loaded.load(file.path()); }),
               {"\"field\"", "[4, 2]", "[4, 3]", "\"step\" is I64 [] in the file and F64 []",
                "lacks \"more\""});
  Checkpoint less(mesh.communicator());
  less.add("field", small);
  expect_parts(message_thrown_by<ArgumentError>([&] { less.load(file.path()); }),
               {"this state has no \"step\""});
  expect_parts(message_thrown_by<ArgumentError>([&] { less.add("field", step); }),
               {"\"field\" already"});
  if (ranks() > 1) {
    Checkpoint mine(mesh.communicator());
    mine.add(rank() == 0 ? "a" : "b", step);
    message_thrown_by<AgreementError>([&] { mine.save(file.path()); });
  }
  // a file that can't be written; the one from before stays
  message_thrown_by<IoError>([&] { saved.save("/nowhere/checkpoint"); });
  saved.load(file.path());
  EXPECT_EQ(step, 1);
}

}  // namespace
}  // namespace shard::testing
