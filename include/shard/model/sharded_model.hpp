// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_SHARDED_MODEL_HPP
#define SHARD_MODEL_SHARDED_MODEL_HPP

#include <array>
#include <cstddef>
#include <memory>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "shard/model/impl/recorded_model.hpp"

namespace shard {

/// A model on a mesh, with fields sharded by `Cuts`. Made by `domain_parallel`. It is an operation
/// (see autodiff/operation.hpp) for tapes, chains and graphs. Copies share all memory.
template <class T, class Memory, class Root, class MeshType, class Axes>
class ShardedModel : public impl::RecordedModel<T, Memory, Root, MeshType, Axes> {
  using Recorded = impl::RecordedModel<T, Memory, Root, MeshType, Axes>;
  using typename Recorded::Base;
  using typename Recorded::Run;
  using typename Recorded::Types;

 public:
  using Recorded::rank;
  /// The input field, with the first layer's halo.
  using Input  = typename Types::template Field<typename impl::NodeWants<Axes, Root>::type>;
  using Output = Base;  ///< the output field, without halo

  /// For the library's own use: see domain_parallel.
  template <class Original>
  ShardedModel(const MeshType& mesh, const Root& root, const Original& model)
      : Recorded(mesh, root, model) {}

  /// A new input field of global extents [batch, channel, space...]. Collective over the mesh.
  Input input(std::string_view label, const Extents<rank>& extents) const {
    return Input(label, this->mesh(), extents);
  }
  /// A new output field for this x. Collective over the mesh.
  Output output(const Input& x) const {
    return Output("shard::model output", this->mesh(), this->outputs_for(x).front());
  }

  /// Allocates the layers' memory for fields like x, if needed. Otherwise the first apply does it,
  /// and an apply with other partitions or another type of execution space. (The first pullback or
  /// pushforward allocates the adjoints.) Collective over the mesh.
  void prepare(const Input& x) const {
    this->template work_for<typename Memory::execution_space>(x);
  }

  /// y = model(x); fills x's halo. Collective over the mesh.
  template <class Space>
  void apply(const Space& space, const Output& y, const Input& x) const {
    auto& work    = this->template work_for<Space>(x);
    const Run in  = impl::FieldAccess::same<Run>(x);
    const Run out = impl::FieldAccess::same<Run>(y);
    this->apply_to(work, space, &out, &in);
  }
  /// y = model(x), a field owned by the model: the next call overwrites it.
  template <class Space>
  const Output& operator()(const Space& space, const Input& x) const {
    auto& work = this->template work_for<Space>(x);
    if (!work.y) work.y = std::make_shared<Output>(output(x));
    const Output& y = *static_cast<const Output*>(work.y.get());
    apply(space, y, x);
    return y;
  }
  /// ty = J tx at the x of the last apply, parameters being constants. Collective over the mesh.
  /// Throws ArgumentError on every rank if there was no apply.
  template <class Space>
  void pushforward(const Space& space, const Output& ty, const Input& tx, const Input& x) const {
    auto& work        = this->template work_of<Space>("pushforward");
    const Run in      = impl::FieldAccess::same<Run>(x);
    const Run tangent = impl::FieldAccess::same<Run>(tx);
    const Run out     = impl::FieldAccess::same<Run>(ty);
    work.recorder.take_values(nullptr, &in);
    work.recorder.pushforward(space, &out, &tangent);
  }
  /// From dy = dJ/dy at the x of the last apply: adds this rank's part to the gradients of all
  /// parameters that aren't frozen, and sets dx = dJ/dx (unless it is `not_wanted`). Collective
  /// over the mesh. Throws ArgumentError on every rank if there was no apply.
  template <class Space, class DX>
  void pullback(const Space& space, const DX& dx, const Output& dy, const Input& x) const {
    auto& work        = this->template work_of<Space>("pullback");
    const bool wanted = is_wanted_v<DX>;
    Run to;
    if constexpr (is_wanted_v<DX>) to = impl::FieldAccess::same<Run>(dx);
    const Run in   = impl::FieldAccess::same<Run>(x);
    const Run from = impl::FieldAccess::same<Run>(dy);
    work.recorder.take_values(nullptr, &in);
    work.recorder.pullback(space, &to, &wanted, &from);
  }
};

namespace impl {

/// The fields that a model's function returns.
template <class Base, class Y>
struct FieldsOfValues {
  using type = Base;
};
template <class Base, class... Values>
struct FieldsOfValues<Base, std::tuple<Values...>> {
  template <class>
  using one  = Base;
  using type = std::tuple<one<Values>...>;
};

/// The fields of a tuple, or the one field, as an array for the runner.
template <class Run, class Field>
std::array<Run, 1> as_array(const Field& y) {
  return {FieldAccess::same<Run>(y)};
}
template <class Run, class... Fields>
std::array<Run, sizeof...(Fields)> as_array(const std::tuple<Fields...>& y) {
  return std::apply(
      [](const auto&... one) {
        return std::array<Run, sizeof...(Fields)>{FieldAccess::same<Run>(one)...};
      },
      y);
}

}  // namespace impl

/// A model that is a struct (see `model`) on a mesh. It takes as many fields as the struct's
/// function, of any halos, and has one output, or a std::tuple of them. It is an operation for
/// tapes, loops, chains and graphs. Copies share all memory.
template <class T, class Memory, class S, class List, class MeshType, class Axes>
class ShardedModel<T, Memory, StructModule<S, List>, MeshType, Axes>
    : public impl::RecordedModel<T, Memory, StructModule<S, List>, MeshType, Axes> {
  using Recorded = impl::RecordedModel<T, Memory, StructModule<S, List>, MeshType, Axes>;
  using typename Recorded::Base;
  using typename Recorded::Run;
  using Scope =
      impl::ModelScope<typename Recorded::template RecorderFor<typename Memory::execution_space>>;

 public:
  using Recorded::rank;
  /// Number of inputs.
  static constexpr std::size_t inputs = static_cast<std::size_t>(impl::model_inputs<S, Scope>());
  using Input                         = Base;  ///< an input field; fields with halos convert
  /// The output field, without halo, or a std::tuple of such.
  using Output =
      typename impl::FieldsOfValues<Base, decltype(impl::call_model(
                                              std::declval<const S&>(), std::declval<Scope&>(),
                                              std::declval<const std::vector<int>&>(),
                                              std::make_index_sequence<inputs>{}))>::type;

  /// For the library's own use: see domain_parallel.
  template <class Original>
  ShardedModel(const MeshType& mesh, const StructModule<S, List>& root, const Original& model)
      : Recorded(mesh, root, model) {}

  /// A new input field of global extents [batch, channel, space...]. Collective over the mesh.
  Input input(std::string_view label, const Extents<rank>& extents) const {
    return Input(label, this->mesh(), extents);
  }
  /// A new replicated input, which isn't sharded: each rank has its own, the same for equal
  /// samples, such as a lead time or a noise level [batch entries of this rank, 1, 1, 1], or a
  /// vector [.., C, 1, 1]. dx of it is this rank's part of dJ/dx, as gradients of parameters are:
  /// sum it over the mesh. Local.
  Input replicated(std::string_view label, const Extents<rank>& extents) const {
    return Input(label, this->own_mesh(), extents);
  }
  /// A new output for these x. Collective over the mesh.
  template <AnyShardedView... X>
  Output output(const X&... x) const {
    static_assert(sizeof...(X) == inputs, "the model's function has another number of inputs");
    return made(this->outputs_for(x...), static_cast<Output*>(nullptr));
  }
  /// Allocates the memory for fields like x, if needed. Otherwise the first apply does it, and an
  /// apply with other partitions or another type of execution space. Collective over the mesh.
  template <AnyShardedView... X>
  void prepare(const X&... x) const {
    static_assert(sizeof...(X) == inputs, "the model's function has another number of inputs");
    this->template work_for<typename Memory::execution_space>(x...);
  }
  /// y = model(x...). Collective over the mesh.
  template <class Space, AnyShardedView... X>
  void apply(const Space& space, const Output& y, const X&... x) const {
    static_assert(sizeof...(X) == inputs, "the model's function has another number of inputs");
    auto& work     = this->template work_for<Space>(x...);
    const auto to  = impl::as_array<Run>(y);
    const auto all = fields(x...);
    this->apply_to(work, space, to.data(), all.data());
  }
  /// y = model(x...), fields owned by the model: the next call overwrites them.
  template <class Space, AnyShardedView... X>
  const Output& operator()(const Space& space, const X&... x) const {
    auto& work = this->template work_for<Space>(x...);
    if (!work.y) work.y = std::make_shared<Output>(output(x...));
    const Output& y = *static_cast<const Output*>(work.y.get());
    apply(space, y, x...);
    return y;
  }
  /// ty = J (tx...) from (ty, tx..., x...), at the x of the last apply, parameters being constants.
  /// Collective over the mesh. Throws ArgumentError on every rank if there was no apply.
  template <class Space, AnyShardedView... TXAndX>
  void pushforward(const Space& space, const Output& ty, const TXAndX&... tx_and_x) const {
    static_assert(sizeof...(TXAndX) == 2 * inputs, "a tangent and a value for each input");
    auto& work     = this->template work_of<Space>("pushforward");
    const auto to  = impl::as_array<Run>(ty);
    const auto all = fields(tx_and_x...);
    work.recorder.take_values(nullptr, all.data() + inputs);
    work.recorder.pushforward(space, to.data(), all.data());
  }
  /// From (dx..., dy, x...) at the x of the last apply: adds this rank's part to the gradients of
  /// all parameters that aren't frozen, and sets each dx (unless it is `not_wanted`). Collective
  /// over the mesh. Throws ArgumentError on every rank if there was no apply.
  template <class Space, class... DXAndDYAndX>
  void pullback(const Space& space, const DXAndDYAndX&... all) const {
    static_assert(sizeof...(DXAndDYAndX) == 2 * inputs + 1,
                  "an adjoint and a value for each input, and the output's adjoint between them");
    auto& work      = this->template work_of<Space>("pullback");
    const auto args = std::tie(all...);
    std::array<Run, inputs> dx, x;
    bool wanted[inputs];
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((wanted[I] = to_field(dx[I], std::get<I>(args))), ...);
      (to_field(x[I], std::get<inputs + 1 + I>(args)), ...);
    }
    (std::make_index_sequence<inputs>{});
    const Output& given = std::get<inputs>(args);
    const auto dy       = impl::as_array<Run>(given);
    work.recorder.take_values(nullptr, x.data());
    work.recorder.pullback(space, dx.data(), wanted, dy.data());
  }

 private:
  template <class F>
  static bool to_field(Run& to, const F& from) {
    if constexpr (is_wanted_v<F>) {
      static_assert(std::is_same_v<typename F::view_type, typename Base::view_type> &&
                        impl::cut_alike_v<F, Base>,
                    "a model's fields have its value type, rank and memory, aren't const, and are "
                    "sharded over its axes");
      to = impl::FieldAccess::same<Run>(from);
      return true;
    } else {
      return false;
    }
  }
  template <class... F>
  static std::array<Run, sizeof...(F)> fields(const F&... from) {
    std::array<Run, sizeof...(F)> all;
    std::size_t i = 0;
    (to_field(all[i++], from), ...);
    return all;
  }
  template <class Partitions>
  Base made(const std::vector<Partitions>& partitions, const Base*) const {
    return Base("shard::model output", this->mesh(), partitions.front());
  }
  template <class Partitions, class... Outputs>
  std::tuple<Outputs...> made(const std::vector<Partitions>& partitions,
                              const std::tuple<Outputs...>*) const {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::tuple<Outputs...>{Outputs("shard::model output", this->mesh(), partitions[I])...};
    }
    (std::index_sequence_for<Outputs...>{});
  }
};

}  // namespace shard

#endif
