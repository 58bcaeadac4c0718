// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/view/impl/zeroed_view.hpp"

namespace shard::impl {

template <class View>
View usual_view(const std::string& label, const Kokkos::LayoutRight& layout) {
  return View(Kokkos::view_alloc(label), layout);
}

template Kokkos::View<float*, Kokkos::LayoutRight, Kokkos::DefaultExecutionSpace::memory_space>
usual_view<Kokkos::View<float*, Kokkos::LayoutRight, Kokkos::DefaultExecutionSpace::memory_space>>(
    const std::string&, const Kokkos::LayoutRight&);
template Kokkos::View<float*, Kokkos::LayoutRight>
usual_view<Kokkos::View<float*, Kokkos::LayoutRight>>(const std::string&,
                                                      const Kokkos::LayoutRight&);
template Kokkos::View<float**, Kokkos::LayoutRight>
usual_view<Kokkos::View<float**, Kokkos::LayoutRight>>(const std::string&,
                                                       const Kokkos::LayoutRight&);
template Kokkos::View<float***, Kokkos::LayoutRight>
usual_view<Kokkos::View<float***, Kokkos::LayoutRight>>(const std::string&,
                                                        const Kokkos::LayoutRight&);
template Kokkos::View<float****, Kokkos::LayoutRight>
usual_view<Kokkos::View<float****, Kokkos::LayoutRight>>(const std::string&,
                                                         const Kokkos::LayoutRight&);
template Kokkos::View<float*****, Kokkos::LayoutRight>
usual_view<Kokkos::View<float*****, Kokkos::LayoutRight>>(const std::string&,
                                                          const Kokkos::LayoutRight&);
template Kokkos::View<double*, Kokkos::LayoutRight, Kokkos::DefaultExecutionSpace::memory_space>
usual_view<Kokkos::View<double*, Kokkos::LayoutRight, Kokkos::DefaultExecutionSpace::memory_space>>(
    const std::string&, const Kokkos::LayoutRight&);
template Kokkos::View<double*, Kokkos::LayoutRight>
usual_view<Kokkos::View<double*, Kokkos::LayoutRight>>(const std::string&,
                                                       const Kokkos::LayoutRight&);
template Kokkos::View<double**, Kokkos::LayoutRight>
usual_view<Kokkos::View<double**, Kokkos::LayoutRight>>(const std::string&,
                                                        const Kokkos::LayoutRight&);
template Kokkos::View<double***, Kokkos::LayoutRight>
usual_view<Kokkos::View<double***, Kokkos::LayoutRight>>(const std::string&,
                                                         const Kokkos::LayoutRight&);
template Kokkos::View<double****, Kokkos::LayoutRight>
usual_view<Kokkos::View<double****, Kokkos::LayoutRight>>(const std::string&,
                                                          const Kokkos::LayoutRight&);
template Kokkos::View<double*****, Kokkos::LayoutRight>
usual_view<Kokkos::View<double*****, Kokkos::LayoutRight>>(const std::string&,
                                                           const Kokkos::LayoutRight&);

}  // namespace shard::impl
