// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emulator/trainer.hpp"

#include <stdexcept>

namespace emulator {

std::unique_ptr<Trainer> make_trainer(MPI_Comm comm, const Samples& samples,
                                      const Normalisation& normalisation,
                                      const TrainerOptions& options, bool double_precision) {
  using shard::Pole;
  const auto make = [&](const auto& in_double, const auto& in_float) {
    return (double_precision ? in_double : in_float)(comm, samples, normalisation, options);
  };
  switch (options.poles) {
    case shard::PoleRows::on_row:
      return make(make_unet_trainer<double, Pole::on_row>, make_unet_trainer<float, Pole::on_row>);
    case shard::PoleRows::between_rows:
      return make(make_unet_trainer<double, Pole::between_rows>,
                  make_unet_trainer<float, Pole::between_rows>);
    case shard::PoleRows::neither: break;
  }
  throw std::runtime_error(
      "the emulator folds the grid over the poles, and this grid doesn't reach both");
}

}  // namespace emulator
