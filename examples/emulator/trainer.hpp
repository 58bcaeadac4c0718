// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <shard/io/map.hpp>
#include <shard/model/arena.hpp>

#include <mpi.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emulator/samples.hpp"

/// \file
/// The model in training, whatever its precision and its grid's poles.

namespace emulator {

/// Where a map of a pair comes from.
enum class State { start, truth, forecast };

/// Root mean square errors of one channel over held-out pairs and the globe, in the channel's
/// units.
struct Skill {
  double forecast = 0.0, persistence = 0.0;
};

/// What a trainer is made with.
struct TrainerOptions {
  std::array<int, 2> mesh{0, 0};  ///< ranks along latitude and longitude; 0: chosen
  int batch             = 4;
  int width             = 16;  ///< channels of the model's finest level
  double learning_rate  = 1e-3;
  std::uint64_t seed    = 1;
  shard::PoleRows poles = shard::PoleRows::on_row;
};

/// A U-Net that learns one step of the atmosphere, on a mesh of ranks. All calls are collective
/// over the communicator it was made with.
class Trainer {
 public:
  Trainer()                          = default;
  Trainer(const Trainer&)            = delete;
  Trainer& operator=(const Trainer&) = delete;
  virtual ~Trainer()                 = default;

  /// One step of training on a batch of pairs; the loss before it.
  virtual double step(const std::vector<int>& pairs) = 0;
  virtual void set_learning_rate(double rate)        = 0;
  /// Gradients, summed over the ranks, and parameters after the last step.
  [[nodiscard]] virtual std::vector<double> gradients() const  = 0;
  [[nodiscard]] virtual std::vector<double> parameters() const = 0;
  /// What the model keeps between its layers on this rank; not collective.
  [[nodiscard]] virtual shard::ModelMemory memory() const = 0;

  /// Steps of training so far.
  [[nodiscard]] virtual long steps() const = 0;
  /// Writes all that training needs to go on, on any number of ranks, and reads it.
  virtual void save(const std::string& path) = 0;
  virtual void load(const std::string& path) = 0;
  /// Writes the parameters alone, as a safetensors file.
  virtual void save_weights(const std::string& path) const = 0;

  /// Errors of forecasts of the held-out pairs, one per channel.
  virtual std::vector<Skill> skill() = 0;
  /// Forecasts a pair; whole maps of it can be asked for then.
  virtual void forecast(int pair) = 0;
  /// A whole map of the pair that was forecast, in the channel's units, on rank 0; empty elsewhere.
  virtual std::vector<double> map(State state, int channel) = 0;
  /// Who owns what.
  [[nodiscard]] virtual std::vector<shard::MapBox> shards() const = 0;
  /// Ranks along latitude and longitude.
  [[nodiscard]] virtual std::array<int, 2> mesh() const = 0;
};

/// Collective. Throws std::runtime_error for a grid that doesn't reach both poles.
std::unique_ptr<Trainer> make_trainer(MPI_Comm comm, const Samples& samples,
                                      const Normalisation& normalisation,
                                      const TrainerOptions& options, bool double_precision);

/// Trains in float or double on a grid with poles of one kind. A unit for each instantiates it, so
/// that two cores can compile them side by side.
template <class T, shard::Pole Poles>
std::unique_ptr<Trainer> make_unet_trainer(MPI_Comm comm, const Samples& samples,
                                           const Normalisation& normalisation,
                                           const TrainerOptions& options);

}  // namespace emulator
