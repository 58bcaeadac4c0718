// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emulator/samples.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "emulator/waves.hpp"

namespace emulator {

namespace {

class WaveSamples : public Samples {
 public:
  WaveSamples(std::uint64_t seed, int training, int held_out, int rows, int columns) : seed_(seed) {
    for (const WaveField field : wave_state)
      channels_.push_back({describe(field).name, describe(field).units});
    latitudes_  = shard::latitudes_with_poles(rows);
    longitudes_ = shard::global_longitudes(columns);
    hours_      = 12.0;
    training_   = training;
    held_out_   = held_out;
  }

  std::string summary() const override {
    return "Rossby-Haurwitz waves of degrees 3 to 8, " + std::to_string(latitudes_.size()) + " x " +
           std::to_string(longitudes_.size()) + " cells, " + std::to_string(training_) +
           " samples to learn from and " + std::to_string(held_out_) + " held out";
  }

  void read(int pair, bool after, int channel, const shard::FieldBox& box,
            std::span<double> values) const override {
    const std::span<const double> latitudes(latitudes_), longitudes(longitudes_);
    WaveSample(seed_, static_cast<std::uint64_t>(pair))
        .fill(wave_state.at(static_cast<std::size_t>(channel)),
              latitudes.subspan(box.row_begin, box.row_end - box.row_begin),
              longitudes.subspan(box.column_begin, box.column_end - box.column_begin),
              after ? hours_ * 3600.0 : 0.0, values);
  }

 private:
  std::uint64_t seed_;
};

class FileSamples : public Samples {
 public:
  FileSamples(const std::string& path, const std::string& variables, HoldOut hold_out)
      : reader_(path, variables) {
    for (const shard::FieldChannel& c : reader_.channels()) channels_.push_back({c.name, c.units});
    latitudes_        = reader_.latitudes();
    longitudes_       = reader_.longitudes();
    const int members = static_cast<int>(reader_.members()),
              times   = static_cast<int>(reader_.times());
    if (times < 2)
      throw std::runtime_error(path + ": a step needs two times, the file has " +
                               std::to_string(times));
    if (!reader_.global_longitudes())
      throw std::runtime_error(path +
                               ": the emulator needs longitudes that go once round the globe");
    hours_ = reader_.hours_between(0, 1).value_or(0.0);
    for (int t = 1; t + 1 < times; ++t)
      if (std::abs(
              reader_.hours_between(static_cast<std::size_t>(t), static_cast<std::size_t>(t + 1))
                  .value_or(hours_) -
              hours_) > 1e-6)
        throw std::runtime_error(
            path + ": the times are not equally far apart; the emulator learns one step");
    std::vector<Pair> held;
    if (hold_out == HoldOut::members) {
      const int kept = members - std::max(1, members / 5);
      if (kept < 1)
        throw std::runtime_error(path + ": a member can't be held out of " +
                                 std::to_string(members) + "; use --hold-out times");
      for (int m = 0; m < members; ++m)
        for (int t = 0; t + 1 < times; ++t) (m < kept ? pairs_ : held).push_back({m, t});
    } else {
      if (times < 3)
        throw std::runtime_error(path + ": a pair of times can't be held out of " +
                                 std::to_string(times) + " times");
      for (int m = 0; m < members; ++m)
        for (int t = 0; t + 1 < times; ++t) (t + 2 < times ? pairs_ : held).push_back({m, t});
    }
    training_ = static_cast<int>(pairs_.size());
    held_out_ = static_cast<int>(held.size());
    pairs_.insert(pairs_.end(), held.begin(), held.end());
  }

  std::string summary() const override {
    return reader_.summary() + "; " + std::to_string(training_) +
           " pairs of times to learn from and " + std::to_string(held_out_) + " held out";
  }

  void read(int pair, bool after, int channel, const shard::FieldBox& box,
            std::span<double> values) const override {
    const Pair& p = pairs_.at(static_cast<std::size_t>(pair));
    if (reader_.read(static_cast<std::size_t>(p.member),
                     static_cast<std::size_t>(p.time + (after ? 1 : 0)),
                     static_cast<std::size_t>(channel), box, values) > 0)
      throw std::runtime_error("the emulator can't learn from missing values; channel " +
                               channels_.at(static_cast<std::size_t>(channel)).name + " has some");
  }

 private:
  struct Pair {
    int member = 0, time = 0;
  };
  shard::FieldReader reader_;
  std::vector<Pair> pairs_;
};

}  // namespace

std::unique_ptr<Samples> wave_samples(std::uint64_t seed, int training, int held_out, int rows,
                                      int columns) {
  return std::make_unique<WaveSamples>(seed, training, held_out, rows, columns);
}

std::unique_ptr<Samples> file_samples(const std::string& path, const std::string& variables,
                                      HoldOut hold_out) {
  return std::make_unique<FileSamples>(path, variables, hold_out);
}

Normalisation normalisation_of(MPI_Comm comm, const Samples& samples) {
  constexpr int enough              = 64;  // pairs; more do not change the numbers much
  const std::vector<double> weights = shard::area_weights(samples.latitudes());
  const std::size_t rows = samples.latitudes().size(), columns = samples.longitudes().size();
  int rank = 0, size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const auto begin_of = [&](int r) {
    return rows * static_cast<std::size_t>(r) / static_cast<std::size_t>(size);
  };
  const shard::FieldBox mine{begin_of(rank), begin_of(rank + 1), 0, columns};
  std::vector<double> values((mine.row_end - mine.row_begin) * columns);
  const int pairs    = std::min(enough, samples.training()),
            channels = static_cast<int>(samples.channels().size());

  std::vector<double> sums(static_cast<std::size_t>(2 * channels), 0.0);  // of values, of squares
  for (int c = 0; c < channels && !values.empty(); ++c)
    for (int p = 0; p < pairs; ++p) {
      samples.read(p, false, c, mine, values);
      for (std::size_t k = 0; k < values.size(); ++k) {
        const double w =
            weights[mine.row_begin + k / columns] / static_cast<double>(columns) / pairs;
        sums[static_cast<std::size_t>(2 * c)] += w * values[k];
        sums[static_cast<std::size_t>(2 * c + 1)] += w * values[k] * values[k];
      }
    }
  MPI_Allreduce(MPI_IN_PLACE, sums.data(), static_cast<int>(sums.size()), MPI_DOUBLE, MPI_SUM,
                comm);
  Normalisation n;
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    const double mean = sums[2 * c];
    n.mean.push_back(mean);
    n.deviation.push_back(std::sqrt(std::max(sums[2 * c + 1] - mean * mean, 1e-300)));
  }
  return n;
}

}  // namespace emulator
