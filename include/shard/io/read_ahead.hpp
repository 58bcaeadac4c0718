// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <shard/base/error.hpp>
#include <shard/exchange/stale.hpp>
#include <shard/io/field_reader.hpp>
#include <shard/view/copy.hpp>
#include <shard/view/sharded_view.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <span>
#include <vector>

/// \file
/// Samples of a file that are read while the step before them runs.

namespace shard {

namespace impl {

/// Items that a thread makes in order, at most `slots` ahead of their use.
class Ahead {
 public:
  /// `make(item, slot)` runs in the thread.
  Ahead(std::size_t items, std::size_t slots, std::function<void(std::size_t, std::size_t)> make);
  Ahead(const Ahead&)            = delete;
  Ahead& operator=(const Ahead&) = delete;
  /// Waits for the item that is being made.
  ~Ahead();

  /// Waits for the next item, and returns its slot. There has to be one. Throws what `make` threw.
  std::size_t take();
  /// Its slot can be used again.
  void give_back();
  /// Seconds in `take`.
  double waited() const;
  /// Seconds in `make`.
  double worked() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace impl

/// The place of a sample in a file.
struct FieldSample {
  std::size_t member = 0;  ///< of the ensemble
  std::size_t time   = 0;  ///< index of its time
};

/// Reads samples of a FieldReader into fields [batch, channel, latitude, longitude], in a thread of
/// its own: while a step runs, the next samples are read. Each rank reads the rows, columns,
/// channels and samples that it owns. Field is the type of the fields, sharded in any way.
///
/// All of this is local: nothing is sent, and an exception is thrown on the rank whose file can't
/// be read. Other NetCDF files of this library can be used meanwhile; calls of the NetCDF library
/// itself can't, unless it was built for threads.
template <class Field>
class ReadAhead {
  static_assert(Field::rank == 4, "the field is [batch, channel, latitude, longitude]");
  using T                         = typename Field::non_const_value_type;
  using Mirror                    = decltype(create_mirror_view(std::declval<const Field&>()));
  static constexpr bool is_mirror = std::is_same_v<Mirror, Field>;  // on a host

 public:
  /// Begins to read `samples` for fields like this one, at most `batches` of them ahead; the last
  /// samples, which don't fill a batch, are left out. The reader has to stay until this is
  /// destroyed. Throws ArgumentError if the field has other extents than the reader's maps or
  /// channels, if a sample isn't in the file, or for `batches` below 1.
  ReadAhead(const FieldReader& reader, const Field& like, std::vector<FieldSample> samples,
            std::size_t batches = 2)
      : reader_(reader), samples_(std::move(samples)), host_(create_mirror_view(like)) {
    check(like, batches);
    for (int d = 0; d < 4; ++d) extent_[d] = static_cast<std::size_t>(like.extent(d));
    for (int d = 0; d < 4; ++d) begin_[d] = static_cast<std::size_t>(like.begin(d));
    of_batch_ = static_cast<std::size_t>(like.global_extent(0));
    slots_.resize(batches);
    for (Slot& slot : slots_) slot.values.resize(extent_[0] * extent_[1] * extent_[2] * extent_[3]);
    ahead_ = std::make_unique<impl::Ahead>(
        samples_.size() / of_batch_, batches,
        [this](std::size_t batch, std::size_t slot) { read(batch, slots_[slot]); });
  }

  /// Number of batches that are left.
  std::size_t left() const { return samples_.size() / of_batch_ - taken_; }
  /// Sets the owned points of a field to the next batch; missing values become NaN. Waits until it
  /// is read. Returns false, and does nothing, if none is left. Throws ArgumentError for a field of
  /// other partitions, NetcdfError if the batch couldn't be read. Local; fences `space`.
  template <class Space>
  bool next(const Space& space, const Field& field) {
    for (int d = 0; d < 4; ++d)
      if (field.begin(d) != static_cast<index_t>(begin_[d]) ||
          field.extent(d) != static_cast<index_t>(extent_[d]))
        impl::throw_argument("ReadAhead::next", {"the field \"", field.label(),
                                                 "\" has another partition of dimension ",
                                                 impl::text(d), " than the one it was made for"});
    if (left() == 0) return false;
    const Slot& slot = slots_[ahead_->take()];
    ++taken_;
    missing_           = slot.missing;
    const T* from      = slot.values.data();
    const Mirror& host = [&]() -> const Mirror& {
      if constexpr (is_mirror)
        return field;
      else
        return host_;
    }();
    for (std::size_t n = 0; n < extent_[0]; ++n)
      for (std::size_t c = 0; c < extent_[1]; ++c)
        for (std::size_t i = 0; i < extent_[2]; ++i, from += extent_[3]) {
          T* const row = host.origin() + static_cast<index_t>(n) * host.stride(0) +
                         static_cast<index_t>(c) * host.stride(1) +
                         static_cast<index_t>(i) * host.stride(2);
          for (std::size_t j = 0; j < extent_[3]; ++j)
            row[static_cast<index_t>(j) * host.stride(3)] = from[j];
        }
    ahead_->give_back();
    if constexpr (is_mirror) {
      mark_written(space, field);
    } else {
      deep_copy(space, field, host_);
      space.fence("shard::ReadAhead: the mirror is copied");
    }
    return true;
  }
  /// Missing values of this rank's part of the last batch.
  std::size_t missing() const { return missing_; }
  /// Seconds that `next` has waited for the file; what reading took besides was hidden.
  double waited() const { return ahead_->waited(); }
  /// Seconds that the thread has read.
  double reading() const { return ahead_->worked(); }

 private:
  struct Slot {
    std::vector<T> values;
    std::size_t missing = 0;
  };

  void check(const Field& like, std::size_t batches) const {
    const std::size_t wanted[] = {reader_.channels().size(), reader_.rows(), reader_.columns()};
    const char* const what[]   = {"channels", "rows", "columns"};
    for (int d = 1; d < 4; ++d)
      if (static_cast<std::size_t>(like.global_extent(d)) != wanted[d - 1])
        impl::throw_argument(
            "ReadAhead",
            {"the field \"", like.label(), "\" has ", impl::text(like.global_extent(d)), " ",
             what[d - 1], ", the file ", impl::text(static_cast<index_t>(wanted[d - 1]))});
    for (const FieldSample& s : samples_)
      if (s.member >= reader_.members() || s.time >= reader_.times())
        impl::throw_argument(
            "ReadAhead",
            {"there is no member ", impl::text(static_cast<index_t>(s.member)), " at time ",
             impl::text(static_cast<index_t>(s.time)), " in the file: ", reader_.summary()});
    if (batches < 1 || like.global_extent(0) < 1)
      impl::throw_argument("ReadAhead", {"it reads at least one batch of one sample ahead"});
  }
  /// This rank's part of a batch.
  void read(std::size_t batch, Slot& slot) {
    row_.resize(extent_[2] * extent_[3]);
    slot.missing = 0;
    T* to        = slot.values.data();
    for (std::size_t n = 0; n < extent_[0]; ++n) {
      const FieldSample& sample = samples_[batch * of_batch_ + begin_[0] + n];
      for (std::size_t c = 0; c < extent_[1]; ++c, to += row_.size()) {
        if (row_.empty()) continue;
        slot.missing += reader_.read(
            sample.member, sample.time, begin_[1] + c,
            {begin_[2], begin_[2] + extent_[2], begin_[3], begin_[3] + extent_[3]}, row_);
        for (std::size_t i = 0; i < row_.size(); ++i) to[i] = static_cast<T>(row_[i]);
      }
    }
  }

  const FieldReader& reader_;
  std::vector<FieldSample> samples_;
  Mirror host_;
  std::size_t extent_[4] = {}, begin_[4] = {}, of_batch_ = 1, taken_ = 0, missing_ = 0;
  std::vector<double> row_;  ///< the thread's
  std::vector<Slot> slots_;
  std::unique_ptr<impl::Ahead> ahead_;  ///< last, so that the thread ends first
};

}  // namespace shard
