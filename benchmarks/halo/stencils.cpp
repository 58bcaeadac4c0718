// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The gradient of a 7-point stencil's input, as it comes on one mesh and ordered.
#include <memory>
#include <string>

#include "shard/layers/window/stencil.hpp"
#include "subject.hpp"

namespace halo {

namespace {

template <int D, int Cut>
using StarDim = shard::ShardDim<D, std::conditional_t<D == Cut, First, shard::Unsharded>,
                                shard::Halo<1>, shard::Periodic>;

/// Periodic in all dimensions, of which one is cut. dy is what is touched between two calls.
template <class T, class Layout, int Cut>
class StencilSubject : public Subject {
  using Mesh  = shard::Mesh<First>;
  using Field = shard::ShardedView<T***, Layout, StarDim<0, Cut>, StarDim<1, Cut>, StarDim<2, Cut>,
                                   Kokkos::HostSpace>;

 public:
  StencilSubject(MPI_Comm comm, int ranks, const std::array<index_t, 3>& extents)
      : mesh_(comm, {ranks}) {
    const shard::Extents<3> all{extents[0], extents[1], extents[2]};
    const auto dx = shard::shared_field<Field>("dx", mesh_, all),
               dy = shard::shared_field<Field>("dy", mesh_, all);
    Kokkos::deep_copy(dy.view(), T(1));
    problem_.comm        = dy.communicator();
    problem_.value_bytes = sizeof(T);
    problem_.origins     = {reinterpret_cast<std::byte*>(dy.origin())};
    int rank             = 0;
    MPI_Comm_rank(comm, &rank);
    for (int d = 0; d < 3; ++d) {
      const auto i           = static_cast<std::size_t>(d);
      problem_.extent[i]     = dy.extent(d);
      problem_.begin[i]      = dy.begin(d);
      problem_.global[i]     = dy.global_extent(d);
      problem_.width[i]      = 1;
      problem_.stride[i]     = dy.stride(d);
      problem_.neighbours[i] = {rank, rank};
    }
    problem_.neighbours[Cut] = {mesh_.template periodic_neighbour<First>(-1),
                                mesh_.template periodic_neighbour<First>(1)};
    const Kokkos::DefaultHostExecutionSpace space;
    const shard::StarStencil<3> laplace{{-6.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0}};
    const auto add_way = [&](const char* name, const auto& call) {
      ways_.push_back({name, Direction::forward, call, {}, {}, false});
    };
    add_way("shard_pullback", [=] { laplace.pullback(space, dx, dy); });
    add_way("shard_ordered_pullback",
            [=] { laplace.template pullback<shard::Determinism::ordered>(space, dx, dy); });
  }

 private:
  Mesh mesh_;
};

template <class T, class Layout, int Cut>
void add_stencil(std::vector<Case>& cases, const std::array<index_t, 3>& extents, int ranks) {
  std::string name;
  for (const index_t n : extents) name += (name.empty() ? "" : "x") + std::to_string(n);
  name += std::string("/") + layout_name<Layout> + (sizeof(T) == 4 ? "/float" : "/double") +
          "/w1/f1/cut" + std::to_string(Cut) + "/star";
  cases.push_back({name,
                   [=](MPI_Comm comm, const std::string&) -> std::unique_ptr<Subject> {
                     return std::make_unique<StencilSubject<T, Layout, Cut>>(comm, ranks, extents);
                   },
                   true});
}

}  // namespace

void add_stencils(std::vector<Case>& cases, int ranks) {
  const std::array<index_t, 3> columns{256, 256, 64}, cube{128, 128, 128};
  add_stencil<double, Right, 0>(cases, columns, ranks);
  add_stencil<double, Right, 1>(cases, columns, ranks);
  add_stencil<double, Left, 1>(cases, columns, ranks);
  add_stencil<double, Right, 0>(cases, cube, ranks);
  add_stencil<double, Right, 2>(cases, cube, ranks);
  add_stencil<float, Right, 1>(cases, cube, ranks);
}

}  // namespace halo
