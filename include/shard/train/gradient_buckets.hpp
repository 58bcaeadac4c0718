// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TRAIN_GRADIENT_BUCKETS_HPP
#define SHARD_TRAIN_GRADIENT_BUCKETS_HPP

#include <Kokkos_Core.hpp>

#include <memory>
#include <string_view>
#include <type_traits>
#include <vector>

#include "shard/comm/impl/rank_group.hpp"
#include "shard/model/parameter_arena.hpp"
#include "shard/train/gradient_sum.hpp"

namespace shard {

namespace impl {

/// Consecutive entries of a parameter arena whose gradients are summed together.
struct Bucket {
  index_t first = 0;  ///< of its values
  index_t count = 0;
  int entries   = 0;
};

/// Entries from the last to the first, in buckets of at least `values` values.
std::vector<Bucket> buckets_of(const std::vector<ParameterEntry>& entries, index_t values);

/// The messages of bucketed sums, on the host. A bucket needs two collectives: each rank sums its
/// part in rank order, then all ranks gather the parts. Each collective has its own communicator,
/// and buckets have the same order on every rank. Compiled for float and double.
template <class T>
class BucketMessages {
 public:
  /// Collective over the mesh.
  BucketMessages(const MeshState& mesh, const RankGroup& group, const std::vector<Bucket>& buckets);
  ~BucketMessages();
  BucketMessages(const BucketMessages&)            = delete;
  BucketMessages& operator=(const BucketMessages&) = delete;

  /// The memory of bucket b's values before `start(b)`, and of their sums after `finish`.
  T* values(int b);
  /// Starts the next bucket, and progresses the others.
  void start(int b);
  void progress();
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace impl

/// A GradientSum that overlaps with the pullback. Gradients are divided into buckets, from the last
/// layer to the first. A bucket's messages start as soon as its gradients, and those of the buckets
/// before it, are complete. The sums are bitwise those of GradientSum. The constructor allocates
/// all memory.
template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
class GradientBuckets {
 public:
  /// Collective over the mesh of `like`: for the gradients of a complete arena, summed over the
  /// mesh axes that shard `like` (batch too), in buckets of at least `bytes`. AgreementError on
  /// every rank if the ranks' buckets differ.
  template <class Field>
  GradientBuckets(const Field& like, const ParameterArena<T, Memory>& gradients,
                  index_t bytes = index_t{25} << 20)
      : mesh_(like.geometry().mesh),
        gradients_(gradients),
        buckets_(impl::buckets_of(gradients.entries(), bytes / static_cast<index_t>(sizeof(T)))),
        complete_(gradients.entries().size(), 0) {
    const auto group = impl::RankGroup::of(like.geometry(), ~0U);
    if (group->size() > 1)
      messages_ = std::make_shared<impl::BucketMessages<T>>(*mesh_, *group, buckets_);
    reset();
  }

  /// Number of buckets.
  int count() const { return static_cast<int>(buckets_.size()); }

  /// The gradients of a layer are complete (in `space`'s order): all entries called `layer` or
  /// "<layer>.<...>". Starts the messages of buckets that are now complete, after a fence of
  /// `space`. All ranks must make the same calls. Throws ArgumentError for an unknown name or a
  /// second call for a layer.
  template <class Space>
  void ready(const Space& space, std::string_view layer) {
    mark(layer);
    start_complete(space);
  }

  /// Treats all gradients as complete and waits for the sums, which are then in the arena. Begins
  /// the next step.
  template <class Space>
  void finish(const Space& space) {
    for (impl::Bucket& b : missing_) b.entries = 0;
    start_complete(space);
    if (messages_) {
      messages_->finish();
      for (int b = 0; b < count(); ++b) copy(space, host(b), values(b), false);
      space.fence("shard::GradientBuckets: sums are in the arena");
    }
    reset();
  }

 private:
  using View     = Kokkos::View<T*, Kokkos::LayoutRight, Memory, Kokkos::MemoryUnmanaged>;
  using HostView = Kokkos::View<T*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;

  const impl::Bucket& bucket(int b) const { return buckets_[static_cast<std::size_t>(b)]; }
  View values(int b) const {
    return View(gradients_.values().data() + bucket(b).first,
                static_cast<std::size_t>(bucket(b).count));
  }
  HostView host(int b) const {
    return HostView(messages_->values(b), static_cast<std::size_t>(bucket(b).count));
  }

  template <class Space>
  static void copy(const Space& space, const HostView& host, const View& values, bool to_host) {
    if (to_host)
      Kokkos::deep_copy(space, host, values);
    else
      Kokkos::deep_copy(space, values, host);
  }

  void reset() {
    missing_ = buckets_;
    for (char& c : complete_) c = 0;
    started_ = 0;
  }

  void mark(std::string_view layer) {
    bool found = false;
    int entry  = static_cast<int>(complete_.size()) - 1;
    for (impl::Bucket& bucket : missing_)
      for (const int first = entry - whole(bucket); entry > first; --entry) {
        const std::string_view name = gradients_.entries()[static_cast<std::size_t>(entry)].name;
        if (name.substr(0, layer.size()) != layer ||
            (name.size() > layer.size() && name[layer.size()] != '.'))
          continue;
        if (complete_[static_cast<std::size_t>(entry)]++ != 0)
          impl::throw_argument("GradientBuckets::ready",
                               {"\"", std::string(name), "\" was complete before"});
        --bucket.entries;
        found = true;
      }
    if (!found)
      impl::throw_argument("GradientBuckets::ready",
                           {"there are no gradients called \"", std::string(layer), "\""});
  }
  int whole(const impl::Bucket& missing) const {
    return buckets_[static_cast<std::size_t>(&missing - missing_.data())].entries;
  }

  template <class Space>
  void start_complete(const Space& space) {
    const int first = started_;
    while (started_ < count() && missing_[static_cast<std::size_t>(started_)].entries == 0)
      ++started_;
    if (!messages_) return;
    for (int b = first; b < started_; ++b) copy(space, host(b), values(b), true);
    if (started_ > first) space.fence("shard::GradientBuckets: gradients for the collective");
    for (int b = first; b < started_; ++b) messages_->start(b);
    messages_->progress();
  }

  std::shared_ptr<impl::MeshState> mesh_;  // whose communicator the group may use
  ParameterArena<T, Memory> gradients_;
  std::vector<impl::Bucket> buckets_, missing_;
  std::vector<char> complete_;
  int started_ = 0;
  std::shared_ptr<impl::BucketMessages<T>> messages_;
};

}  // namespace shard

#endif
