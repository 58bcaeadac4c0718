// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_PEERS_PROBLEM_HPP
#define SHARD_BENCHMARKS_PEERS_PROBLEM_HPP

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

/// The halo problem of a benchmark's case as plain addresses and numbers: what every competitor is
/// given. Knows nothing of shard.
namespace peers {

using index_t             = std::int64_t;
inline constexpr int dims = 3;  ///< a field of fewer has leading dimensions of extent 1

/// The ranks on the low and the high side along a dimension.
struct Sides {
  int low = 0, high = 0;
};

/// Periodic fields of one geometry, in memory that is theirs: owned cells and halo in one piece.
struct Problem {
  MPI_Comm comm   = MPI_COMM_NULL;
  int value_bytes = 8;
  std::vector<std::byte*> origins;       ///< first owned cell of each field
  std::array<index_t, dims> extent{};    ///< owned cells
  std::array<index_t, dims> stride{};    ///< in values
  std::array<index_t, dims> begin{};     ///< global index of the first owned cell
  std::array<index_t, dims> global{};    ///< cells of the whole world
  std::array<int, dims> width{};         ///< of the halo, the same on both sides
  std::array<Sides, dims> neighbours{};  ///< along dimensions with a halo
};

/// A box of a field's cells; begins count from the first owned cell.
struct Box {
  std::array<index_t, dims> begin{}, extent{};

  index_t cells() const { return extent[0] * extent[1] * extent[2]; }
};

/// The slab of a face along dimension d: of the dimensions before d with their halos, of those
/// after it the owned cells, so that exchanges dimension after dimension fill the corners, and all
/// slabs together are the halo, each cell once.
inline Box face(const Problem& p, int d, index_t begin) {
  Box box;
  for (int e = 0; e < dims; ++e) {
    const auto i  = static_cast<std::size_t>(e);
    const int pad = e < d ? p.width[i] : 0;
    box.begin[i]  = -pad;
    box.extent[i] = p.extent[i] + 2 * pad;
  }
  box.begin[static_cast<std::size_t>(d)]  = begin;
  box.extent[static_cast<std::size_t>(d)] = p.width[static_cast<std::size_t>(d)];
  return box;
}
inline Box low_halo(const Problem& p, int d) {
  return face(p, d, -p.width[static_cast<std::size_t>(d)]);
}
inline Box high_halo(const Problem& p, int d) {
  return face(p, d, p.extent[static_cast<std::size_t>(d)]);
}
inline Box low_edge(const Problem& p, int d) { return face(p, d, 0); }
inline Box high_edge(const Problem& p, int d) {
  return face(p, d, p.extent[static_cast<std::size_t>(d)] - p.width[static_cast<std::size_t>(d)]);
}

/// Cells of one field's halo.
inline index_t halo_cells(const Problem& p) {
  index_t n = 0;
  for (int d = 0; d < dims; ++d)
    if (p.width[static_cast<std::size_t>(d)] > 0)
      n += low_halo(p, d).cells() + high_halo(p, d).cells();
  return n;
}

/// Visits a box line by line along the dimension with the smallest stride: offset of the line's
/// first cell in values; cells; stride.
template <class Visit>
void for_lines(const Problem& p, const Box& box, const Visit& visit) {
  std::array<std::size_t, dims> order{0, 1, 2};  // from slow to fast
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return p.stride[a] > p.stride[b]; });
  const auto [a, b, c] = order;
  for (index_t i = 0; i < box.extent[a]; ++i)
    for (index_t j = 0; j < box.extent[b]; ++j)
      visit((box.begin[a] + i) * p.stride[a] + (box.begin[b] + j) * p.stride[b] +
                box.begin[c] * p.stride[c],
            box.extent[c], p.stride[c]);
}

/// Visits every cell of a box: local index in each dimension and offset in values.
template <class Visit>
void for_cells(const Problem& p, const Box& box, const Visit& visit) {
  for (index_t i = 0; i < box.extent[0]; ++i)
    for (index_t j = 0; j < box.extent[1]; ++j)
      for (index_t k = 0; k < box.extent[2]; ++k) {
        const std::array<index_t, dims> at{box.begin[0] + i, box.begin[1] + j, box.begin[2] + k};
        visit(at, at[0] * p.stride[0] + at[1] * p.stride[1] + at[2] * p.stride[2]);
      }
}

/// Where in the world each halo cell's value comes from, and on which rank. Collective to make.
class Sources {
 public:
  explicit Sources(const Problem& p);

  struct Source {
    int rank = 0;
    std::array<index_t, dims> at{};  ///< global index
    index_t offset = 0;              ///< in values from the owner's first owned cell
  };
  /// Of the cell at this local index; this rank where several have it.
  Source of(const std::array<index_t, dims>& local) const;

 private:
  struct Piece {
    std::array<index_t, dims> begin, extent, stride;
  };
  std::array<index_t, dims> global_, begin_;
  std::vector<Piece> pieces_;
  int rank_ = 0;
};

/// Another library's exchange of the same fields.
class Competitor {
 public:
  Competitor()                             = default;
  Competitor(const Competitor&)            = delete;
  Competitor& operator=(const Competitor&) = delete;
  virtual ~Competitor()                    = default;
  virtual void exchange()                  = 0;
  /// What has to run before a timed call. Not timed.
  virtual void prepare() {}
  /// Puts what was received into the fields' halos, if it isn't there. Not timed.
  virtual void deliver() {}
};

/// Hand-written MPI: packs, Isend and Irecv, one message a side for all fields. With `in_place`
/// a face of one field that lies in memory in one piece is sent and received where it is.
std::unique_ptr<Competitor> make_hand_mpi(const Problem& problem, bool in_place);
/// Copies as many bytes as the halo has, from the buffers in which a hand-written exchange received
/// them to those that it sends from: the limit.
std::unique_ptr<Competitor> make_memcpy(const Problem& problem);
/// Memory that two ranks see, as many bytes as the halo has: what this one packs, and what the
/// other one does.
struct Window {
  std::byte *mine = nullptr, *theirs = nullptr;
};
/// PETSc's VecScatter on the halo cells alone. Null, and why in `reason`, if it can't.
std::unique_ptr<Competitor> make_petsc(const Problem& problem, std::string& reason);
/// Tpetra's Import into a vector of the halo cells alone. Null, and why in `reason`, if it can't.
std::unique_ptr<Competitor> make_tpetra(const Problem& problem, std::string& reason);

/// GHEX' exchange of all fields in one, in place. Null, and why in `reason`, if it can't.
std::unique_ptr<Competitor> make_ghex(const Problem& problem, std::string& reason);

/// Ends what PETSc and Tpetra began when the first competitor was made; before MPI ends.
void end_petsc();
void end_tpetra();

/// Whether a face along dimension d lies in memory in one piece.
bool contiguous(const Problem& p, int d);
/// Bytes that lie one after another in a face along dimension d.
index_t run_bytes(const Problem& p, int d);

}  // namespace peers

#endif
