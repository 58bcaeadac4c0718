// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Another library on our communicator, exceptions in the midst of an exchange, ranks that don't
// agree: whatever carries the values.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "shard/io/checkpoint.hpp"
#include "shard/io/safetensors.hpp"
#include "shard/shard.hpp"
#include "support/numbered.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace {

using namespace shard;
using namespace shard::testing;
using Space = Kokkos::DefaultHostExecutionSpace;

/// A transport, and how many ranks a node is said to have (0: as many as there are).
struct Way {
  TransportKind transport;
  const char* ranks_per_node;
};
constexpr std::array<Way, 3> ways = {
    {{TransportKind::automatic, "0"}, {TransportKind::automatic, "2"}, {TransportKind::mpi, "0"}}};

/// Calls function(way) for each way, with SHARD_RANKS_PER_NODE set.
template <class Function>
void in_every_way(const Function& function) {
  for (const Way& way : ways) {
    const ScopedVariable nodes("SHARD_RANKS_PER_NODE", way.ranks_per_node);
    SCOPED_TRACE(std::string(way.transport == TransportKind::mpi ? "mpi" : "automatic") +
                 ", ranks per node " + way.ranks_per_node);
    function(way);
  }
}

/// Sends to and receives from every other rank, on a communicator that it didn't duplicate, with
/// the tags that others might like.
class OtherLibrary {
 public:
  explicit OtherLibrary(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    int *limit = nullptr, found = 0;
    MPI_Comm_get_attr(comm_, MPI_TAG_UB, &limit, &found);
    if (found != 0) tags_.push_back(*limit);
    sent_.resize(messages());
    received_.resize(messages());
  }

  /// `wild`: receives from any rank, with any tag.
  void receive(bool wild) {
    wild_ = wild;
    for_messages([&](std::size_t m, int peer, int tag) {
      received_[m] = {};
      requests_.emplace_back();
      MPI_Irecv(received_[m].data(), static_cast<int>(received_[m].size()), MPI_INT,
                wild ? MPI_ANY_SOURCE : peer, wild ? MPI_ANY_TAG : tag, comm_, &requests_.back());
    });
  }
  void send(int step) {
    step_ = step;
    for_messages([&](std::size_t m, int peer, int tag) {
      sent_[m].fill(word(rank_, peer, tag));
      requests_.emplace_back();
      MPI_Isend(sent_[m].data(), used, MPI_INT, peer, tag, comm_, &requests_.back());
    });
  }
  /// Waits; the number of messages that aren't its own.
  int finish() {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    requests_.clear();
    std::vector<int> wanted, got;
    for_messages([&](std::size_t m, int peer, int tag) {
      wanted.push_back(word(peer, rank_, tag));
      const auto* first = received_[m].data();
      const bool whole  = std::count(first, first + used, *first) == used;
      got.push_back(whole ? *first : -1);
    });
    if (wild_) {
      MPI_Barrier(comm_);  // or messages of the next step might come before this one's
      std::sort(wanted.begin(), wanted.end());
      std::sort(got.begin(), got.end());
    }
    int wrong = 0;
    for (std::size_t m = 0; m < wanted.size(); ++m) wrong += wanted[m] == got[m] ? 0 : 1;
    return wrong;
  }

 private:
  static constexpr int used = 37;
  using Buffer              = std::array<int, 8192>;

  std::size_t messages() const { return tags_.size() * static_cast<std::size_t>(size_ - 1); }
  template <class Visit>
  void for_messages(const Visit& visit) const {
    std::size_t m = 0;
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_)
        for (const int tag : tags_) visit(m++, peer, tag);
  }
  int word(int from, int to, int tag) const {
    return ((step_ * 16 + from) * 16 + to) * 64 + tag % 64 + 1;
  }

  MPI_Comm comm_;
  int rank_ = 0, size_ = 1, step_ = 0;
  bool wild_             = false;
  std::vector<int> tags_ = {0, 1, 2, 3};
  std::vector<Buffer> sent_, received_;
  std::vector<MPI_Request> requests_;
};

TEST(Robustness, AnotherLibraryWithTheSameTagsOnTheSameCommunicator) {
  OtherLibrary other(MPI_COMM_WORLD);
  for (const char* checked : {"0", "1"})
    in_every_way([&](const Way& way) {
      const ScopedVariable check("SHARD_CHECK", checked);
      // two meshes: their plans have the same numbers, and so the same tags
      const Mesh<Y, X> first(MPI_COMM_WORLD, {0, 0}), second(MPI_COMM_WORLD, {0, 0});
      const Plane t = shared_field<Plane>("t", first, {19, 12}), u("u", second, {19, 12});
      // plans are made while the other library's messages are under way
      other.receive(true);
      other.send(0);
      const Exchange of_t(Tuning{.transport = way.transport}, t);
      const Exchange of_u(Tuning{.transport = way.transport}, u);
      EXPECT_EQ(other.finish(), 0);
      for (int step = 1; step <= 12; ++step) {
        fill(t, step);
        fill(u, -step);
        if (step % 2 == 0) other.receive(step % 4 == 0);
        auto a = of_t.start(Space());
        if (step % 3 == 0) other.send(step);
        auto b = of_u.start(Space());
        if (step % 2 != 0) other.receive(step % 3 == 0);
        if (step % 3 != 0) other.send(step);
        // each rank in an order of its own
        if ((step + shard::testing::rank()) % 2 == 0) b.finish();
        a.finish();
        b.finish();
        EXPECT_EQ(other.finish(), 0) << "step " << step;
        EXPECT_EQ(wrong_cells(t, step) + wrong_cells(u, -step), 0) << "step " << step;
      }
      of_t.adjoint(Space());
      of_u.adjoint(Space());
    });
}

struct Thrown : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(Robustness, T18_AnExceptionBetweenStartAndFinish) {
  for (const char* checked : {"0", "1"})
    in_every_way([&](const Way& way) {
      const ScopedVariable check("SHARD_CHECK", checked);
      const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
      const index_t rows = 3 * mesh.size();
      const Rows t       = shared_field<Rows>("t", mesh, {rows, 600}), u("u", mesh, {rows, 600});
      const Exchange halos(Tuning{.transport = way.transport}, t);
      for (int step = 1; step <= 8; ++step) {
        const bool throws = mesh.rank() == step % mesh.size();
        fill(t, step);
        fill(u, -step);
        bool caught = false;
        try {
          auto a = halos.start(Space());
          auto b = halos.start(Space(), u);
          if (throws) throw Thrown("on one rank");
          a.finish();
          b.finish();
        } catch (const Thrown&) {
          caught = true;
        }
        EXPECT_EQ(caught, throws);
        // nothing is half done: there too the halos are full
        EXPECT_EQ(wrong_cells(t, step) + wrong_cells(u, -step), 0) << "step " << step;
      }
      // the transpose: every owned cell has its value and those of its images
      Kokkos::deep_copy(t.view(), 1.0);
      bool caught = false;
      try {
        auto pending = halos.start_adjoint(Space());
        if (mesh.rank() == 0) throw Thrown("on rank 0");
        pending.finish();
      } catch (const Thrown&) {
        caught = true;
      }
      EXPECT_EQ(caught, mesh.rank() == 0);
      int wrong = 0;
      for (index_t j = 0; j < 600; ++j)
        wrong += t(0, j) + t(1, j) + t(2, j) == 5 && t(-1, j) == 0 && t(3, j) == 0 ? 0 : 1;
      EXPECT_EQ(wrong, 0);
      fill(t, 3);
      halos(Space());
      EXPECT_EQ(wrong_cells(t, 3), 0);
    });
}

/// The same AgreementError on every rank, with what both sides have.
template <class Function>
void expect_all_throw(const char* what, std::initializer_list<const char*> parts,
                      const Function& function) {
  SCOPED_TRACE(what);
  const std::string message = message_thrown_by<AgreementError>(function);
  expect_parts(message, parts);
  expect_parts(message, {"rank 0", ("rank " + std::to_string(ranks() - 1)).c_str()});
  auto length = static_cast<int>(message.size());
  MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::string of_rank_0 = message;
  of_rank_0.resize(static_cast<std::size_t>(length));
  MPI_Bcast(of_rank_0.data(), length, MPI_CHAR, 0, MPI_COMM_WORLD);
  EXPECT_EQ(message, of_rank_0);
}

template <class Boundary, int Width = 1, class Layout = Kokkos::LayoutRight>
using RowsOf =
    ShardedView<double**, Layout, ShardDim<0, Y, Halo<Width>, Boundary>, Kokkos::HostSpace>;

TEST(Robustness, RanksThatDisagreeAllThrow) {
  if (ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
  const bool last    = mesh.rank() == mesh.size() - 1;
  const index_t rows = 2 * mesh.size();
  const Rows t("t", mesh, {rows, 8}), longer("longer", mesh, {rows, 9});
  /// A plan of `theirs` on the last rank and of `ours` on the others.
  const auto plan = [&](const auto& ours, const auto& theirs) {
    return [&] {
      if (last)
        const Exchange halos(theirs);
      else
        const Exchange halos(ours);
    };
  };

  expect_all_throw("extents of a field", {"balanced 8", "balanced 9"}, [&] {
    const Rows field("field", mesh, {rows, last ? 9 : 8});
  });
  expect_all_throw("partitions of a field", {}, [&] {
    std::vector<index_t> begins;
    for (int r = 0; r <= mesh.size(); ++r) begins.push_back(r == 1 && last ? 1 : 2 * r);
    const Rows field("field", mesh,
                     {Partition::explicit_begins(begins), Partition::balanced(8, 1)});
  });
  expect_all_throw("extents", {"balanced 8", "balanced 9"}, plan(t, longer));
  expect_all_throw("boundaries", {}, plan(t, RowsOf<Clamp>("clamped", mesh, {rows, 8})));
  expect_all_throw("one end's boundary", {},
                   plan(RowsOf<Sides<Clamp, Reflect>>("one", mesh, {rows, 8}),
                        RowsOf<Sides<Clamp, Symmetric>>("other", mesh, {rows, 8})));
  expect_all_throw("constants", {},
                   plan(RowsOf<Constant<1>>("one", mesh, {rows, 8}),
                        RowsOf<Constant<2>>("other", mesh, {rows, 8})));
  expect_all_throw("widths", {}, plan(t, RowsOf<Periodic, 2>("wide", mesh, {rows, 8})));
  expect_all_throw("number of fields", {}, [&] {
    if (last)
      const Exchange halos(t, t.like("u"));
    else
      const Exchange halos(t);
  });
  expect_all_throw("order of fields", {"balanced 8", "balanced 9"},
                   [&] { const Exchange halos(last ? longer : t, last ? t : longer); });
  expect_all_throw("parts of an exchange", {}, [&] {
    const Exchange halos(t);
    if (last)
      (void)halos.faces();
    else
      (void)halos.width<Halo<0, 1>>();
  });
  expect_all_throw("transports", {"transport"}, [&] {
    const Exchange halos(Tuning{.transport = last ? TransportKind::mpi : TransportKind::automatic},
                         t);
  });
  expect_all_throw("transports by the environment", {"transport"}, [&] {
    const ScopedVariable transport("SHARD_TRANSPORT", last ? "mpi" : "automatic");
    const Exchange halos(t);
  });
  expect_all_throw("transports that there aren't", {"SHARD_TRANSPORT is \"pigeon\""}, [&] {
    const ScopedVariable transport("SHARD_TRANSPORT", last ? "pigeon" : "automatic");
    const Exchange halos(t);
  });
  expect_all_throw("checks", {"not checked"}, [&] {
    const ScopedVariable check("SHARD_CHECK", last ? "1" : "0");
    const Exchange halos(t);
  });
  expect_all_throw("direct runs", {"direct_run=1", "direct_run=2"},
                   [&] { const Exchange halos(Tuning{.direct_run = last ? 2U : 1U}, t); });
  {
    const ScopedVariable transport("SHARD_TRANSPORT", "pigeon");
    expect_parts(message_thrown_by<ArgumentError>([&] { const Exchange halos(t); }),
                 {"\"pigeon\"", "automatic, mpi or nccl"});
  }
  // and afterwards the mesh still works
  fill(t, 1);
  exchange(Space(), t);
  EXPECT_EQ(wrong_cells(t, 1), 0);
}

TEST(Robustness, AnotherPlanThanTheNeighboursIsNamedAtOnce) {
  // SHARD_CHECK is on
  if (ranks() < 2) GTEST_SKIP() << "needs a neighbour";
  in_every_way([&](const Way& way) {
    const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
    const Rows t = shared_field<Rows>("t", mesh, {2 * mesh.size(), 9}),
               u = shared_field<Rows>("u", mesh, {2 * mesh.size(), 7});
    const Exchange first(Tuning{.transport = way.transport}, t),
        second(Tuning{.transport = way.transport}, u);
    const bool sees    = mesh.rank() <= 1 || mesh.rank() == mesh.size() - 1;
    const char* mine   = mesh.rank() == 0 ? "of plan 1 from rank" : "of plan 0 from rank 0";
    const char* theirs = mesh.rank() == 0 ? "got message 0 of plan 0" : "got message 0 of plan 1";
    for (const bool transposed : {false, true}) {
      const Exchange<Rows>& plan = mesh.rank() == 0 ? second : first;
      auto pending               = transposed ? plan.start_adjoint(Space()) : plan.start(Space());
      if (sees && !transposed)
        expect_parts(message_thrown_by<MessageError>([&] { pending.finish(); }),
                     {mine, theirs, "same order"});
      else if (sees)
        expect_parts(message_thrown_by<MessageError>([&] { pending.finish(); }),
                     {"plan 0", "plan 1", "same order"});
      else
        pending.finish();
      MPI_Barrier(MPI_COMM_WORLD);
    }
  });
}

/// Everything that takes a communicator, given one that it can't use: on that rank alone, before
/// MPI could abort.
TEST(Communicators, ThatAreNoneAreRefused) {
  MPI_Comm between = MPI_COMM_NULL, group = MPI_COMM_NULL;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (ranks() > 1) {
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &group);
    MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, 1 - rank % 2, 0, &between);
  }
  const LogicalMesh logical = LogicalMesh::of_shape({1});
  const ParameterArena<double, Kokkos::HostSpace> arena("arena", 1);
  const auto expect = [&](const char* function, const auto& call) {
    SCOPED_TRACE(function);
    expect_parts(message_thrown_by<ArgumentError>([&] { call(MPI_COMM_NULL); }),
                 {function, "MPI_COMM_NULL", "contains this rank"});
    if (between == MPI_COMM_NULL) return;
    expect_parts(message_thrown_by<ArgumentError>([&] { call(between); }),
                 {function, "intercommunicator"});
  };
  expect("Mesh", [&](MPI_Comm comm) { Mesh<X>(comm, {1}); });
  expect("Mesh", [&](MPI_Comm comm) { Mesh<X>(comm, logical); });
  expect("Mesh::of_domains", [&](MPI_Comm comm) { Mesh<X, Y>::of_domains(comm, {1}); });
  expect("DeviceMesh", [&](MPI_Comm comm) { DeviceMesh(comm, logical); });
  expect("devices_of", [&](MPI_Comm comm) { (void)devices_of(comm); });
  expect("Checkpoint", [&](MPI_Comm comm) { Checkpoint{comm}; });
  expect("LossScale", [&](MPI_Comm comm) { LossScale<double>(1, comm); });
  expect("save_safetensors", [&](MPI_Comm comm) { save_safetensors("none", arena, comm); });
  expect("load_safetensors", [&](MPI_Comm comm) { load_safetensors("none", arena, comm); });
  if (between == MPI_COMM_NULL) return;
  expect_parts(message_thrown_by<ArgumentError>([&] { GradientNorm<double>(1, 1, between); }),
               {"GradientNorm", "intercommunicator"});
  MPI_Comm_free(&between);
  MPI_Comm_free(&group);
}

}  // namespace
