// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/comm/impl/in_flight.hpp"

#include "shard/base/error.hpp"
#include "shard/base/impl/patience.hpp"

namespace shard::impl {

InFlight* InFlight::first_ = nullptr;

void InFlight::enter(Unpack unpack, void* plan, void* set) {
  leave();
  unpack_ = unpack;
  plan_   = plan;
  set_    = set;
  next_   = first_;
  if (next_ != nullptr) next_->previous_ = this;
  first_ = this;
}

void InFlight::leave() {
  if (unpack_ == nullptr) return;
  unpack_                                            = nullptr;
  (previous_ != nullptr ? previous_->next_ : first_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
  next_ = previous_ = nullptr;
}

void InFlight::progress_all() {
  for (const InFlight* one = first_; one != nullptr; one = one->next_)
    one->unpack_(one->plan_, one->set_);
}

void InFlight::wait_all(int count, MPI_Request* requests) {
  Patience patience(Patience::Look::messages);
  while (first_ != nullptr) {
    int done = 0;
    check_mpi(MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (done != 0) return;
    progress_all();
    patience.turn();
  }
  await_requests(count, requests);
}

}  // namespace shard::impl
