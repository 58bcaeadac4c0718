// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_GATHERED_RECORD_HPP
#define SHARD_MODEL_IMPL_GATHERED_RECORD_HPP

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "shard/model/impl/layer_record.hpp"

namespace shard::impl {

/// Whether a layer is a Gathered.
template <class Layer>
inline constexpr bool is_gathered_v = requires {
  typename Layer::gathered_type;
};

/// An operation on unsharded fields, of values that one rank owns. The others have nothing to do.
template <class Types, class MeshType, class M, int N, class Space>
class GatheredRecord final : public ModelRecord<typename Types::Run, Space> {
 public:
  using Base  = typename Types::Run;
  using Whole = ModelTypes<typename Types::value_type, typename Base::memory_space,
                           typename NoCutsOf<Types::Cuts::dims>::type>;
  using One   = LayerRecord<Whole, M, N, Space>;
  using Wants = typename One::Wants;

  GatheredRecord(const M& module, ModelMeshes<MeshType> meshes)
      : meshes_(std::move(meshes)), one_(module) {}

  void see(FieldKind kind, const Base& output, const std::vector<Base>& inputs) override {
    owns_ = owned_points(output) > 0;
    for (const Base& x : inputs)
      if (FieldAccess::is_made(x)) owns_ = owns_ && owned_points(x) > 0;
    if (!owns_) return;
    std::vector<Base> in;
    for (const Base& x : inputs) in.push_back(whole(x));
    one_.see(kind, whole(output), in);
  }
  void build() override {
    if (owns_) one_.build();
  }
  void apply(const Space& space) override {
    if (owns_) one_.apply(space);
  }
  void pushforward(const Space& space) override {
    if (owns_) one_.pushforward(space);
  }
  void pullback(const Space& space, const std::vector<bool>& wanted) override {
    if (owns_) one_.pullback(space, wanted);
  }
  static constexpr bool reads() { return One::reads(); }

 private:
  static index_t owned_points(const Base& x) {
    index_t n = 1;
    for (int d = 0; d < Base::rank; ++d) n *= x.extent(d);
    return n;
  }
  /// The same memory as a field on a mesh of this rank.
  Base whole(const Base& x) const {
    if (!FieldAccess::is_made(x)) return {};
    typename Whole::Partitions parts;
    for (int d = 0; d < Base::rank; ++d) parts[Geometry::at(d)] = Partition::whole(x.extent(d));
    FieldState state = FieldAccess::state_of(x);
    state.geometry =
        FieldTypeOf<Base>::make(state.geometry.label, meshes_.own(), nullptr, parts.data());
    return FieldAccess::part<Base>(std::move(state), x.view());
  }

  ModelMeshes<MeshType> meshes_;
  One one_;
  bool owns_ = false;
};

}  // namespace shard::impl

#endif
