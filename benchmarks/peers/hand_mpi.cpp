// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a good programmer writes without a library: buffers made once, receives posted first,
// packing in the order of memory with memcpy where cells lie together, one message a side for all
// fields, dimension after dimension so that corners need no messages of their own.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "problem.hpp"

namespace peers {

namespace {

/// The loops of a box of a field, slow to fast, those that lie together in memory made one.
struct Loops {
  index_t offset  = 0;  // in values
  index_t n[dims] = {1, 1, 1}, stride[dims] = {0, 0, 1};
};

Loops loops_of(const Problem& p, const Box& box) {
  std::array<std::size_t, dims> order{0, 1, 2};  // from fast to slow
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return p.stride[a] < p.stride[b]; });
  Loops loops;
  int k = dims;
  for (const std::size_t i : order) {
    loops.offset += box.begin[i] * p.stride[i];
    if (box.extent[i] == 1) continue;
    if (k < dims && p.stride[i] == loops.n[k] * loops.stride[k]) {
      loops.n[k] *= box.extent[i];
    } else if (k == dims && p.stride[i] != 1) {
      // cells that don't lie together: the innermost loop is the one over their stride
      k               = dims - 2;
      loops.n[k]      = box.extent[i];
      loops.stride[k] = p.stride[i];
    } else {
      --k;
      loops.n[k]      = box.extent[i];
      loops.stride[k] = p.stride[i];
    }
  }
  return loops;
}

constexpr index_t memcpy_from = 64;  // bytes: shorter runs cost less by a loop

/// The usual widths of a halo as constants, so that the innermost loop is none.
template <class Body>
void with_width(index_t width, const Body& body) {
  switch (width) {
    case 2: body(std::integral_constant<index_t, 2>{}); break;
    case 3: body(std::integral_constant<index_t, 3>{}); break;
    case 4: body(std::integral_constant<index_t, 4>{}); break;
    case 5: body(std::integral_constant<index_t, 5>{}); break;
    default: body(width);
  }
}

template <class T>
void pack(T* __restrict to, const T* __restrict field, const Loops& l) {
  for (index_t i = 0; i < l.n[0]; ++i) {
    const T* plane = field + l.offset + i * l.stride[0];
    if (l.n[2] * static_cast<index_t>(sizeof(T)) >= memcpy_from) {
      for (index_t j = 0; j < l.n[1]; ++j, to += l.n[2])
        std::memcpy(to, plane + j * l.stride[1], static_cast<std::size_t>(l.n[2]) * sizeof(T));
    } else if (l.n[2] == 1) {
      for (index_t j = 0; j < l.n[1]; ++j) to[j] = plane[j * l.stride[1]];
      to += l.n[1];
    } else {
      with_width(l.n[2], [&](auto width) {
        for (index_t j = 0; j < l.n[1]; ++j, to += width)
          for (index_t k = 0; k < width; ++k) to[k] = plane[j * l.stride[1] + k];
      });
    }
  }
}

template <class T>
void unpack(T* __restrict field, const T* __restrict from, const Loops& l) {
  for (index_t i = 0; i < l.n[0]; ++i) {
    T* plane = field + l.offset + i * l.stride[0];
    if (l.n[2] * static_cast<index_t>(sizeof(T)) >= memcpy_from) {
      for (index_t j = 0; j < l.n[1]; ++j, from += l.n[2])
        std::memcpy(plane + j * l.stride[1], from, static_cast<std::size_t>(l.n[2]) * sizeof(T));
    } else if (l.n[2] == 1) {
      for (index_t j = 0; j < l.n[1]; ++j) plane[j * l.stride[1]] = from[j];
      from += l.n[1];
    } else {
      with_width(l.n[2], [&](auto width) {
        for (index_t j = 0; j < l.n[1]; ++j, from += width)
          for (index_t k = 0; k < width; ++k) plane[j * l.stride[1] + k] = from[k];
      });
    }
  }
}

/// Along one dimension: what goes to each side and what comes from there.
template <class T>
struct Phase {
  Sides neighbours;
  bool self       = false;  // this rank is its own neighbour: copies alone
  bool in_place   = false;  // no buffers: the fields' own memory is sent and received
  index_t count   = 0;      // values of one side, one field
  std::size_t all = 0;      // of all fields
  Loops low_edge, high_edge, low_halo, high_halo;
  std::vector<T> memory[4];
  T *to_low = nullptr, *to_high = nullptr, *from_low = nullptr, *from_high = nullptr;
};

template <class T>
class HandMpi : public Competitor {
 public:
  HandMpi(const Problem& p, bool in_place) : comm_(p.comm) {
    for (std::byte* origin : p.origins) fields_.push_back(reinterpret_cast<T*>(origin));
    int rank = 0;
    MPI_Comm_rank(comm_, &rank);
    for (int d = 0; d < dims; ++d) {
      if (p.width[static_cast<std::size_t>(d)] == 0) continue;
      Phase<T> phase;
      phase.neighbours = p.neighbours[static_cast<std::size_t>(d)];
      phase.self       = phase.neighbours.low == rank && phase.neighbours.high == rank;
      phase.in_place   = in_place && fields_.size() == 1 && contiguous(p, d) && !phase.self;
      phase.count      = peers::low_halo(p, d).cells();
      phase.low_edge   = loops_of(p, peers::low_edge(p, d));
      phase.high_edge  = loops_of(p, peers::high_edge(p, d));
      phase.low_halo   = loops_of(p, peers::low_halo(p, d));
      phase.high_halo  = loops_of(p, peers::high_halo(p, d));
      phase.all        = static_cast<std::size_t>(phase.count) * fields_.size();
      for (auto& buffer : phase.memory) buffer.resize(phase.all);
      phase.to_low    = phase.memory[0].data();
      phase.to_high   = phase.memory[1].data();
      phase.from_low  = phase.memory[2].data();
      phase.from_high = phase.memory[3].data();
      phases_.push_back(std::move(phase));
    }
  }

  void exchange() override {
    for (Phase<T>& phase : phases_) run(phase);
  }
  void copy_buffers() {
    for (Phase<T>& phase : phases_) {
      const std::size_t bytes = phase.all * sizeof(T);
      std::memcpy(phase.to_low, phase.from_low, bytes);
      std::memcpy(phase.to_high, phase.from_high, bytes);
    }
  }

 private:
  void run(Phase<T>& q) {
    T *s_low = q.to_low, *s_high = q.to_high, *r_low = q.from_low, *r_high = q.from_high;
    if (q.in_place) {
      s_low  = fields_[0] + q.low_edge.offset;
      s_high = fields_[0] + q.high_edge.offset;
      r_low  = fields_[0] + q.low_halo.offset;
      r_high = fields_[0] + q.high_halo.offset;
    }
    const int bytes = static_cast<int>(q.all * sizeof(T));
    MPI_Request requests[4];
    if (!q.self) {
      MPI_Irecv(r_low, bytes, MPI_BYTE, q.neighbours.low, 1, comm_, &requests[0]);
      MPI_Irecv(r_high, bytes, MPI_BYTE, q.neighbours.high, 2, comm_, &requests[1]);
    }
    if (!q.in_place)
      for (std::size_t f = 0; f < fields_.size(); ++f) {
        const auto at = static_cast<index_t>(f) * q.count;
        pack(s_high + at, fields_[f], q.high_edge);
        pack(s_low + at, fields_[f], q.low_edge);
      }
    if (!q.self) {
      MPI_Isend(s_high, bytes, MPI_BYTE, q.neighbours.high, 1, comm_, &requests[2]);
      MPI_Isend(s_low, bytes, MPI_BYTE, q.neighbours.low, 2, comm_, &requests[3]);
      MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    } else {
      r_low  = s_high;
      r_high = s_low;
    }
    if (!q.in_place)
      for (std::size_t f = 0; f < fields_.size(); ++f) {
        const auto at = static_cast<index_t>(f) * q.count;
        unpack(fields_[f], r_low + at, q.low_halo);
        unpack(fields_[f], r_high + at, q.high_halo);
      }
  }

  MPI_Comm comm_;
  std::vector<T*> fields_;
  std::vector<Phase<T>> phases_;
};

/// The buffers of a hand-written exchange copied from what was received to what is sent: memory
/// that another process reads and writes too, as it is when halos move.
template <class T>
class Memcpy : public Competitor {
 public:
  explicit Memcpy(const Problem& p) : hand_(p, false) {}
  void prepare() override { hand_.exchange(); }
  void exchange() override { hand_.copy_buffers(); }

 private:
  HandMpi<T> hand_;
};

}  // namespace

std::unique_ptr<Competitor> make_hand_mpi(const Problem& p, bool in_place) {
  if (in_place) {
    bool any = false;
    for (int d = 0; d < dims; ++d)
      any = any ||
            (p.width[static_cast<std::size_t>(d)] > 0 && p.origins.size() == 1 && contiguous(p, d));
    if (!any) return nullptr;
  }
  if (p.value_bytes == 4) return std::make_unique<HandMpi<float>>(p, in_place);
  return std::make_unique<HandMpi<double>>(p, in_place);
}

std::unique_ptr<Competitor> make_memcpy(const Problem& p) {
  if (p.value_bytes == 4) return std::make_unique<Memcpy<float>>(p);
  return std::make_unique<Memcpy<double>>(p);
}

}  // namespace peers
