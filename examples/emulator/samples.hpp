// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <shard/io/field_reader.hpp>
#include <shard/io/grid.hpp>

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// \file
/// What the emulator learns from: pairs of states of the atmosphere, one step apart.

namespace emulator {

/// One map of a state.
struct Channel {
  std::string name, units;
};

/// Pairs of states. Not collective: each rank has its own and reads its own part.
class Samples {
 public:
  Samples()                          = default;
  Samples(const Samples&)            = delete;
  Samples& operator=(const Samples&) = delete;
  virtual ~Samples()                 = default;

  [[nodiscard]] const std::vector<Channel>& channels() const { return channels_; }
  [[nodiscard]] const std::vector<double>& latitudes() const { return latitudes_; }
  [[nodiscard]] const std::vector<double>& longitudes() const { return longitudes_; }
  /// Hours from one state of a pair to the other; 0 if unknown.
  [[nodiscard]] double hours() const { return hours_; }
  /// Pairs to learn from, and pairs that are held out.
  [[nodiscard]] int training() const { return training_; }
  [[nodiscard]] int held_out() const { return held_out_; }
  /// One sentence on what this is.
  [[nodiscard]] virtual std::string summary() const = 0;

  /// A box of one map of pair `pair` (held-out pairs are numbered from training() on), row by row:
  /// of the state before (`after` false) or after the step.
  virtual void read(int pair, bool after, int channel, const shard::FieldBox& box,
                    std::span<double> values) const = 0;

 protected:
  std::vector<Channel> channels_;
  std::vector<double> latitudes_, longitudes_;
  double hours_ = 0.0;
  int training_ = 0, held_out_ = 0;
};

/// Rossby-Haurwitz waves on a grid with the poles on rows, 12 hours apart.
std::unique_ptr<Samples> wave_samples(std::uint64_t seed, int training, int held_out, int rows,
                                      int columns);

/// What is held out of a file: the last fifth of the members (at least one), or the last pair of
/// times of every member.
enum class HoldOut { members, times };

/// Pairs of consecutive times of a NetCDF file, for every member. Throws std::runtime_error if
/// there are too few members or times.
std::unique_ptr<Samples> file_samples(const std::string& path, const std::string& variables,
                                      HoldOut hold_out);

/// Mean and standard deviation of each channel over the globe and the states of the training pairs.
/// Collective: each rank reads some of the rows.
struct Normalisation {
  std::vector<double> mean, deviation;
};
Normalisation normalisation_of(MPI_Comm comm, const Samples& samples);

}  // namespace emulator
