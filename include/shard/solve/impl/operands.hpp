// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_OPERANDS_HPP
#define SHARD_SOLVE_IMPL_OPERANDS_HPP

#include <mpi.h>

#include <Kokkos_Core.hpp>

#include <string>
#include <string_view>
#include <type_traits>

#include "shard/autodiff/impl/value.hpp"
#include "shard/exchange/impl/shared_points.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/view/impl/same_points.hpp"
#include "shard/view/region.hpp"

/// \file
/// What operators, solvers and vector functions require of the vectors that they are given. Each of
/// them calls one of these functions first. All checks are local and before any message. They
/// compare values that are the same on every rank, so every rank throws, with one exception: a rank
/// without points sees memory in common only in copies of one field.

namespace shard::impl {

/// The ranks that shard dimension `d` of a field, in the order of its parts: the mesh axis'
/// communicator, MPI_COMM_SELF for a dimension that isn't sharded. Throws ArgumentError, on every
/// rank alike, for a dimension that is sharded over several axes.
MPI_Comm owners_of(std::string_view function, const Geometry& field, int d);
/// Throws ArgumentError on every rank of `comm` if a rank's `count` elements have a stride other
/// than 1: for libraries that take arrays. Collective over `comm`.
void require_contiguous(MPI_Comm comm, std::string_view function, const Geometry& field,
                        index_t count, index_t stride);
/// Throws ArgumentError unless all vectors have the same points, part by part.
template <class First, class... More>
void require_alike([[maybe_unused]] std::string_view function, const First& first,
                   const More&... more) {
  (for_parts([&](const auto& a,
                 const auto& b) { require_same_points(function, a.geometry(), b.geometry()); },
             first, more),
   ...);
}
/// Throws ArgumentError if an output has memory of an input.
template <class Y, class X>
void require_apart(std::string_view function, const Y& y, const X& x) {
  for_parts(
      [&](const auto& to) {
        for_parts(
            [&](const auto& from) {
              if (share_points(field_args(to), to.origin(), field_args(from), from.origin()))
                throw_shared(function, to.geometry(), from.geometry());
            },
            x);
      },
      y);
}
/// Both: for operators from vectors to vectors like these that don't work in place.
template <class Y, class X>
void require_operands(std::string_view function, const Y& y, const X& x) {
  require_alike(function, y, x);
  require_apart(function, y, x);
}

/// Runs a kernel over the owned points of the field `to`, which it writes; so the halo of `to` is
/// stale. `label` begins with "shard::". Throws ArgumentError unless the other fields that the
/// kernel uses have the same points. Asynchronous.
template <class Space, class To, class Kernel, class... Others>
void write_points(const char* label, const Space& space, const To& to, const Kernel& kernel,
                  const Others&... others) {
  constexpr std::string_view prefix = "shard::";
  require_alike(label + prefix.size(), to, others...);
  parallel_for(label, space, owned_region(to), kernel);
  mark_written(space, to);
}

}  // namespace shard::impl

#endif
