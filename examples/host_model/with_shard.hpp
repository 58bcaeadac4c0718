// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The model with shard, one step after the other. Steps 1 to 3 replace a function each; step 4 adds
// a network to the time loop. The arrays are the model's, wrapped where they are.
#ifndef HOST_MODEL_WITH_SHARD_HPP
#define HOST_MODEL_WITH_SHARD_HPP

#include <shard/io/safetensors.hpp>
#include <shard/model/domain_parallel.hpp>
#include <shard/model/sequential.hpp>
#include <shard/shard.hpp>

#include <array>
#include <string>
#include <utility>

#include "model.hpp"

struct X;  // the mesh axis that shards columns

/// Step 1: the ghost cells at the sides by a plan.
class WithHalos : public host::Model {
  using AllVariables =
      shard::ShardedView<double***, Kokkos::LayoutRight, Kokkos::HostSpace,
                         shard::ShardDim<1, shard::Unsharded, shard::Halo<2>, shard::Given>,
                         shard::ShardDim<2, X, shard::Halo<2>, shard::Periodic>>;

 public:
  WithHalos(MPI_Comm comm, int columns, int levels)
      : Model(comm, columns, levels),
        ranks_(comm, {0}),
        columns_(shard::partition_from_counts<X>(ranks_, grid_.nx)),
        levels_(shard::Partition::whole(levels)),
        all_(ranks_, state_, {shard::Partition::whole(host::variables), levels_, columns_}),
        sides_(shard::Exchange(all_).only<X>()) {}

 protected:
  void fill_x(const host::State& q) override { sides_(host::Space(), rebind(all_, q)); }

  shard::Mesh<X> ranks_;
  shard::Partition columns_, levels_;

 private:
  AllVariables all_;
  shard::Exchange<AllVariables> sides_;
};

/// Step 2: ground and lid as the boundaries of the variables, each a part of the state.
inline auto slice(const host::State& q, int variable) {
  return Kokkos::subview(q, variable, Kokkos::ALL, Kokkos::ALL);
}

/// Momentum along the ground or the lid: the velocity is that of the edge, the density changes.
struct Balanced {
  host::Profile rho;
  template <class Field>
  KOKKOS_FUNCTION double operator()(const Field& m, const shard::OutsidePoint<2>& at) const {
    const int edge = at.high ? static_cast<int>(m.extent(0)) - 1 : 0;
    return m(edge, at.index[1]) / rho(edge + host::ghosts) * rho(at.index[0] + host::ghosts);
  }
};
template <class Boundary>
using OneVariable =
    shard::ShardedView<double**, Kokkos::LayoutRight, Kokkos::HostSpace,
                       shard::ShardDim<0, shard::Unsharded, shard::Halo<2>, Boundary>,
                       shard::ShardDim<1, X, shard::Halo<2>, shard::Periodic>>;
using Even  = OneVariable<shard::Symmetric>;
using Along = OneVariable<shard::Custom<Balanced>>;
/// Momentum through the ground: the wind follows its slope.
struct Ground {
  Along momentum_x;
  host::Profile slope;
  template <class Field>
  KOKKOS_FUNCTION double operator()(const Field&, const shard::OutsidePoint<2>& at) const {
    return momentum_x(0, at.index[1]) * slope(at.index[1] + host::ghosts);
  }
};
using Through = OneVariable<shard::Sides<shard::Custom<Ground>, shard::Odd<shard::Symmetric>>>;

class WithWalls : public WithHalos {
 public:
  WithWalls(MPI_Comm comm, int columns, int levels)
      : WithHalos(comm, columns, levels),
        rho_(ranks_, slice(state_, host::density), {levels_, columns_}),
        along_(ranks_, slice(state_, host::momentum_x), {levels_, columns_}),
        through_(ranks_, slice(state_, host::momentum_z), {levels_, columns_}),
        walls_(shard::Exchange(rho_, along_, through_, rho_).only<shard::Unsharded>()) {}

 protected:
  void fill_z(const host::State& q) override {
    const Along along = rebind(along_, slice(q, host::momentum_x));
    walls_.with(Balanced{at_rest_.density}, Ground{along, at_rest_.slope})(
        host::Space(), rebind(rho_, slice(q, host::density)), along,
        rebind(through_, slice(q, host::momentum_z)), rebind(rho_, slice(q, host::density_theta)));
  }

  Even rho_;

 private:
  Along along_;
  Through through_;
  shard::Exchange<Even, Along, Through, Even> walls_;
};

/// Step 3: the integrals. Exact sums, so that they don't depend on the number of ranks.
class WithIntegrals : public WithWalls {
 public:
  using WithWalls::WithWalls;
  std::array<double, 2> totals() const override {
    return shard::reduce<shard::Determinism::ordered>(host::Space(), rho_,
                                                      host::CellTotals{state_, at_rest_});
  }
};

/// Step 4: a network in the time loop. It sees values of about one, and changes such values.
struct Scales {
  double of[host::variables] = {0.01, 10, 1, 1};
};
template <class Input>
struct ToNetworkKernel {
  host::State q;
  Input input;
  Scales scales;
  KOKKOS_FUNCTION void operator()(int n, int v, int k, int i) const {
    input(n, v, k, i) = q(v, k + host::ghosts, i + host::ghosts) / scales.of[v];
  }
};
template <class Output>
struct FromNetworkKernel {
  Output output;
  host::State q;
  Scales scales;
  double dt;
  KOKKOS_FUNCTION void operator()(int n, int v, int k, int i) const {
    q(v, k + host::ghosts, i + host::ghosts) += dt * scales.of[v] * output(n, v, k, i);
  }
};

/// The network, as in PyTorch: its weights are in network.safetensors.
inline auto network() {
  using Window = shard::Conv<shard::Kernel<3, 3>, shard::Padding<1, 1>,
                             shard::PaddingMode<shard::Clamp, shard::Periodic>>;
  return shard::sequential<double, Kokkos::HostSpace>(Window{4, 8}, shard::Tanh{},
                                                      shard::Conv<shard::Kernel<1, 1>>{8, 4});
}

class WithNetwork : public WithIntegrals {
  using Network = decltype(shard::domain_parallel<shard::Unsharded, X>(
      network(), std::declval<const shard::Mesh<X>&>()));

 public:
  WithNetwork(MPI_Comm comm, int columns, int levels, const std::string& weights)
      : WithIntegrals(comm, columns, levels),
        network_(shard::domain_parallel<shard::Unsharded, X>(network(), ranks_)),
        input_("input", ranks_,
               {shard::Partition::whole(1), shard::Partition::whole(host::variables), levels_,
                columns_}) {
    shard::load_safetensors(weights, network_.parameters(), comm);
  }

 protected:
  void physics(const host::State& q) override {
    const host::Space space;
    shard::parallel_for("to network", space, shard::owned_region(input_),
                        ToNetworkKernel<typename Network::Input>{q, input_, {}},
                        shard::writes(input_));
    const auto& output = network_(space, input_);
    shard::parallel_for("from network", space, shard::owned_region(output),
                        FromNetworkKernel<typename Network::Output>{output, q, {}, grid_.dt});
  }

 private:
  Network network_;
  typename Network::Input input_;
};

#endif
