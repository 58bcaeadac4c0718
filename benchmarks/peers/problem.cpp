// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "problem.hpp"

#include <stdexcept>

namespace peers {

Sources::Sources(const Problem& p) : global_(p.global), begin_(p.begin) {
  int size = 1;
  MPI_Comm_size(p.comm, &size);
  MPI_Comm_rank(p.comm, &rank_);
  pieces_.resize(static_cast<std::size_t>(size));
  const Piece mine{p.begin, p.extent, p.stride};
  MPI_Allgather(&mine, sizeof(Piece), MPI_BYTE, pieces_.data(), sizeof(Piece), MPI_BYTE, p.comm);
}

Sources::Source Sources::of(const std::array<index_t, dims>& local) const {
  Source s;
  for (std::size_t d = 0; d < dims; ++d)
    s.at[d] = ((begin_[d] + local[d]) % global_[d] + global_[d]) % global_[d];
  const int ranks = static_cast<int>(pieces_.size());
  for (int i = 0; i < ranks; ++i) {
    s.rank             = (rank_ + i) % ranks;
    const Piece& piece = pieces_[static_cast<std::size_t>(s.rank)];
    bool here          = true;
    s.offset           = 0;
    for (std::size_t d = 0; d < dims; ++d) {
      const index_t at = s.at[d] - piece.begin[d];
      here             = here && at >= 0 && at < piece.extent[d];
      s.offset += at * piece.stride[d];
    }
    if (here) return s;
  }
  throw std::logic_error("a halo cell that nobody owns");
}

index_t run_bytes(const Problem& p, int d) {
  const Box box = low_edge(p, d);
  std::array<std::size_t, dims> order{0, 1, 2};  // from fast to slow
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return p.stride[a] < p.stride[b]; });
  index_t run = 1;
  for (const std::size_t i : order) {
    if (box.extent[i] == 1) continue;
    if (p.stride[i] != run) break;
    run *= box.extent[i];
  }
  return run * p.value_bytes;
}

bool contiguous(const Problem& p, int d) {
  return run_bytes(p, d) == low_edge(p, d).cells() * p.value_bytes;
}

}  // namespace peers
