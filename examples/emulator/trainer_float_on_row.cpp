// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emulator/unet_trainer.hpp"

namespace emulator {

std::unique_ptr<Trainer> make_float_on_row(MPI_Comm comm, const Samples& samples,
                                           const Normalisation& normalisation,
                                           const TrainerOptions& options) {
  return std::make_unique<UNetTrainer<float, shard::Pole::on_row>>(comm, samples, normalisation,
                                                                   options);
}

}  // namespace emulator
