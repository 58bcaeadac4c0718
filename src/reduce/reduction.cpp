// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/reduce/impl/reduction.hpp"

#include <algorithm>

#include "shard/base/error.hpp"
#include "shard/base/impl/patience.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard::impl {

void throw_other_ranks(std::string_view label) {
  throw_argument("reduce", {"field \"", text(label),
                            "\" is sharded over other mesh axes than the first one: its elements "
                            "would count another number of times"});
}

void require_same_length(const Geometry& geometry, std::size_t fields) {
  require_agreement(geometry.mesh->comm(), "reduce",
                    "a set of " + text(static_cast<index_t>(fields)) + " fields");
}

void ReductionMessage::wait() {
  for (MPI_Request& request : requests_)
    if (request != MPI_REQUEST_NULL) {
      const Watched watched({.what = "other ranks' values for a reduction"});
      await_requests(1, &request);
    }
}

void ReductionMessage::begin(std::shared_ptr<RankGroup> group, int values, bool exact) {
  group_ = std::move(group);
  exact_ = exact;
  kinds_.assign(static_cast<std::size_t>(values), ReductionKind::sum);
}

void ReductionMessage::start(const double* values, const index_t* digits, bool waits) {
  const auto count = kinds_.size();
  gathers_         = !exact_;
  digits_.clear();
  if (exact_)
    for (std::size_t n = 0; n < count; ++n) {
      if (kinds_[n] == ReductionKind::sum) {
        const index_t* const sum = digits + n * ExactSum::width;
        digits_.insert(digits_.end(), sum, sum + ExactSum::width);
        ExactSum::carry(digits_.data() + digits_.size() - ExactSum::width);
      } else {
        gathers_ = true;
      }
    }
  sums_ = !digits_.empty();
  if (sums_)
    requests_[0] =
        group_->start_sum_integers(digits_.data(), static_cast<int>(digits_.size()), waits);
  if (!gathers_) return;
  mine_.assign(values, values + count);
  all_.resize(count * static_cast<std::size_t>(group_->size()));
  requests_[1] = group_->start_gather(mine_.data(), static_cast<int>(count), all_.data(), waits);
}

void ReductionMessage::finish(double* results) {
  wait();
  const auto count = kinds_.size();
  index_t* sum     = digits_.data();
  for (std::size_t n = 0; n < count; ++n) {
    if (exact_ && kinds_[n] == ReductionKind::sum) {
      ExactSum::carry(sum);
      results[n] = ExactSum::value(sum);
      sum += ExactSum::width;
    } else {
      results[n] = all_[n];
      for (std::size_t r = 1; r < static_cast<std::size_t>(group_->size()); ++r)
        results[n] = combine(kinds_[n], results[n], all_[r * count + n]);
    }
  }
}

}  // namespace shard::impl
