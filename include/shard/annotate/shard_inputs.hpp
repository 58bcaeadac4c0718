// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_ANNOTATE_SHARD_INPUTS_HPP
#define SHARD_ANNOTATE_SHARD_INPUTS_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shard/mesh/partition_spec.hpp"
#include "shard/annotate/annotated_view.hpp"

namespace shard {

/// How the tensors of an input pipeline are sharded: all by one spec, each by the spec of its key,
/// or not at all (replicated).
class InputSharding {
 public:
  /// Replicated.
  InputSharding(None = none);
  /// One spec for all. A tensor of another rank is replicated.
  InputSharding(PartitionSpec spec);
  /// A spec for each key.
  InputSharding(std::vector<std::pair<std::string, PartitionSpec>> specs);
  InputSharding(const InputSharding&);  ///< a copy
  ~InputSharding();

  /// The spec of a bare tensor of this rank. Throws ArgumentError if there is one per key.
  PartitionSpec spec_for(int rank) const;
  /// The spec of a tensor with this key. Throws ArgumentError for a key that has none.
  PartitionSpec spec_for(const std::string& key, int rank) const;
  /// As text, for messages.
  std::string text() const;

 private:
  enum class Kind : std::uint8_t { replicated, one, by_key };
  std::vector<std::pair<std::string, PartitionSpec>> specs_;
  Kind kind_ = Kind::replicated;
};

namespace impl {

/// Collective: throws AgreementError on every rank unless the ranks have these inputs and specs.
void agree_on_inputs(const DeviceMesh& mesh, const InputSharding& sharding,
                     const std::string& inputs);

}  // namespace impl

/// Shards one tensor of an input pipeline, which every rank has whole. Collective; errors as of
/// mark_sharding, and ArgumentError on every rank if there is a spec per key.
template <class Space, class T, class... Properties>
auto shard_inputs(const Space& space, const Kokkos::View<T, Properties...>& input,
                  const DeviceMesh& mesh, const InputSharding& sharding) {
  impl::agree_on_inputs(mesh, sharding, "a tensor");
  return mark_sharding(space, input, mesh,
                       sharding.spec_for(static_cast<int>(Kokkos::View<T, Properties...>::rank())));
}

/// The same for tensors with keys, in their order. ArgumentError on every rank, before any is
/// sharded, for a key without a spec.
template <class Space, class View>
std::vector<std::pair<std::string, annotated_view_t<View>>> shard_inputs(
    const Space& space, const std::vector<std::pair<std::string, View>>& inputs,
    const DeviceMesh& mesh, const InputSharding& sharding) {
  std::string keys;
  for (const auto& input : inputs) keys += "\"" + input.first + "\" ";
  impl::agree_on_inputs(mesh, sharding, keys);
  std::vector<PartitionSpec> specs;
  for (const auto& input : inputs)
    specs.push_back(sharding.spec_for(input.first, static_cast<int>(View::rank())));
  std::vector<std::pair<std::string, annotated_view_t<View>>> sharded;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    sharded.emplace_back(inputs[i].first, mark_sharding(space, inputs[i].second, mesh, specs[i]));
  return sharded;
}

}  // namespace shard

#endif
