// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_PARAMETER_ARENA_HPP
#define SHARD_MODEL_PARAMETER_ARENA_HPP

#include <Kokkos_Core.hpp>

#include <string>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/view/impl/zeroed_view.hpp"

namespace shard {

/// One array in a ParameterArena.
struct ParameterEntry {
  std::string name;              ///< "<layer>.weight", "<layer>.bias", as in PyTorch's state_dict
  std::vector<index_t> extents;  ///< as in PyTorch
  index_t offset = 0;            ///< in the arena, in values
  bool linear    = false;        ///< see ParameterShape

  /// Number of values.
  index_t count() const {
    index_t n = 1;
    for (index_t e : extents) n *= e;
    return n;
  }
};

/// All parameters of a model, or all gradients, in one allocation: one sum over ranks, one
/// optimiser kernel, one copy to a file. Layers' Parameters are Views into it. Every rank has all
/// of them.
template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
class ParameterArena {
 public:
  ParameterArena() = default;
  /// Allocates `count` values (the sum of the layers' parameter_count), set to zero. Local.
  ParameterArena(const std::string& label, index_t count)
      : values_(impl::zeroed_view<Array>(label,
                                         Kokkos::LayoutRight(static_cast<std::size_t>(count)))) {}
  /// A new arena with the same arrays, set to zero. Local.
  ParameterArena like(const std::string& label) const {
    ParameterArena made(label, static_cast<index_t>(values_.extent(0)));
    made.entries_ = entries_;
    made.used_    = used_;
    return made;
  }

  /// The parameters of the next layer. Throws ArgumentError if the arena is full.
  template <class Layer>
  auto take(const std::string& name, const Layer& layer) {
    return wrap_parameters<T, Memory>(layer, take_arrays(name, layer.parameter_shapes()).data());
  }
  /// Consecutive arrays of these shapes, for float and double. Throws ArgumentError if the arena is
  /// full.
  Kokkos::View<T*, Kokkos::LayoutRight, Memory> take_arrays(
      const std::string& name, const std::vector<ParameterShape>& shapes);

  /// All values.
  const Kokkos::View<T*, Kokkos::LayoutRight, Memory>& values() const { return values_; }
  /// Names, extents and places of all arrays taken so far.
  const std::vector<ParameterEntry>& entries() const { return entries_; }

 private:
  using Array = Kokkos::View<T*, Kokkos::LayoutRight, Memory>;
  Array values_;
  std::vector<ParameterEntry> entries_;
  index_t used_ = 0;
};

}  // namespace shard

#endif
