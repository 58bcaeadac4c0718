// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <memory>

#include "model/unet_training.hpp"
#include "workloads.hpp"

workloads::Step workloads::unet(MPI_Comm comm) {
  int ranks = 0;
  MPI_Comm_size(comm, &ranks);
  const auto training = std::make_shared<::unet::Training>(comm, 16, shard::index_t{32} * ranks, 64);
  return [training] { training->step(); };
}
