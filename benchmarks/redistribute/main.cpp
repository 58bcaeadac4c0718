// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All-to-all, against a hand-written MPI_Alltoallv with packing, on the same arrays in turn;
// collectives against MPI's own; packing and unpacking against a memcpy of the same bytes. Prints
// Google Benchmark's JSON, a table on stderr. `redistribute [--quick] [--only KIND]`, transpose,
// sequence, packing, collectives, coupling or sets; --quick: few calls on small arrays, to see
// whether it works. A coupling goes from the first half of the ranks to the others; the halos of
// sets of fields are for two ranks.
#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../../src/exchange/transfer.hpp"
#include "hand_written.hpp"
#include "measure.hpp"
#include "shard/base/environment.hpp"
#include "shard/collectives/collectives.hpp"
#include "shard/redistribute/coupling.hpp"
#include "shard/redistribute/redistribute.hpp"
#include "shard/collectives/zigzag.hpp"
#include "shard/view/sharded_view.hpp"
#include "support/arguments.hpp"

namespace {

struct Ranks;
using shard::index_t;
using Space = Kokkos::DefaultHostExecutionSpace;
using Array = Kokkos::View<float***, Kokkos::LayoutRight, Kokkos::HostSpace>;

struct Run {
  const Space space;
  const shard::Mesh<Ranks> mesh;
  bool quick;
  int calls;
  std::vector<Result> results;

  MPI_Comm comm() const { return mesh.communicator(); }
};

Array make(const hand::Box& n) {
  return Array("array", static_cast<std::size_t>(n[0]), static_cast<std::size_t>(n[1]),
               static_cast<std::size_t>(n[2]));
}
float value(index_t i, index_t j, index_t k) {
  return static_cast<float>((i * 131 + j * 17 + k) % 65521);
}
/// Fills an array, or compares it, with the values of the global places that `global` says.
template <class Global>
void fill(const Array& array, const Global& global) {
  for (std::size_t i = 0; i < array.extent(0); ++i)
    for (std::size_t j = 0; j < array.extent(1); ++j)
      for (std::size_t k = 0; k < array.extent(2); ++k) {
        const hand::Box at = global(
            hand::Box{static_cast<index_t>(i), static_cast<index_t>(j), static_cast<index_t>(k)});
        array(i, j, k) = value(at[0], at[1], at[2]);
      }
}
template <class Global>
bool holds(const Array& array, const Global& global) {
  const Array wanted("wanted", array.extent(0), array.extent(1), array.extent(2));
  fill(wanted, global);
  return std::equal(array.data(), array.data() + array.size(), wanted.data());
}
double bytes_of(const Array& array) { return 4.0 * static_cast<double>(array.size()); }

template <int Dim>
using Cut = shard::ShardedView<float***, Kokkos::LayoutRight, shard::ShardDim<Dim, Ranks>,
                               Kokkos::HostSpace>;

/// A field cut in dimension `cut` becomes one cut in `to_cut`.
template <int cut, int to_cut>
void transpose(Run& run, const hand::Box& n) {
  const int ranks = run.mesh.size(), rank = run.mesh.rank();
  const auto places = [&](int d) {
    const auto at = static_cast<std::size_t>(d);
    return
        [at, begin = hand::begin_of(n[at], ranks, rank)](hand::Box i) { return i[at] += begin, i; };
  };
  const Cut<cut> source("source", run.mesh, {n[0], n[1], n[2]});
  const Cut<to_cut> target("target", run.mesh, {n[0], n[1], n[2]});
  const Array from = source.view(), to = target.view();
  fill(from, places(cut));
  hand::Transpose by_hand(run.comm(), n, cut, to_cut);
  const auto right = [&] { return holds(to, places(to_cut)); };
  const auto clear = [&] { Kokkos::deep_copy(to, -1.0f); };
  std::vector<Way> ways{{"hand_mpi", [&] { by_hand(to.data(), from.data()); }, right, clear}};
  if (n[static_cast<std::size_t>(cut)] % ranks == 0 &&
      n[static_cast<std::size_t>(to_cut)] % ranks == 0)
    ways.push_back({"shard_all_to_all",
                    [&] { shard::all_to_all<Ranks>(run.space, to, from, run.mesh, to_cut, cut); },
                    right, clear});
  ways.push_back({"shard_redistribute", [&] { shard::redistribute(run.space, target, source); },
                  right, clear});
  ways.push_back({"hand_pack", [&] { by_hand.pack(from.data()); }});
  ways.push_back({"hand_unpack", [&] { by_hand.unpack(to.data()); }});
  std::vector<char> copy(from.size() * sizeof(float));
  ways.push_back({"memcpy", [&] { std::memcpy(copy.data(), from.data(), copy.size()); }});
  measure(run.comm(),
          "transpose/" + std::to_string(n[0]) + "x" + std::to_string(n[1]) + "x" +
              std::to_string(n[2]) + "/cut" + std::to_string(cut) + "to" + std::to_string(to_cut),
          bytes_of(from), run.calls, ways, run.results);
}

/// [1, channels, length] in zigzag order.
void sequence(Run& run, const hand::Box& n) {
  const int ranks = run.mesh.size(), rank = run.mesh.rank();
  const shard::ZigzagPartition part(n[2], ranks);
  const Array split = make({n[0], n[1], n[2] / ranks}), full = make({n[0], n[1] / ranks, n[2]});
  const auto in_split = [&](hand::Box i) { return i[2] = part.global_index(rank, i[2]), i; };
  const auto in_full  = [&](hand::Box i) { return i[1] += rank * n[1] / ranks, i; };
  hand::Sequence by_hand(run.comm(), n);
  const std::string name =
      std::to_string(n[0]) + "x" + std::to_string(n[1]) + "x" + std::to_string(n[2]);

  fill(split, in_split);
  auto right = [&] { return holds(full, in_full); };
  auto clear = [&] { Kokkos::deep_copy(full, -1.0f); };
  measure(run.comm(), "split_to_full/" + name, bytes_of(split), run.calls,
          {{"hand_mpi", [&] { by_hand.split_to_full(full.data(), split.data()); }, right, clear},
           {"shard_all_to_all",
            [&] { shard::all_to_all<shard::SplitToFull, Ranks>(run.space, full, split, run.mesh); },
            right, clear}},
          run.results);
  auto right_back = [&] { return holds(split, in_split); };
  auto clear_back = [&] { Kokkos::deep_copy(split, -1.0f); };
  measure(run.comm(), "full_to_split/" + name, bytes_of(split), run.calls,
          {{"hand_mpi", [&] { by_hand.full_to_split(split.data(), full.data()); }, right_back,
            clear_back},
           {"shard_all_to_all",
            [&] { shard::all_to_all<shard::FullToSplit, Ranks>(run.space, split, full, run.mesh); },
            right_back, clear_back}},
          run.results);
}

/// Two blocks, of which a View holds lines of `run_bytes` bytes in turn, packed and unpacked; with
/// `transposed` the View has its dimensions the other way round.
void packing(Run& run, index_t run_bytes, bool transposed) {
  constexpr index_t value = sizeof(float), ranks = 2;
  const index_t all = (run.quick ? index_t{1} << 20 : index_t{1} << 26), n = run_bytes / value;
  const index_t lines = all / run_bytes / ranks;
  const auto words    = static_cast<std::size_t>(all / value);
  const Kokkos::View<std::uint32_t*, Kokkos::HostSpace> view("view", words),
      buffer("buffer", words), other("other", words);
  for (std::size_t i = 0; i < words; ++i) view(i) = static_cast<std::uint32_t>(i);
  // a View [lines][ranks][n], or [n][ranks][lines] if transposed; a block of a rank is [lines][n]
  const std::array<index_t, shard::impl::max_rank> in_view{
      transposed ? lines : n, transposed ? 1 : ranks * n, transposed ? ranks * lines : 1},
      in_buffer{lines * n, n, 1};
  const auto mover = [&] {
    shard::impl::RouteField field;
    field.value_size = static_cast<int>(value);
    field.rank       = 3;
    shard::impl::BoxRoute route(field);
    route.keep({{}, {ranks, lines, n}}, {{}, {ranks, lines, n}});
    return shard::impl::TransferPlan<Kokkos::HostSpace>(one_step(std::move(route)), 1);
  };
  shard::impl::TransferGroup<Kokkos::HostSpace> here;
  const auto bytes_at = [](const auto& v) { return reinterpret_cast<std::byte*>(v.data()); };
  auto packer = mover(), unpacker = mover();
  const shard::impl::TransferField packed{bytes_at(view), bytes_at(buffer), in_view, in_buffer},
      unpacked{bytes_at(buffer), bytes_at(other), in_buffer, in_view};
  const auto bytes = static_cast<std::size_t>(all);
  const auto same  = [&] { return std::memcmp(view.data(), other.data(), bytes) == 0; };
  measure(run.comm(),
          std::string(transposed ? "packing_transposed/" : "packing/") + std::to_string(run_bytes),
          static_cast<double>(all), run.calls,
          {{"pack", [&] { packer.run(run.space, here, &packed); }},
           {"unpack", [&] { unpacker.run(run.space, here, &unpacked); }, same,
            [&] {
              packer.run(run.space, here, &packed);
              Kokkos::deep_copy(other, 0u);
            }},
           {"memcpy_into", [&] { std::memcpy(buffer.data(), view.data(), bytes); }},
           {"memcpy_out", [&] { std::memcpy(other.data(), buffer.data(), bytes); }}},
          run.results);
}

/// The yardstick of transposed packing: a matrix transposed by blocks of 16, as one writes it.
void local_transpose(Run& run) {
  const std::size_t rows = run.quick ? 512 : 4096, edge = 16;
  const Kokkos::View<float**, Kokkos::LayoutRight, Kokkos::HostSpace> from("from", rows, rows),
      to("to", rows, rows);
  const auto by_blocks = [&] {
    for (std::size_t i0 = 0; i0 < rows; i0 += edge)
      for (std::size_t j0 = 0; j0 < rows; j0 += edge)
        for (std::size_t i = i0; i < i0 + edge; ++i)
          for (std::size_t j = j0; j < j0 + edge; ++j) to(j, i) = from(i, j);
  };
  const std::size_t bytes = from.size() * sizeof(float);
  measure(
      run.comm(), "local_transpose/" + std::to_string(rows), static_cast<double>(bytes), run.calls,
      {{"by_blocks", by_blocks}, {"memcpy", [&] { std::memcpy(to.data(), from.data(), bytes); }}},
      run.results);
}

/// A field of the first half of the ranks becomes one of the others.
void coupling(Run& run, const hand::Box& n, int calls) {
  const int ranks = run.mesh.size(), rank = run.mesh.rank(), senders = ranks / 2;
  const bool sends = rank < senders;
  MPI_Comm half    = MPI_COMM_NULL;
  MPI_Comm_split(run.comm(), sends ? 0 : 1, rank, &half);
  {
    const shard::Mesh<Ranks> mesh(half, {0});
    Cut<0> source;
    Cut<1> target;
    if (sends)
      source = Cut<0>("source", mesh, {n[0], n[1], n[2]});
    else
      target = Cut<1>("target", mesh, {n[0], n[1], n[2]});
    const auto places = [&](hand::Box i) {
      return i[1] += hand::begin_of(n[1], ranks - senders, rank - senders), i;
    };
    if (sends)
      fill(source.view(),
           [&](hand::Box i) { return i[0] += hand::begin_of(n[0], senders, rank), i; });
    hand::Couple by_hand(run.comm(), n, senders);
    const auto coupling_by = [&](shard::TransportKind transport) {
      return std::make_shared<shard::Coupling<Cut<1>, Cut<0>>>(
          run.comm(), sends ? nullptr : &target, sends ? &source : nullptr,
          shard::CouplingOptions{.tuning = {.transport = transport}});
    };
    const auto couple = coupling_by(shard::TransportKind::automatic),
               by_mpi = coupling_by(shard::TransportKind::mpi);
    const auto right  = [&] { return sends || holds(target.view(), places); };
    const auto clear  = [&] {
      if (!sends) Kokkos::deep_copy(target.view(), -1.0f);
    };
    // a sender is ready before its message has come: the barrier counts for both ways
    const auto together = [&](const auto& call) {
      return [&run, call] {
        call();
        MPI_Barrier(run.comm());
      };
    };
    measure(run.comm(), "coupling/" + std::to_string(4 * n[0] * n[1] * n[2] / senders),
            4.0 * static_cast<double>(n[0] * n[1] * n[2] / senders), calls,
            {{"hand_mpi", together([&] { by_hand(target.view().data(), source.view().data()); }),
              right, clear},
             {"shard_coupling", together([&] { (*couple)(run.space); }), right, clear},
             {"shard_coupling_mpi", together([&] { (*by_mpi)(run.space); }), right, clear},
             {"barrier", together([] {})}},
            run.results);
  }
  MPI_Comm_free(&half);
}

/// Times halo exchanges of `count` fields of 8 x 64 x 64 on each rank.
void sets(Run& run, std::size_t count, int calls) {
  using Field        = shard::ShardedView<float***, Kokkos::LayoutRight,
                                   shard::ShardDim<1, Ranks, shard::Halo<1>, shard::Periodic>,
                                   Kokkos::HostSpace>;
  const index_t rows = 64 * run.mesh.size();
  std::vector<Field> fields;
  std::vector<float*> arrays;
  for (std::size_t f = 0; f < count; ++f) {
    fields.emplace_back("field", run.mesh, shard::Extents<3>{8, rows, 64});
    arrays.push_back(fields.back().view().data());
  }
  const auto global = [&](hand::Box i) {
    i[1] = (i[1] - 1 + 64 * run.mesh.rank() + rows) % rows;
    return i;
  };
  for (const Field& field : fields) fill(field.view(), global);
  const auto clear = [&] {
    for (const Field& field : fields)
      for (std::size_t i = 0; i < 8; ++i)
        for (std::size_t k = 0; k < 64; ++k) field.view()(i, 0, k) = field.view()(i, 65, k) = -1;
  };
  const auto right = [&] {
    return std::all_of(fields.begin(), fields.end(),
                       [&](const Field& field) { return holds(field.view(), global); });
  };
  hand::Halos by_hand(run.comm(), {8, 66, 64}, count);
  const shard::Exchange halos(fields);
  const shard::Exchange halos_by_mpi(shard::Tuning{.transport = shard::TransportKind::mpi}, fields);
  measure(run.comm(), "sets/" + std::to_string(count),
          4.0 * 2 * 8 * 64 * static_cast<double>(count), calls,
          {{"hand_mpi", [&] { by_hand(arrays.data()); }, right, clear},
           {"shard_set", [&] { halos(run.space); }, right, clear},
           {"shard_set_mpi", [&] { halos_by_mpi(run.space); }, right, clear}},
          run.results);
}

}  // namespace

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  std::string only;
  support::Arguments given(argc, argv, "[--quick] [--only KIND]");
  const bool quick = given.flag("--quick");
  given.take("--only", only);
  const std::array<std::string, 7> kinds{"",         "transpose", "sequence",   "packing",
                                         "coupling", "sets",      "collectives"};
  if (std::find(kinds.begin(), kinds.end(), only) == kinds.end())
    given.refuse("there is no kind '" + only + "'");
  if (!given.understood()) return 2;
  const auto wanted = [&](const std::string& kind) { return only.empty() || kind == only; };
  Run run{{}, shard::Mesh<Ranks>(environment.world(), {0}), quick, quick ? 3 : 31, {}};
  const hand::Box field = quick ? hand::Box{7, 24, 48} : hand::Box{721, 1440, 64};
  if (wanted("transpose")) {
    transpose<1, 2>(run, field);
    transpose<2, 1>(run, field);
    transpose<0, 1>(run, field);
    transpose<1, 0>(run, field);
    transpose<0, 2>(run, field);
    transpose<2, 0>(run, field);
  }
  if (wanted("sequence")) sequence(run, quick ? hand::Box{1, 24, 96} : hand::Box{1, 64, 65536});
  if (wanted("packing")) {
    for (const index_t run_bytes : {4, 16, 32, 64, 128, 256, 512, 1024, 4096, 131072})
      packing(run, run_bytes, false);
    for (const index_t run_bytes : {32, 256, 4096}) packing(run, run_bytes, true);
    local_transpose(run);
  }
  if (wanted("collectives"))
    for (const int values : {1000, 100000, 1000000})
      time_collectives(run.comm(), values, quick ? 3 : 40000000 / (values + 100000), run.results);
  const int many = quick ? 3 : 2001;
  if (wanted("coupling") && environment.size() % 2 == 0)
    for (const hand::Box& n : {hand::Box{10, 10, 25}, hand::Box{64, 64, 64}})
      coupling(run, n, many);
  if (wanted("sets") && environment.size() == 2)
    for (const std::size_t count : {1U, 30U, 300U}) sets(run, count, quick ? 3 : 301);
  if (environment.rank() == 0) write_json(stdout, run.results, environment.size());
}
