// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/model/parameter_arena.hpp"

namespace shard {

template <class T, class Memory>
Kokkos::View<T*, Kokkos::LayoutRight, Memory> ParameterArena<T, Memory>::take_arrays(
    const std::string& name, const std::vector<ParameterShape>& shapes) {
  const index_t first = used_, room = static_cast<index_t>(values_.extent(0)) - first;
  index_t count = 0;
  for (const ParameterShape& shape : shapes) count += shape.count();
  if (count > room)
    impl::throw_argument("ParameterArena::take",
                         {"layer \"", name, "\" has ", impl::text(count),
                          " parameters, there is room for ", impl::text(room)});
  for (const ParameterShape& shape : shapes) {
    entries_.push_back({name + "." + shape.name, shape.extents, used_, shape.linear});
    used_ += shape.count();
  }
  return Kokkos::subview(values_, std::pair<index_t, index_t>(first, used_));
}

template Kokkos::View<float*, Kokkos::LayoutRight, Kokkos::DefaultExecutionSpace::memory_space>
ParameterArena<float, Kokkos::DefaultExecutionSpace::memory_space>::take_arrays(
    const std::string&, const std::vector<ParameterShape>&);
template Kokkos::View<double*, Kokkos::LayoutRight, Kokkos::DefaultExecutionSpace::memory_space>
ParameterArena<double, Kokkos::DefaultExecutionSpace::memory_space>::take_arrays(
    const std::string&, const std::vector<ParameterShape>&);
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template Kokkos::View<float*, Kokkos::LayoutRight, Kokkos::DefaultHostExecutionSpace::memory_space>
ParameterArena<float, Kokkos::DefaultHostExecutionSpace::memory_space>::take_arrays(
    const std::string&, const std::vector<ParameterShape>&);
template Kokkos::View<double*, Kokkos::LayoutRight, Kokkos::DefaultHostExecutionSpace::memory_space>
ParameterArena<double, Kokkos::DefaultHostExecutionSpace::memory_space>::take_arrays(
    const std::string&, const std::vector<ParameterShape>&);
#endif

}  // namespace shard
