// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mpi.h>

#include "emulator/samples.hpp"
#include "emulator/trainer.hpp"

namespace emulator {

/// Trains five steps in double on one rank and on all ranks of `comm`, shows the largest relative
/// differences of loss, gradients and parameters, and says whether they are within 1e-12, 1e-12 and
/// 1e-9 (Adam divides by what may be rounding noise). Collective.
bool check_ranks_agree(MPI_Comm comm, const Samples& samples, const Normalisation& normalisation,
                       TrainerOptions options);

}  // namespace emulator
