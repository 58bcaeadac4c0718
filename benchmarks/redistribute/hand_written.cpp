// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "hand_written.hpp"

#include <algorithm>
#include <cstring>

namespace hand {

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Copies a box between a larger array and a buffer in which it stands alone.
template <bool Packs, class Array, class Buffer>
void copy_box(Array* array, const Box& extent, const Box& begin, const Box& box, Buffer* buffer) {
  const auto bytes = static_cast<std::size_t>(box[2]) * sizeof(float);
  for (index_t i = 0; i < box[0]; ++i)
    for (index_t j = 0; j < box[1]; ++j) {
      auto* line = array + ((begin[0] + i) * extent[1] + begin[1] + j) * extent[2] + begin[2];
      auto* mine = buffer + (i * box[1] + j) * box[2];
      if constexpr (Packs)
        std::memcpy(mine, line, bytes);
      else
        std::memcpy(line, mine, bytes);
    }
}

index_t volume(const Box& box) { return box[0] * box[1] * box[2]; }

}  // namespace

index_t begin_of(index_t n, int ranks, int rank) {
  return rank * (n / ranks) + std::min<index_t>(rank, n % ranks);
}

Transpose::Transpose(MPI_Comm comm, const Box& global, int cut, int to_cut)
    : comm_(comm), cut_(cut), to_cut_(to_cut), global_(global), from_(global), to_(global) {
  MPI_Comm_size(comm, &ranks_);
  MPI_Comm_rank(comm, &rank_);
  from_[at(cut)]  = count_of(global[at(cut)], ranks_, rank_);
  to_[at(to_cut)] = count_of(global[at(to_cut)], ranks_, rank_);
  int sent = 0, received = 0;
  for (int r = 0; r < ranks_; ++r) {
    Box out = from_, in = to_;
    out[at(to_cut)] = count_of(global[at(to_cut)], ranks_, r);
    in[at(cut)]     = count_of(global[at(cut)], ranks_, r);
    send_counts_.push_back(static_cast<int>(volume(out)));
    receive_counts_.push_back(static_cast<int>(volume(in)));
    send_at_.push_back(sent);
    receive_at_.push_back(received);
    sent += send_counts_.back();
    received += receive_counts_.back();
  }
  send_.resize(at(sent));
  receive_.resize(at(received));
}

void Transpose::pack(const float* from) {
  for (int r = 0; r < ranks_; ++r) {
    Box begin{}, box = from_;
    begin[at(to_cut_)] = begin_of(global_[at(to_cut_)], ranks_, r);
    box[at(to_cut_)]   = count_of(global_[at(to_cut_)], ranks_, r);
    copy_box<true>(from, from_, begin, box, send_.data() + send_at_[at(r)]);
  }
}

void Transpose::unpack(float* to) const {
  for (int r = 0; r < ranks_; ++r) {
    Box begin{}, box = to_;
    begin[at(cut_)] = begin_of(global_[at(cut_)], ranks_, r);
    box[at(cut_)]   = count_of(global_[at(cut_)], ranks_, r);
    copy_box<false>(to, to_, begin, box, receive_.data() + receive_at_[at(r)]);
  }
}

void Transpose::operator()(float* to, const float* from) {
  pack(from);
  MPI_Alltoallv(send_.data(), send_counts_.data(), send_at_.data(), MPI_FLOAT, receive_.data(),
                receive_counts_.data(), receive_at_.data(), MPI_FLOAT, comm_);
  unpack(to);
}

Sequence::Sequence(MPI_Comm comm, const Box& global) : comm_(comm), global_(global) {
  MPI_Comm_size(comm, &ranks_);
  channels_         = global[1] / ranks_;
  chunk_            = global[2] / (2 * ranks_);
  const index_t one = global[0] * channels_ * 2 * chunk_;
  counts_.assign(at(ranks_), static_cast<int>(one));
  for (int r = 0; r < ranks_; ++r) at_.push_back(static_cast<int>(one) * r);
  send_.resize(static_cast<std::size_t>(one * ranks_));
  receive_.resize(send_.size());
}

void Sequence::exchange() {
  MPI_Alltoallv(send_.data(), counts_.data(), at_.data(), MPI_FLOAT, receive_.data(),
                counts_.data(), at_.data(), MPI_FLOAT, comm_);
}

void Sequence::split_to_full(float* full, const float* split) {
  const Box local{global_[0], global_[1], 2 * chunk_}, whole{global_[0], channels_, global_[2]};
  for (int r = 0; r < ranks_; ++r)
    copy_box<true>(split, local, {0, r * channels_, 0}, {global_[0], channels_, 2 * chunk_},
                   send_.data() + at_[at(r)]);
  exchange();
  for (int r = 0; r < ranks_; ++r)
    for (index_t b = 0; b < global_[0]; ++b)
      for (index_t c = 0; c < channels_; ++c) {
        const float* line  = receive_.data() + at_[at(r)] + (b * channels_ + c) * 2 * chunk_;
        float* target      = full + (b * channels_ + c) * whole[2];
        const auto bytes   = static_cast<std::size_t>(chunk_) * sizeof(float);
        const index_t last = 2 * ranks_ - 1 - r;
        std::memcpy(target + r * chunk_, line, bytes);
        std::memcpy(target + last * chunk_, line + chunk_, bytes);
      }
}

void Sequence::full_to_split(float* split, const float* full) {
  const Box local{global_[0], global_[1], 2 * chunk_};
  for (int r = 0; r < ranks_; ++r)
    for (index_t b = 0; b < global_[0]; ++b)
      for (index_t c = 0; c < channels_; ++c) {
        float* line         = send_.data() + at_[at(r)] + (b * channels_ + c) * 2 * chunk_;
        const float* source = full + (b * channels_ + c) * global_[2];
        const auto bytes    = static_cast<std::size_t>(chunk_) * sizeof(float);
        const index_t last  = 2 * ranks_ - 1 - r;
        std::memcpy(line, source + r * chunk_, bytes);
        std::memcpy(line + chunk_, source + last * chunk_, bytes);
      }
  exchange();
  for (int r = 0; r < ranks_; ++r)
    copy_box<false>(split, local, {0, r * channels_, 0}, {global_[0], channels_, 2 * chunk_},
                    receive_.data() + at_[at(r)]);
}

Couple::Couple(MPI_Comm comm, const Box& global, int senders)
    : comm_(comm), senders_(senders), global_(global), own_(global) {
  MPI_Comm_size(comm, &ranks_);
  MPI_Comm_rank(comm, &rank_);
  const int receivers = ranks_ - senders;
  const bool sends    = rank_ < senders;
  if (sends)
    own_[0] = count_of(global[0], senders, rank_);
  else
    own_[1] = count_of(global[1], receivers, rank_ - senders);
  for (int r = 0; r < (sends ? receivers : senders); ++r) {
    Box box              = own_;
    box[sends ? 1U : 0U] = count_of(global[sends ? 1U : 0U], sends ? receivers : senders, r);
    messages_.emplace_back(static_cast<std::size_t>(volume(box)));
  }
  requests_.resize(messages_.size());
}

void Couple::operator()(float* to, const float* from) {
  const bool sends = rank_ < senders_;
  const auto cut   = sends ? 1U : 0U;  // of the other side
  const int others = sends ? ranks_ - senders_ : senders_;
  const auto each  = [&](const auto& use) {
    for (int r = 0; r < others; ++r) {
      Box begin{}, box = own_;
      begin[cut] = begin_of(global_[cut], others, r);
      box[cut]   = count_of(global_[cut], others, r);
      use(r, begin, box, messages_[at(r)]);
    }
  };
  each([&](int r, const Box& begin, const Box& box, std::vector<float>& message) {
    const int count = static_cast<int>(message.size());
    if (sends) {
      copy_box<true>(from, own_, begin, box, message.data());
      MPI_Isend(message.data(), count, MPI_FLOAT, senders_ + r, 0, comm_, &requests_[at(r)]);
    } else {
      MPI_Irecv(message.data(), count, MPI_FLOAT, r, 0, comm_, &requests_[at(r)]);
    }
  });
  MPI_Waitall(others, requests_.data(), MPI_STATUSES_IGNORE);
  if (!sends)
    each([&](int, const Box& begin, const Box& box, const std::vector<float>& message) {
      copy_box<false>(to, own_, begin, box, message.data());
    });
}

Halos::Halos(MPI_Comm comm, const Box& with_halo, std::size_t arrays)
    : comm_(comm), extent_(with_halo), arrays_(arrays) {
  MPI_Comm_rank(comm, &rank_);
  send_.resize(arrays * 2 * static_cast<std::size_t>(with_halo[0] * with_halo[2]));
  receive_.resize(send_.size());
}

void Halos::operator()(float* const* arrays) {
  const Box row{extent_[0], 1, extent_[2]};
  const index_t last = extent_[1] - 1;
  const auto size    = static_cast<std::size_t>(volume(row));
  const int count = static_cast<int>(send_.size()), peer = 1 - rank_;
  MPI_Request requests[2];
  MPI_Irecv(receive_.data(), count, MPI_FLOAT, peer, 0, comm_, &requests[0]);
  for (std::size_t a = 0; a < arrays_; ++a) {
    copy_box<true>(arrays[a], extent_, {0, 1, 0}, row, send_.data() + 2 * a * size);
    copy_box<true>(arrays[a], extent_, {0, last - 1, 0}, row, send_.data() + (2 * a + 1) * size);
  }
  MPI_Isend(send_.data(), count, MPI_FLOAT, peer, 0, comm_, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  for (std::size_t a = 0; a < arrays_; ++a) {
    copy_box<false>(arrays[a], extent_, {0, last, 0}, row, receive_.data() + 2 * a * size);
    copy_box<false>(arrays[a], extent_, {0, 0, 0}, row, receive_.data() + (2 * a + 1) * size);
  }
}

}  // namespace hand
