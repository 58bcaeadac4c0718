// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emulator/unet_trainer.hpp"

template std::unique_ptr<emulator::Trainer>
emulator::make_unet_trainer<double, shard::Pole::on_row>(MPI_Comm, const Samples&,
                                                         const Normalisation&,
                                                         const TrainerOptions&);
