// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Griewank and Walther 2000, "Algorithm 799: revolve". With beta(s, r) = (s + r)! / (s! r!) and r
// the least number with l <= beta(s, r), any first distance m with beta(s, r-2) <= m <= beta(s,
// r-1) and beta(s-1, r-1) <= l - m <= beta(s-1, r) is optimal; this returns the smallest one.
#include "shard/autodiff/checkpointing.hpp"

#include <algorithm>

#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard::impl {

index_t binomial_reach(index_t slots, index_t repeats) {
  if (slots < 0 || repeats < 0) return 0;
  constexpr index_t most = index_t{1} << 62;
  const index_t k        = std::min(slots, repeats);
  index_t reach          = 1;
  for (index_t i = 1; i <= k; ++i) {
    const index_t factor = slots + repeats - k + i;
    if (reach > most / factor) return most;
    reach = reach * factor / i;
  }
  return reach;
}

namespace {

index_t repeats_of(index_t steps, index_t slots) {
  index_t r = 0;
  while (binomial_reach(slots, r) < steps) ++r;
  return r;
}

}  // namespace

index_t least_advances(index_t steps, index_t slots) {
  if (steps <= 1) return 0;
  const index_t r = repeats_of(steps, slots);
  return r * steps - binomial_reach(slots + 1, r - 1);
}

index_t checkpoint_distance(index_t steps, index_t slots) {
  const index_t r = repeats_of(steps, slots);
  return std::max({index_t{1}, binomial_reach(slots, r - 2), steps - binomial_reach(slots - 1, r)});
}

index_t allowed_slots(const Checkpoints& bound, index_t state_bytes, index_t steps, MPI_Comm comm) {
  index_t slots = std::max<index_t>(steps, 1);
  if (bound.slots > 0) slots = std::min(slots, bound.slots);
  if (bound.bytes > 0 && state_bytes > 0) slots = std::min(slots, bound.bytes / state_bytes);
  if (bound.slots < 0 || bound.bytes < 0) slots = 0;
  if (comm != MPI_COMM_NULL) {
    const Watched watched({.what = "other ranks to choose the checkpoints of a loop"});
    index_t least[] = {slots, steps, -steps};
    await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, least, 3, MPI_INT64_T, MPI_MIN, comm);
    if (least[1] != -least[2]) require_agreement(comm, "Tape::loop", text(steps) + " steps");
    slots = least[0];
  }
  if (steps < 0) throw_argument("Tape::loop", {"can't take ", text(steps), " steps"});
  if (slots < 1)
    throw_argument("Tape::loop", {"checkpoints of ", text(bound.bytes), " bytes, ",
                                  text(bound.slots), " slots (0: no bound) don't hold one state, ",
                                  text(state_bytes), " bytes on this rank"});
  return slots;
}

}  // namespace shard::impl
