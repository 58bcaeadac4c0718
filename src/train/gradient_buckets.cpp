// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/train/gradient_buckets.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "shard/base/error.hpp"
#include "shard/base/impl/patience.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard::impl {

std::vector<Bucket> buckets_of(const std::vector<ParameterEntry>& entries, index_t values) {
  std::vector<Bucket> buckets;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (buckets.empty() || buckets.back().count >= values) buckets.emplace_back();
    buckets.back().first = entry->offset;
    buckets.back().count += entry->count();
    ++buckets.back().entries;
  }
  return buckets;
}

template <class T>
struct BucketMessages<T>::State {
  struct Part {
    index_t count = 0;  // of the part that each rank sums
    // pinned: a device copies to and from it without a buffer of the driver
    Kokkos::View<T*, Kokkos::SharedHostPinnedSpace> sent = {};
    std::vector<T> received                              = {};
    MPI_Request there = MPI_REQUEST_NULL, back = MPI_REQUEST_NULL;
  };

  std::size_t ranks = 1;
  MPI_Comm there = MPI_COMM_NULL, back = MPI_COMM_NULL;
  std::vector<Part> parts;
  std::size_t started = 0, summed = 0;

  static MPI_Datatype type() { return std::is_same_v<T, float> ? MPI_FLOAT : MPI_DOUBLE; }

  // All ranks' values of the next bucket have arrived: sums this rank's part and sends it to all.
  void sum() {
    Part& p      = parts[summed++];
    const auto n = static_cast<std::size_t>(p.count);
    for (std::size_t r = 1; r < ranks; ++r)
      for (std::size_t i = 0; i < n; ++i) p.received[i] += p.received[r * n + i];
    check_mpi(MPI_Iallgather(p.received.data(), static_cast<int>(n), type(), p.sent.data(),
                             static_cast<int>(n), type(), back, &p.back),
              "MPI_Iallgather");
  }

  void finish() {
    const Watched watched({.what = "other ranks' gradients of a bucket"});
    while (summed < started) {
      await_requests(1, &parts[summed].there);
      sum();
    }
    for (Part& p : parts) await_requests(1, &p.back);
    started = summed = 0;
  }
};

template <class T>
BucketMessages<T>::BucketMessages(const MeshState& mesh, const RankGroup& group,
                                  const std::vector<Bucket>& buckets)
    : state_(std::make_unique<State>()) {
  const index_t ranks = group.size();
  state_->ranks       = static_cast<std::size_t>(ranks);
  const Watched watched({.what = "other ranks to sum gradients in buckets", .rank = mesh.rank()});
  std::string sizes = "buckets of";
  for (const Bucket& b : buckets) sizes += " " + text(b.count);
  require_agreement(mesh.comm(), "GradientBuckets", sizes + " values");
  for (const Bucket& b : buckets) {
    typename State::Part p;
    p.count = (b.count + ranks - 1) / ranks;
    if (p.count > std::numeric_limits<int>::max())
      throw_argument("GradientBuckets", {"a bucket has ", text(b.count), " values, too many for ",
                                         text(ranks), " ranks"});
    const auto all = static_cast<std::size_t>(p.count * ranks);
    p.sent         = decltype(p.sent)("shard::GradientBuckets", all);
    p.received.assign(all, T(0));
    state_->parts.push_back(std::move(p));
  }
  state_->there = group.make_comm(mesh);
  state_->back  = group.make_comm(mesh);
}

template <class T>
BucketMessages<T>::~BucketMessages() {
  int finalized = 0;
  if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) return;
  try {
    state_->finish();
  } catch (const Error&) {  // another exception is in progress
  }
  MPI_Comm_free(&state_->there);
  MPI_Comm_free(&state_->back);
}

template <class T>
T* BucketMessages<T>::values(int b) {
  return state_->parts[static_cast<std::size_t>(b)].sent.data();
}

template <class T>
void BucketMessages<T>::start(int b) {
  typename State::Part& p = state_->parts[static_cast<std::size_t>(b)];
  const auto n            = static_cast<int>(p.count);
  check_mpi(MPI_Ialltoall(p.sent.data(), n, State::type(), p.received.data(), n, State::type(),
                          state_->there, &p.there),
            "MPI_Ialltoall");
  ++state_->started;
}

template <class T>
void BucketMessages<T>::progress() {
  State& s = *state_;
  int done = 1;
  while (s.summed < s.started) {
    check_mpi(MPI_Test(&s.parts[s.summed].there, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) return;
    s.sum();
  }
}

template <class T>
void BucketMessages<T>::finish() {
  state_->finish();
}

template class BucketMessages<float>;
template class BucketMessages<double>;

}  // namespace shard::impl
