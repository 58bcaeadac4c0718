// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <shard/layers/mean_square.hpp>
#include <shard/model/adam.hpp>
#include <shard/model/parameters.hpp>
#include <shard/model/unet.hpp>
#include <shard/shard.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "emulator/trainer.hpp"

/// \file
/// The trainer for one precision and one kind of pole.

namespace emulator {

struct Lat;  // the mesh axes
struct Lon;

template <class T, shard::Pole P>
class UNetTrainer : public Trainer {
  using Space  = Kokkos::DefaultExecutionSpace;
  using Net    = shard::UNet<T, Lat, Lon, shard::PoleFold<3, P>, shard::Periodic>;
  using Field  = typename Net::Field;
  using Mirror = shard::host_mirror_t<Field>;
  using Whole  = shard::ShardedView<T****, Kokkos::LayoutRight, shard::ShardDim<2, Lat>,
                                   shard::ShardDim<3, Lon>>;

 public:
  UNetTrainer(MPI_Comm comm, const Samples& samples, const Normalisation& normalisation,
              const TrainerOptions& options)
      : samples_(samples),
        normalisation_(normalisation),
        batch_(options.batch),
        mesh_(comm, {options.mesh[0], options.mesh[1]}, {{}, {rows(), columns()}}),
        net_(space_, mesh_, {channels(), options.width, 4}, options.batch,
             shard::Partition::balanced(rows(), mesh_.template size<Lat>()),
             shard::Partition::balanced(columns(), mesh_.template size<Lon>()), options.seed),
        start_(net_.output().like("start")),
        target_(net_.output().like("target")),
        gradient_(net_.output().like("gradient")),
        host_(create_mirror_view(start_)),
        loss_(target_, shard::area_weights(samples.latitudes())),
        sum_(target_, static_cast<shard::index_t>(net_.gradients().values().extent(0))),
        adam_(static_cast<shard::index_t>(net_.parameters().values().extent(0)),
              {.learning_rate = options.learning_rate}) {}

  double step(const std::vector<int>& pairs) override {
    load(pairs);
    net_.apply(space_);
    const double loss = loss_(space_, net_.output(), target_);
    loss_.pullback(space_, gradient_, net_.output(), target_);
    Kokkos::deep_copy(space_, net_.gradients().values(), T(0));
    net_.pullback(space_, gradient_);
    sum_(space_, net_.gradients().values());
    adam_(space_, net_.parameters().values(), net_.gradients().values());
    return loss;
  }

  void set_learning_rate(double rate) override { adam_.options.learning_rate = rate; }
  std::vector<double> gradients() const override { return values_of(net_.gradients().values()); }
  std::vector<double> parameters() const override { return values_of(net_.parameters().values()); }

  std::vector<Skill> skill() override {
    std::vector<double> squares(static_cast<std::size_t>(2 * channels()), 0.0);
    const std::vector<double> weights = shard::area_weights(samples_.latitudes());
    for (int first = 0; first < samples_.held_out(); first += batch_) {
      std::vector<int> pairs;
      for (int b = 0; b < batch_; ++b)
        pairs.push_back(samples_.training() + std::min(first + b, samples_.held_out() - 1));
      load(pairs);
      net_.apply(space_);
      const int count = std::min(batch_, samples_.held_out() - first);
      add_squares(net_.output(), weights, count, squares.data());
      add_squares(start_, weights, count, squares.data() + channels());
    }
    MPI_Allreduce(MPI_IN_PLACE, squares.data(), static_cast<int>(squares.size()), MPI_DOUBLE,
                  MPI_SUM, mesh_.communicator());
    std::vector<Skill> skills;
    for (std::size_t c = 0; c < static_cast<std::size_t>(channels()); ++c) {
      const double scale = normalisation_.deviation[c] /
                           std::sqrt(static_cast<double>(samples_.held_out() * columns()));
      skills.push_back({scale * std::sqrt(squares[c]),
                        scale * std::sqrt(squares[c + static_cast<std::size_t>(channels())])});
    }
    return skills;
  }

  void forecast(int pair) override {
    load(std::vector<int>(static_cast<std::size_t>(batch_), pair));
    net_.apply(space_);
  }

  std::vector<double> map(State state, int channel) override {
    // everything to the first rank: a partition like any other
    const auto all_first = [](shard::index_t n, int parts) {
      std::vector<shard::index_t> counts(static_cast<std::size_t>(parts), 0);
      counts.front() = n;
      return shard::Partition::explicit_counts(counts);
    };
    const Field& field = state == State::start   ? start_
                         : state == State::truth ? target_
                                                 : net_.output();
    Whole whole(
        "whole map", mesh_,
        {field.partition(0), field.partition(1), all_first(rows(), mesh_.template size<Lat>()),
         all_first(columns(), mesh_.template size<Lon>())});
    redistribute(space_, whole, field);
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
        const shard::Partition &lat = start_.partition(2), &lon = start_.partition(3);
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

  /// Reads this rank's part of the pairs, in standard deviations from the mean, into the model's
  /// input and the target.
  void load(const std::vector<int>& pairs) {
    read(pairs, true);
    deep_copy(space_, target_, host_);
    space_.fence();  // host_ is written again
    read(pairs, false);
    deep_copy(space_, start_, host_);
    space_.fence();
    copy_owned(space_, net_.input(), start_);
  }

  void read(const std::vector<int>& pairs, bool after) {
    const shard::FieldBox box{static_cast<std::size_t>(host_.begin(2)),
                              static_cast<std::size_t>(host_.begin(2) + host_.extent(2)),
                              static_cast<std::size_t>(host_.begin(3)),
                              static_cast<std::size_t>(host_.begin(3) + host_.extent(3))};
    buffer_.resize(static_cast<std::size_t>(host_.extent(2) * host_.extent(3)));
    if (buffer_.empty()) return;
    for (int b = 0; b < batch_; ++b)
      for (int c = 0; c < channels(); ++c) {
        samples_.read(pairs[static_cast<std::size_t>(b)], after, c, box, buffer_);
        const double mean      = normalisation_.mean[static_cast<std::size_t>(c)],
                     deviation = normalisation_.deviation[static_cast<std::size_t>(c)];
        std::size_t k          = 0;
        for (int i = 0; i < host_.extent(2); ++i)
          for (int j = 0; j < host_.extent(3); ++j)
            host_(b, c, i, j) = static_cast<T>((buffer_[k++] - mean) / deviation);
      }
  }

  /// Adds the area-weighted squares of field - target of the first `count` of the batch, channel by
  /// channel.
  void add_squares(const Field& field, const std::vector<double>& weights, int count,
                   double* squares) {
    const Mirror mine = create_mirror_view(field), theirs = create_mirror_view(target_);
    deep_copy(space_, mine, field);
    deep_copy(space_, theirs, target_);
    space_.fence();
    for (int b = 0; b < count; ++b)
      for (int c = 0; c < channels(); ++c)
        for (int i = 0; i < mine.extent(2); ++i)
          for (int j = 0; j < mine.extent(3); ++j) {
            const double error =
                static_cast<double>(mine(b, c, i, j)) - static_cast<double>(theirs(b, c, i, j));
            squares[c] += weights[static_cast<std::size_t>(mine.to_global(2, i))] * error * error;
          }
  }

  template <class View>
  static std::vector<double> values_of(const View& view) {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
    return {host.data(), host.data() + host.extent(0)};
  }

  const Samples& samples_;
  Normalisation normalisation_;
  int batch_;
  Space space_;
  shard::Mesh<Lat, Lon> mesh_;
  Net net_;
  Field start_, target_, gradient_;
  Mirror host_;
  shard::MeanSquare<typename Field::memory_space> loss_;
  shard::GradientSum<T, typename Field::memory_space> sum_;
  shard::Adam<T, typename Field::memory_space> adam_;
  std::vector<double> buffer_;
};

}  // namespace emulator
