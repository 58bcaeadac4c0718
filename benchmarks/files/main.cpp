// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// files [--megabytes N] [--rounds N] [FOLDER]: checkpoints and weights in FOLDER (.), beside a
// plain file of as many bytes that the first rank writes with fsync, as `dd conv=fsync` does, and
// reads into new memory of that size, as a load does. Kinds alternate; medians. Files are dropped
// from the page cache before they are read, and are read once more from it.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "shard/io/checkpoint.hpp"
#include "shard/io/safetensors.hpp"
#include "shard/shard.hpp"
#include "support/arguments.hpp"

namespace {

using shard::index_t;
struct Lat;
using Host   = Kokkos::DefaultHostExecutionSpace;
using Memory = Kokkos::HostSpace;
using Field  = shard::ShardedView<float**, Kokkos::LayoutRight, shard::ShardDim<0, Lat>, Memory>;

constexpr index_t columns = 1 << 18;  // of floats: a row is a megabyte

/// A plain file, written or read by one rank.
class PlainFile {
 public:
  PlainFile(const std::string& path, int flags) : descriptor_(open(path.c_str(), flags, 0644)) {
    if (descriptor_ < 0) throw std::runtime_error("files: '" + path + "' can't be opened");
  }
  ~PlainFile() { close(descriptor_); }
  PlainFile(const PlainFile&)            = delete;
  PlainFile& operator=(const PlainFile&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

void write_plain(const std::string& path, std::vector<char>& row, int rows) {
  std::remove(path.c_str());
  const PlainFile file(path, O_WRONLY | O_CREAT | O_TRUNC);
  for (int i = 0; i < rows; ++i)
    if (write(file.get(), row.data(), row.size()) != static_cast<ssize_t>(row.size()))
      throw std::runtime_error("files: '" + path + "' can't be written");
  fsync(file.get());
}

void read_plain(const std::string& path, std::size_t row, int rows) {
  const PlainFile file(path, O_RDONLY);
  const auto memory = std::make_unique_for_overwrite<char[]>(row * static_cast<std::size_t>(rows));
  for (int i = 0; i < rows; ++i)
    if (read(file.get(), memory.get() + row * static_cast<std::size_t>(i), row) !=
        static_cast<ssize_t>(row))
      throw std::runtime_error("files: '" + path + "' can't be read");
}

void drop_from_cache(const std::string& path) {
  const PlainFile file(path, O_RDONLY);
  fsync(file.get());
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
}

struct Kind {
  const char* name;
  std::function<void()> call;
  std::string dropped         = {};  ///< the file to drop from the page cache before
  std::vector<double> seconds = {};
};

}  // namespace

int main(int argc, char** argv) {
  const shard::Environment environment(argc, argv);
  int megabytes = 1024, rounds = 5;
  std::string folder = ".";
  support::Arguments given(argc, argv, "[--megabytes N] [--rounds N] [FOLDER]");
  given.take("--megabytes", megabytes, 1);
  given.take("--rounds", rounds, 1);
  given.next("FOLDER", folder);
  if (!given.understood()) return 2;

  const bool first = environment.rank() == 0;
  const shard::Mesh<Lat> mesh(environment.world(), {environment.size()});
  const Field field("field", mesh, {megabytes, columns});
  shard::deep_copy(Host(), field, 1.5F);
  shard::ParameterArena<float, Memory> arena("weights", megabytes * (columns + 1));
  arena.take("layer", shard::Conv<shard::Kernel<1>>{columns, megabytes});
  Kokkos::deep_copy(arena.values(), 2.5F);
  shard::Checkpoint checkpoint(environment.world());
  checkpoint.add("field", field);
  std::vector<char> row(columns * sizeof(float), 'x');
  const std::string plain = folder + "/plain", saved = folder + "/checkpoint",
                    weights = folder + "/weights";
  const auto alone          = [&](const std::function<void()>& call) {
    return [first, call] {
      if (first) call();
    };
  };
  std::vector<Kind> kinds{
      {"plain write, fsync", alone([&] { write_plain(plain, row, megabytes); })},
      {"Checkpoint save", [&] { checkpoint.save(saved); }},
      {"save_safetensors", [&] { shard::save_safetensors(weights, arena, environment.world()); }},
      {"plain read", alone([&] { read_plain(plain, row.size(), megabytes); }), plain},
      {"Checkpoint load", [&] { checkpoint.load(saved); }, saved},
      {"load_safetensors", [&] { shard::load_safetensors(weights, arena, environment.world()); },
       weights},
      {"plain read, cached", alone([&] { read_plain(plain, row.size(), megabytes); })},
      {"Checkpoint load, cached", [&] { checkpoint.load(saved); }},
      {"load_safetensors, cached",
       [&] { shard::load_safetensors(weights, arena, environment.world()); }}};
  for (int round = 0; round < rounds; ++round)
    for (Kind& kind : kinds) {
      if (first && !kind.dropped.empty()) drop_from_cache(kind.dropped);
      MPI_Barrier(environment.world());
      const double begin = MPI_Wtime();
      kind.call();
      MPI_Barrier(environment.world());
      kind.seconds.push_back(MPI_Wtime() - begin);
    }
  if (!first) return 0;
  std::printf("%d MiB of floats, %d ranks; GB/s, and times the plain file's\n", megabytes,
              environment.size());
  double base = 0;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    std::vector<double>& times = kinds[k].seconds;
    std::sort(times.begin(), times.end());
    const double rate = static_cast<double>(megabytes) * 1.048576e-3 / times[times.size() / 2];
    if (k % 3 == 0) base = rate;
    std::printf("%-26s %6.2f  %4.2f\n", kinds[k].name, rate, rate / base);
  }
  for (const std::string& path : {plain, saved, weights}) std::remove(path.c_str());
}
