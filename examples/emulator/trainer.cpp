// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emulator/trainer.hpp"

#include <stdexcept>

namespace emulator {

std::unique_ptr<Trainer> make_trainer(MPI_Comm comm, const Samples& samples,
                                      const Normalisation& normalisation,
                                      const TrainerOptions& options, bool double_precision) {
  switch (options.poles) {
    case shard::PoleRows::on_row:
      return double_precision ? make_double_on_row(comm, samples, normalisation, options)
                              : make_float_on_row(comm, samples, normalisation, options);
    case shard::PoleRows::between_rows:
      return double_precision ? make_double_between_rows(comm, samples, normalisation, options)
                              : make_float_between_rows(comm, samples, normalisation, options);
    case shard::PoleRows::neither: break;
  }
  throw std::runtime_error(
      "the emulator folds the grid over the poles, and this grid doesn't reach both");
}

}  // namespace emulator
