// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <shard/io/checkpoint.hpp>
#include <shard/io/safetensors.hpp>
#include <shard/layers/loss/mean_square.hpp>
#include <shard/train/adam.hpp>
#include <shard/model/domain_parallel.hpp>
#include <shard/model/parameter_arena.hpp>
#include <shard/shard.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "emulator/network.hpp"
#include "emulator/trainer.hpp"

/// \file
/// The trainer for one precision and one kind of pole.

namespace emulator {

struct Lat;  // the mesh axes
struct Lon;

template <class T, shard::Pole P>
class UNetTrainer : public Trainer {
  using Space  = Kokkos::DefaultExecutionSpace;
  using Mesh   = shard::Mesh<Lat, Lon>;
  using Model  = decltype(network<T, P>(1, 4));
  using Net    = decltype(shard::domain_parallel<Lat, Lon>(std::declval<const Model&>(),
                                                        std::declval<const Mesh&>()));
  using Input  = typename Net::Input;
  using Field  = typename Net::Output;
  using Whole  = shard::ShardedView<T****, Kokkos::LayoutRight, shard::ShardDim<2, Lat>,
                                   shard::ShardDim<3, Lon>>;
  using Memory = typename Field::memory_space;

  /// States before a step and after it, as many pairs as the fields' batch.
  struct Pairs {
    Input start;
    Field target;
    shard::MeanSquare<Memory> error;
  };

 public:
  UNetTrainer(MPI_Comm comm, const Samples& samples, const Normalisation& normalisation,
              const TrainerOptions& options)
      : samples_(samples),
        normalisation_(normalisation),
        mesh_(comm, {options.mesh[0], options.mesh[1]}, {{}, {rows(), columns()}}),
        model_(network<T, P>(channels(), options.width)),
        net_(shard::domain_parallel<Lat, Lon>(model_, mesh_)),
        batch_(pairs(options.batch)),
        one_(pairs(1)),
        forecast_(one_.target.like("forecast")),
        gradient_(batch_.target.like("gradient")),
        sum_(batch_.target, count()),
        adam_(count(), {.learning_rate = options.learning_rate}),
        state_(mesh_.communicator()) {
    model_.initialise(space_, options.seed);
    state_.add("model", net_.parameters());
    state_.add("adam", adam_);
    state_.add("step", steps_);
  }

  double step(const std::vector<int>& pairs) override {
    put(batch_, pairs);
    const Field& forecast = net_(space_, batch_.start);
    const double loss     = batch_.error(space_, forecast, batch_.target);
    batch_.error.pullback(space_, gradient_, forecast, batch_.target);
    Kokkos::deep_copy(space_, net_.gradients().values(), T(0));
    net_.pullback(space_, shard::not_wanted, gradient_, batch_.start);
    sum_(space_, net_.gradients().values());
    adam_(space_, net_.parameters().values(), net_.gradients().values());
    ++steps_;
    return loss;
  }

  void set_learning_rate(double rate) override { adam_.options.learning_rate = rate; }
  std::vector<double> gradients() const override { return values_of(net_.gradients().values()); }
  std::vector<double> parameters() const override { return values_of(net_.parameters().values()); }
  shard::ModelMemory memory() const override { return net_.memory(); }

  long steps() const override { return steps_; }
  void save(const std::string& path) override { state_.save(path); }
  void load(const std::string& path) override { state_.load(path); }
  void save_weights(const std::string& path) const override {
    shard::save_safetensors(path, net_.parameters(), mesh_.communicator());
  }

  std::vector<Skill> skill() override {
    std::vector<Skill> squares(static_cast<std::size_t>(channels()));
    for (int pair = 0; pair < samples_.held_out(); ++pair) {
      forecast(samples_.training() + pair);
      const auto ours = one_.error.by_channel(space_, forecast_, one_.target),
                 none = one_.error.by_channel(space_, one_.start, one_.target);
      for (std::size_t c = 0; c < squares.size(); ++c) {
        squares[c].forecast += ours[c] / samples_.held_out();
        squares[c].persistence += none[c] / samples_.held_out();
      }
    }
    for (std::size_t c = 0; c < squares.size(); ++c)
      squares[c] = {normalisation_.deviation[c] * std::sqrt(squares[c].forecast),
                    normalisation_.deviation[c] * std::sqrt(squares[c].persistence)};
    return squares;
  }

  void forecast(int pair) override {
    put(one_, {pair});
    net_.apply(space_, forecast_, one_.start);
  }

  std::vector<double> map(State state, int channel) override {
    // everything to the first rank: a partition like any other
    const auto all_first = [](shard::index_t n, int parts) {
      std::vector<shard::index_t> counts(static_cast<std::size_t>(parts), 0);
      counts.front() = n;
      return shard::Partition::explicit_counts(counts);
    };
    const Whole whole("whole map", mesh_,
                      {one_.target.partition(0), one_.target.partition(1),
                       all_first(rows(), mesh_.template size<Lat>()),
                       all_first(columns(), mesh_.template size<Lon>())});
    if (state == State::start)
      redistribute(space_, whole, one_.start);
    else
      redistribute(space_, whole, state == State::truth ? one_.target : forecast_);
    const auto here = create_mirror_view(whole);
    deep_copy(space_, here, whole);
    space_.fence();
    std::vector<double> values;
    const auto c = static_cast<std::size_t>(channel);
    for (int i = 0; i < here.extent(2); ++i)
      for (int j = 0; j < here.extent(3); ++j)
        values.push_back(normalisation_.mean[c] +
                         normalisation_.deviation[c] * static_cast<double>(here(0, channel, i, j)));
    return values;
  }

  std::vector<shard::MapBox> shards() const override {
    std::vector<shard::MapBox> boxes;
    for (int a = 0; a < mesh_.template size<Lat>(); ++a)
      for (int b = 0; b < mesh_.template size<Lon>(); ++b) {
        const shard::Partition &lat = forecast_.partition(2), &lon = forecast_.partition(3);
        boxes.push_back(
            {static_cast<std::size_t>(lat.begin(a)), static_cast<std::size_t>(lat.end(a)),
             static_cast<std::size_t>(lon.begin(b)), static_cast<std::size_t>(lon.end(b)),
             "rank " + std::to_string(mesh_.rank_at({a, b}))});
      }
    return boxes;
  }

  std::array<int, 2> mesh() const override {
    return {mesh_.template size<Lat>(), mesh_.template size<Lon>()};
  }

 private:
  shard::index_t rows() const { return static_cast<shard::index_t>(samples_.latitudes().size()); }
  shard::index_t columns() const {
    return static_cast<shard::index_t>(samples_.longitudes().size());
  }
  shard::index_t channels() const {
    return static_cast<shard::index_t>(samples_.channels().size());
  }

  shard::index_t count() const {
    return static_cast<shard::index_t>(net_.parameters().values().extent(0));
  }

  Pairs pairs(int batch) const {
    const Input start = net_.input("start", {batch, channels(), rows(), columns()});
    const Field target("target", mesh_, start.partitions());
    return {start, target, {target, shard::area_weights(samples_.latitudes())}};
  }

  void put(const Pairs& to, const std::vector<int>& pairs) {
    read(to.start, pairs, false);
    read(to.target, pairs, true);
  }

  /// Reads this rank's part of the states, in standard deviations from the mean.
  template <class F>
  void read(const F& field, const std::vector<int>& pairs, bool after) {
    const auto host = create_mirror_view(field);
    const shard::FieldBox box{static_cast<std::size_t>(host.begin(2)),
                              static_cast<std::size_t>(host.begin(2) + host.extent(2)),
                              static_cast<std::size_t>(host.begin(3)),
                              static_cast<std::size_t>(host.begin(3) + host.extent(3))};
    buffer_.resize(static_cast<std::size_t>(host.extent(2) * host.extent(3)));
    space_.fence();  // the host may write
    for (int b = 0; b < host.extent(0) && !buffer_.empty(); ++b)
      for (int c = 0; c < channels(); ++c) {
        samples_.read(pairs[static_cast<std::size_t>(b)], after, c, box, buffer_);
        const double mean      = normalisation_.mean[static_cast<std::size_t>(c)],
                     deviation = normalisation_.deviation[static_cast<std::size_t>(c)];
        std::size_t k          = 0;
        for (int i = 0; i < host.extent(2); ++i)
          for (int j = 0; j < host.extent(3); ++j)
            host(b, c, i, j) = static_cast<T>((buffer_[k++] - mean) / deviation);
      }
    deep_copy(space_, field, host);
    mark_written(space_, field);
  }

  template <class View>
  static std::vector<double> values_of(const View& view) {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
    return {host.data(), host.data() + host.extent(0)};
  }

  const Samples& samples_;
  Normalisation normalisation_;
  Space space_;
  Mesh mesh_;
  Model model_;
  Net net_;
  Pairs batch_, one_;
  Field forecast_, gradient_;
  shard::GradientSum<T, Memory> sum_;
  shard::Adam<T, Memory> adam_;
  shard::index_t steps_ = 0;
  shard::Checkpoint state_;
  std::vector<double> buffer_;
};

template <class T, shard::Pole Poles>
std::unique_ptr<Trainer> make_unet_trainer(MPI_Comm comm, const Samples& samples,
                                           const Normalisation& normalisation,
                                           const TrainerOptions& options) {
  return std::make_unique<UNetTrainer<T, Poles>>(comm, samples, normalisation, options);
}

}  // namespace emulator
