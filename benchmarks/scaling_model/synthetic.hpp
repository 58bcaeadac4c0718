// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SCALING_MODEL_SYNTHETIC_HPP
#define SHARD_BENCHMARKS_SCALING_MODEL_SYNTHETIC_HPP

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "measure.hpp"
#include "peers/bare_shared.hpp"
#include "peers/problem.hpp"

/// What a machine is measured with: bare messages, and plain loops over boxes, between two ranks.
namespace scaling {

using peers::index_t;

/// A message of so many bytes each way between the two ranks, written before it is sent and read
/// when it has come.
class Message {
 public:
  explicit Message(std::size_t bytes)
      : bytes_(bytes), mine_(bytes), send_(bytes), receive_(bytes), theirs_(bytes) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int n = static_cast<int>(bytes);
    MPI_Recv_init(receive_.data(), n, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, requests_.data());
    MPI_Send_init(send_.data(), n, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests_[1]);
  }
  Message(const Message&)            = delete;
  Message& operator=(const Message&) = delete;
  ~Message() {
    for (MPI_Request& r : requests_) MPI_Request_free(&r);
  }

  /// The whole; and its copies alone, which find memory as messages leave it.
  std::vector<Timed> functions() {
    const auto touch = [this] {
      for (std::size_t i = 0; i < bytes_; i += 64) ++mine_[i];
    };
    return {{[this] { exchange(); }, touch},
            {[this] { copy(send_, mine_); }, touch},
            {[this] { copy(theirs_, receive_); }, [this] { send(); }}};
  }

 private:
  using Bytes = std::vector<unsigned char>;

  void exchange() {
    MPI_Start(requests_.data());
    copy(send_, mine_);
    MPI_Start(&requests_[1]);
    MPI_Waitall(2, requests_.data(), MPI_STATUSES_IGNORE);
    copy(theirs_, receive_);
  }
  void send() {
    MPI_Startall(2, requests_.data());
    MPI_Waitall(2, requests_.data(), MPI_STATUSES_IGNORE);
  }
  /// In pieces as boxes have them: a copy of a megabyte would go past the caches.
  void copy(Bytes& to, const Bytes& from) const {
    constexpr std::size_t most = 65536;
    for (std::size_t first = 0; first < bytes_; first += most)
      std::memcpy(to.data() + first, from.data() + first, std::min(most, bytes_ - first));
  }

  std::size_t bytes_;
  Bytes mine_, send_, receive_, theirs_;
  std::array<MPI_Request, 2> requests_{};  // it comes, it goes
};

/// The usual numbers of values as constants, so that their loop is none.
template <class Body>
void with_count(index_t count, const Body& body) {
  switch (count) {
    case 1: body(std::integral_constant<index_t, 1>{}); break;
    case 2: body(std::integral_constant<index_t, 2>{}); break;
    case 3: body(std::integral_constant<index_t, 3>{}); break;
    case 5: body(std::integral_constant<index_t, 5>{}); break;
    default: body(count);
  }
}

/// Of two faces of a field: bytes of a run that lies in one piece, and from one to the next.
struct Shape {
  int value_bytes = 8;
  index_t run = 0, pitch = 0;
  index_t runs = 0;  ///< of both faces

  index_t memory() const { return runs / 2 * pitch; }
};

/// Two faces of a made-up field: long runs each in a plane of its own, of which the second
/// dimension is cut, or short ones where the fastest dimension is cut.
class Faces {
 public:
  static constexpr index_t longest_short = 64;  // bytes

  /// In so much memory as the shape has.
  Faces(std::byte* memory, const Shape& shape) : rows_(shape.runs / 2) {
    const auto& [value_bytes, run, pitch, runs] = shape;
    const index_t values                        = run / value_bytes;
    const bool is_short                         = run <= longest_short;
    dim_                                        = is_short ? 2 : 1;
    int rank                                    = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const index_t halo   = is_short ? values : 1;
    problem_.comm        = MPI_COMM_WORLD;
    problem_.value_bytes = value_bytes;
    problem_.origins     = {memory + run};
    const index_t row    = is_short ? pitch / value_bytes : values;
    if (is_short) {
      problem_.extent = {1, rows_, row - 2 * halo};
      problem_.stride = {rows_ * row, row, 1};
    } else {
      problem_.extent = {rows_, pitch / run - 2, row};
      problem_.stride = {pitch / value_bytes, row, 1};
    }
    problem_.width[dim_]      = static_cast<int>(halo);
    problem_.neighbours[dim_] = {1 - rank, 1 - rank};
  }

  /// Copying within the field.
  Timed copies() {
    return {[this] { copy(); }, [this] { write_edges(problem_); }};
  }

 private:
  void copy() { problem_.value_bytes == 4 ? copy<float>() : copy<double>(); }
  /// From each edge to the halo on the other side of a field; of short runs some of the one face,
  /// then of the other, which lies in the same lines of memory.
  template <class T>
  void copy() {
    const int d         = static_cast<int>(dim_);
    const index_t pitch = problem_.stride[dim_ == 2 ? 1 : 0],
                  most  = dim_ == 2 ? lines_at_once : rows_;
    const auto first_of = [&](const peers::Box& box) {
      return box.begin[dim_] * problem_.stride[dim_];
    };
    const auto low = peers::low_edge(problem_, d), high = peers::high_edge(problem_, d);
    T* const field        = reinterpret_cast<T*>(problem_.origins[0]);
    T* const low_halo     = field + first_of(peers::low_halo(problem_, d));
    T* const high_halo    = field + first_of(peers::high_halo(problem_, d));
    const T *const at_low = field + first_of(low), *const at_high = field + first_of(high);
    with_count(low.cells() / rows_, [&](auto count) {
      for (index_t row = 0; row < rows_; row += most) {
        const index_t rows = std::min(most, rows_ - row), at = row * pitch;
        copy_runs(high_halo + at, at_low + at, rows, pitch, count);
        copy_runs(low_halo + at, at_high + at, rows, pitch, count);
      }
    });
  }
  template <class T, class Count>
  static void copy_runs(T* to, const T* from, index_t rows, index_t pitch, Count count) {
    for (index_t i = 0; i < rows; ++i, to += pitch, from += pitch)
      std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
  }

  static constexpr index_t lines_at_once = 512;

  peers::Problem problem_;
  index_t rows_    = 0;
  std::size_t dim_ = 0;
};

}  // namespace scaling

#endif
