// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_GATHERED_HPP
#define SHARD_MODEL_GATHERED_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"
#include "shard/model/impl/layer_call.hpp"
#include "shard/view/partition.hpp"

namespace shard {

namespace impl {

/// The parameters of an operation that has some, for a layer that has the same.
template <class Op>
struct SameParameters {};
template <class Op>
requires has_parameters_v<Op, double, Kokkos::HostSpace>
struct SameParameters<Op> {
  template <class T, class Memory>
  using Parameters = typename Op::template Parameters<T, Memory>;
};

}  // namespace impl

/// A layer or an operation that has no sharded form, in a model on a mesh: one rank gathers its
/// inputs, computes it on unsharded fields, and scatters the output. If the batch is sharded, one
/// rank for each of its parts does. Made by `gathered`.
///
/// It costs a redistribution of each input and of the output, and as many in the pullback; the
/// other ranks wait. `op` sees fields on a mesh of one rank; its parameters' gradients are on that
/// rank.
template <class Op>
struct Gathered : impl::SameParameters<Op> {
  using gathered_type = Op;  ///< the type of the operation
  Op op{};                   ///< the operation

  static constexpr LayerSharding sharding = LayerSharding::moving;  ///< redistributes its inputs
  /// In any dimension but that of channels.
  static constexpr bool can_be_sharded(int) { return true; }
  static constexpr int inputs = impl::layer_inputs<Op>();  ///< as many as the operation's

  Gathered() = default;
  /// Of this operation.
  explicit Gathered(const Op& one) : op(one) {}

  /// Shapes and names of its parameters.
  std::vector<ParameterShape> parameter_shapes() const { return op.parameter_shapes(); }
  /// Initialises them, for an operation that does.
  template <class Space, class P>
  void initialise_parameters(const Space& space, const P& parameters, std::uint64_t seed,
                             std::uint64_t stream) const requires requires(const Op& o) {
    o.initialise_parameters(space, parameters, seed, stream);
  }
  { op.initialise_parameters(space, parameters, seed, stream); }
  /// The operation's buffers, if it has some.
  auto buffer_shapes() const requires requires(const Op& o) { o.buffer_shapes(); }
  { return op.buffer_shapes(); }
  /// Initialises them.
  template <class Space, class Buffers>
  void initialise_buffers(const Space& space, const Buffers& buffers) const {
    op.initialise_buffers(space, buffers);
  }

  /// The operation's, in as many parts as the input's.
  template <class Partitions, class... More>
  Partitions output_partitions(const Partitions& first, const More&... more) const {
    Partitions out = impl::partitions_after(op, first, more...);
    for (std::size_t d = 0; d < out.size(); ++d)
      if (out[d].parts() != first[d].parts())
        out[d] = Partition::balanced(out[d].size(), first[d].parts());
    return out;
  }
};

/// An operation without a sharded form as one that has: `m.run(shard::gathered(op), x)` in a
/// model's function, or a layer of `sequential`. A layer with parameters is a member of the model's
/// struct, of type `Gathered<Layer>`.
template <class Op>
Gathered<Op> gathered(const Op& op) {
  return Gathered<Op>(op);
}

}  // namespace shard

#endif
