// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A network that corrects a state, as an operation. It changes the depth by the divergence of a
// flux, so mass is conserved whatever its weights are.
#ifndef SHARD_EXAMPLES_HYBRID_CORRECTION_HPP
#define SHARD_EXAMPLES_HYBRID_CORRECTION_HPP

#include <shard/model/domain_parallel.hpp>
#include <shard/model/sequential.hpp>

#include <cstdint>
#include <utility>

#include "core_kernels.hpp"

namespace hybrid {

/// Three convolutions. Input: depth, both velocities, sine and cosine of latitude. Output: changes
/// of both velocities, and fluxes towards the east and the north.
inline auto network(index_t width) {
  using Window = shard::Conv<shard::Kernel<3, 3>, shard::Padding<1, 1>,
                             shard::PaddingMode<shard::Clamp, shard::Periodic>>;
  return shard::sequential<double>(shard::named<"first">(Window{5, width}), shard::SiLU{},
                                   shard::named<"second">(Window{width, width}), shard::SiLU{},
                                   shard::named<"last">(Window{width, 4}));
}
using Network = decltype(network(1));
using Net     = decltype(shard::domain_parallel<Lat, Lon>(std::declval<const Network&>(),
                                                      std::declval<const Mesh&>()));
using Input   = Net::Input;
using Output  = Net::Output;

constexpr double mean_depth = 9500, depth_unit = 1000, wind_unit = 40;  // of the input
constexpr double flux_unit = 1, change_unit = 0.05;                     // of the output

/// The network's input. Velocities are those of the cell's western and southern edge.
struct ToNetworkKernel {
  Metric m;
  Centres<double> h;
  Wests<double> u;
  Souths<double> v;
  Input in;
  bool tangent;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    const double angle = (static_cast<double>(h.to_global(0, j)) + 0.5) * m.step;
    in(0, 0, j, i)     = (h(j, i) - (tangent ? 0 : mean_depth)) / depth_unit;
    in(0, 1, j, i)     = u(j, i) / wind_unit;
    in(0, 2, j, i)     = v(j, i) / wind_unit;
    in(0, 3, j, i)     = tangent ? 0 : -Kokkos::cos(angle);
    in(0, 4, j, i)     = tangent ? 0 : Kokkos::sin(angle);
  }
};
/// Its adjoint, added to that of the state. The southern edges of a rank's cells are its own.
struct ToNetworkAdjoint {
  Centres<double> a_h;
  Wests<double> a_u;
  Souths<double> a_v;
  Input a_in;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    a_h(j, i) += a_in(0, 0, j, i) / depth_unit;
    a_u(j, i) += a_in(0, 1, j, i) / wind_unit;
    a_v(j, i) += a_in(0, 2, j, i) / wind_unit;
  }
};

/// The changes that the network makes, smaller towards the poles. Nothing goes through a pole.
struct FromNetworkKernel {
  Metric m;
  Output out;
  Centres<double> like;
  Wests<double> u, east;
  Souths<double> v, north;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    const double c = m.cos_centre(like, j), edge = m.cos_edge(like, j);
    u(j, i)     = change_unit * c * out(0, 0, j, i);
    v(j, i)     = change_unit * edge * out(0, 1, j, i);
    east(j, i)  = flux_unit * c * c * out(0, 2, j, i);
    north(j, i) = flux_unit * edge * edge * out(0, 3, j, i);
  }
};
struct FromNetworkAdjoint {
  Metric m;
  Output a_out;
  Centres<double> like;
  Wests<double> a_u, a_east;
  Souths<double> a_v, a_north;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    const double c = m.cos_centre(like, j), edge = m.cos_edge(like, j);
    a_out(0, 0, j, i) = change_unit * c * a_u(j, i);
    a_out(0, 1, j, i) = change_unit * edge * a_v(j, i);
    a_out(0, 2, j, i) = flux_unit * c * c * a_east(j, i);
    a_out(0, 3, j, i) = flux_unit * edge * edge * a_north(j, i);
  }
};
/// The change of depth: what flows into a cell, over its width.
struct InflowKernel {
  Metric m;
  Wests<double> east;
  Souths<double> north;
  Centres<double> h;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    h(j, i) = (east(j, i) - east(j, i + 1) + north(j, i) - north(j + 1, i)) / m.cos_centre(h, j);
  }
};
struct InflowAdjoint {
  Metric m;
  Wests<double> a_east;
  Souths<double> a_north;
  Centres<double> a_h;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    const double d = a_h(j, i) / m.cos_centre(a_h, j);
    add(a_east, j, i, d);
    add(a_east, j, i + 1, -d);
    add(a_north, j, i, d);
    add(a_north, j + 1, i, -d);
  }
};

/// y = x + what the network says. Copies share their memory.
class Correction {
 public:
  static constexpr bool remembers = true;  ///< the network's activations
  std::uint64_t applied() const { return net_.applied(); }
  bool has_parameters() const { return true; }

  Correction(const Grid& grid, index_t width)
      : grid_(grid),
        m_(grid.rows),
        model_(network(width)),
        net_(shard::domain_parallel<Lat, Lon>(model_, grid.mesh)),
        in_("network input", grid.mesh,
            {shard::Partition::whole(1), shard::Partition::whole(5), grid.lat, grid.lon}),
        out_(net_.output(in_)) {}

  /// Random weights; the last layer's are zero if the correction is to begin at zero.
  void initialise(const Space& space, std::uint64_t seed, bool zero) const {
    Network model = model_;
    model.initialise(space, seed);
    if (!zero) return;
    Kokkos::deep_copy(space, net_.get<"last">().weight(), 0.0);
    Kokkos::deep_copy(space, net_.get<"last">().bias(), 0.0);
  }

  void apply(const Space& space, const State<>& y, const State<>& x) const {
    to_network(space, in_, x, false);
    net_.apply(space, out_, in_);
    change(space, out_);
    combine(space, y, 1, x, 1, change_);
  }
  void pushforward(const Space& space, const State<>& ty, const State<>& tx, const State<>&) const {
    const Input t_in   = in_.like("tangent of the input");
    const Output t_out = out_.like("tangent of the output");
    to_network(space, t_in, tx, true);
    net_.pushforward(space, t_out, t_in, in_);
    change(space, t_out);
    combine(space, ty, 1, tx, 1, change_);
  }
  void pullback(const Space& space, const State<>& dx, const State<>& dy) const {
    const auto& [a_h, a_u, a_v] = dy;
    const auto& [h, u, v]       = dx;
    shard::deep_copy(space, a_east_, 0.0);
    shard::deep_copy(space, a_north_, 0.0);
    run(space, "inflow", InflowAdjoint{m_, a_east_, a_north_, a_h});
    shard::exchange_adjoint(space, a_east_, a_north_);
    run(space, "from network", FromNetworkAdjoint{m_, a_out_, a_h, a_u, a_east_, a_v, a_north_});
    net_.pullback(space, a_in_, a_out_, in_);
    combine(space, dx, 1, dy, 0, dy);
    run(space, "to network", ToNetworkAdjoint{h, u, v, a_in_});
  }

  const Net& net() const { return net_; }

 private:
  template <class Kernel>
  void run(const Space& space, const char* label, const Kernel& kernel) const {
    shard::parallel_for(label, space, shard::owned_region(std::get<0>(change_)), kernel);
  }
  void to_network(const Space& space, const Input& in, const State<>& x, bool tangent) const {
    const auto& [h, u, v] = x;
    run(space, "to network", ToNetworkKernel{m_, h, u, v, in, tangent});
  }
  void change(const Space& space, const Output& out) const {
    const auto& [h, u, v] = change_;
    run(space, "from network", FromNetworkKernel{m_, out, h, u, east_, v, north_});
    shard::exchange(space, east_, north_);
    run(space, "inflow", InflowKernel{m_, east_, north_, h});
  }

  Grid grid_;
  Metric m_;
  Network model_;
  Net net_;
  Input in_, a_in_    = in_.like("its adjoint");
  Output out_, a_out_ = out_.like("its adjoint");
  State<> change_ = grid_.state();
  // the row at the north pole is never written: nothing flows there
  Wests<double> east_     = grid_.cells<Wests<double>>("flux to the east"),
                a_east_   = east_.like("its adjoint");
  Souths<double> north_   = grid_.staggered<Souths<double>>("flux to the north"),
                 a_north_ = north_.like("its adjoint");
};

}  // namespace hybrid

#endif
