// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shallow water in vector-invariant form, discretised as in ../shallow_water/latlon_model.hpp: each
// kernel, then its adjoint. A kernel reads its neighbours' values, so its adjoint adds to theirs,
// in the halo too, from where exchange_adjoint brings them to their owners. In an adjoint, `a_x` is
// the derivative of the result by x.
#ifndef SHARD_EXAMPLES_HYBRID_CORE_KERNELS_HPP
#define SHARD_EXAMPLES_HYBRID_CORE_KERNELS_HPP

#include "sphere.hpp"

namespace hybrid {

/// Adds to a point that other threads may add to.
template <class F>
KOKKOS_FUNCTION void add(const F& f, int j, int i, double value) {
  Kokkos::atomic_add(&f(j, i), value);
}

/// The mass flux h u.
template <class T>
struct EastFlux {
  Centres<T> h;
  Wests<T> u, flux;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    flux(j, i) = 0.5 * (h(j, i - 1) + h(j, i)) * u(j, i);
  }
};
struct EastFluxAdjoint {
  Centres<double> h, a_h;
  Wests<double> u, a_u, a_flux;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    const double d = 0.5 * a_flux(j, i);
    add(a_u, j, i, d * (h(j, i - 1) + h(j, i)));
    add(a_h, j, i - 1, d * u(j, i));
    add(a_h, j, i, d * u(j, i));
  }
};

/// The mass flux h v cos(latitude).
template <class T>
struct NorthFlux {
  Metric m;
  Centres<T> h;
  Souths<T> v, flux;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    flux(j, i) = 0.5 * m.cos_edge(v, j) * (h(j - 1, i) + h(j, i)) * v(j, i);
  }
};
struct NorthFluxAdjoint {
  Metric m;
  Centres<double> h, a_h;
  Souths<double> v, a_v, a_flux;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    const double d = 0.5 * m.cos_edge(v, j) * a_flux(j, i);
    add(a_v, j, i, d * (h(j - 1, i) + h(j, i)));
    add(a_h, j - 1, i, d * v(j, i));
    add(a_h, j, i, d * v(j, i));
  }
};

/// Potential vorticity: (f + curl of the velocity) / h.
template <class T>
struct Vorticity {
  Metric m;
  Centres<T> h;
  Wests<T> u;
  Souths<T> v;
  Corners<T> q;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    if (!m.inside(q, j)) return;  // see PoleMean
    const double north = m.cos_centre(q, j), south = m.cos_centre(q, j - 1);
    const T curl = (v(j, i) - v(j, i - 1) - north * u(j, i) + south * u(j - 1, i)) /
                   (radius * m.cos_edge(q, j) * m.step);
    const T depth = 0.25 * (h(j, i) + h(j, i - 1) + h(j - 1, i) + h(j - 1, i - 1));
    q(j, i)       = (m.coriolis(q.to_global(0, j)) + curl) / depth;
  }
};
struct VorticityAdjoint {
  Metric m;
  Centres<double> h, a_h;
  Wests<double> a_u;
  Souths<double> a_v;
  Corners<double> q, a_q;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    if (!m.inside(q, j)) return;
    const double depth = 0.25 * (h(j, i) + h(j, i - 1) + h(j - 1, i) + h(j - 1, i - 1));
    const double d     = a_q(j, i) / depth;
    const double curl  = d / (radius * m.cos_edge(q, j) * m.step);
    add(a_v, j, i, curl);
    add(a_v, j, i - 1, -curl);
    add(a_u, j, i, -curl * m.cos_centre(q, j));
    add(a_u, j - 1, i, curl * m.cos_centre(q, j - 1));
    for (int y = j - 1; y <= j; ++y)
      for (int x = i - 1; x <= i; ++x) add(a_h, y, x, -0.25 * d * q(j, i));
  }
};

/// The potential vorticity at a pole is the mean of the two values across it.
template <class T>
struct PoleMean {
  Metric m;
  Corners<T> q;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    if (!m.inside(q, j)) q(j, i) = 0.5 * (q(j - 1, i) + q(j + 1, i));
  }
};
struct PoleMeanAdjoint {
  Metric m;
  Corners<double> a_q;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    if (m.inside(a_q, j)) return;
    add(a_q, j - 1, i, 0.5 * a_q(j, i));
    add(a_q, j + 1, i, 0.5 * a_q(j, i));
    a_q(j, i) = 0;
  }
};

/// Bernoulli's function: g h + kinetic energy.
template <class T>
struct Bernoulli {
  Metric m;
  Centres<T> h;
  Wests<T> u;
  Souths<T> v;
  Centres<T> b;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    const T x = u(j, i) * u(j, i) + u(j, i + 1) * u(j, i + 1);
    const T y =
        m.cos_edge(h, j) * v(j, i) * v(j, i) + m.cos_edge(h, j + 1) * v(j + 1, i) * v(j + 1, i);
    b(j, i) = gravity * h(j, i) + 0.25 * (x + y / m.cos_centre(h, j));
  }
};
struct BernoulliAdjoint {
  Metric m;
  Wests<double> u, a_u;
  Souths<double> v, a_v;
  Centres<double> a_h, a_b;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    const double d = 0.5 * a_b(j, i), e = d / m.cos_centre(a_b, j);
    add(a_h, j, i, gravity * a_b(j, i));
    add(a_u, j, i, d * u(j, i));
    add(a_u, j, i + 1, d * u(j, i + 1));
    add(a_v, j, i, e * m.cos_edge(a_b, j) * v(j, i));
    add(a_v, j + 1, i, e * m.cos_edge(a_b, j + 1) * v(j + 1, i));
  }
};

/// dh/dt = - div(h u)
template <class T>
struct Continuity {
  Metric m;
  Wests<T> east;
  Souths<T> north;
  Centres<T> dh;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    dh(j, i) = (east(j, i) - east(j, i + 1) + north(j, i) - north(j + 1, i)) /
               (radius * m.cos_centre(dh, j) * m.step);
  }
};
struct ContinuityAdjoint {
  Metric m;
  Wests<double> a_east;
  Souths<double> a_north;
  Centres<double> a_dh;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    const double d = a_dh(j, i) / (radius * m.cos_centre(a_dh, j) * m.step);
    add(a_east, j, i, d);
    add(a_east, j, i + 1, -d);
    add(a_north, j, i, d);
    add(a_north, j + 1, i, -d);
  }
};

/// du/dt = q h v - dB/dx. A flux beside an edge is multiplied by the mean potential vorticity of
/// three corners: the two of the edge and the one that the flux is on.
template <class T>
struct EastMomentum {
  Metric m;
  Corners<T> q;
  Souths<T> north;
  Centres<T> b;
  Wests<T> du;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    const T both   = q(j, i) + q(j + 1, i);
    const T turned = (both + q(j, i - 1)) * north(j, i - 1) + (both + q(j, i + 1)) * north(j, i) +
                     (both + q(j + 1, i - 1)) * north(j + 1, i - 1) +
                     (both + q(j + 1, i + 1)) * north(j + 1, i);
    du(j, i) = (turned / 12.0 - (b(j, i) - b(j, i - 1)) / (radius * m.step)) / m.cos_centre(du, j);
  }
};
struct EastMomentumAdjoint {
  Metric m;
  Corners<double> q, a_q;
  Souths<double> north, a_north;
  Centres<double> a_b;
  Wests<double> a_du;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    const double d = a_du(j, i) / m.cos_centre(a_du, j), t = d / 12;
    const double both = q(j, i) + q(j + 1, i);
    double flux       = 0;
    for (int y = j; y <= j + 1; ++y)
      for (int x = i - 1; x <= i; ++x) {
        const int corner = x < i ? i - 1 : i + 1;
        flux += north(y, x);
        add(a_q, y, corner, t * north(y, x));
        add(a_north, y, x, t * (both + q(y, corner)));
      }
    add(a_q, j, i, t * flux);
    add(a_q, j + 1, i, t * flux);
    add(a_b, j, i, -d / (radius * m.step));
    add(a_b, j, i - 1, d / (radius * m.step));
  }
};

/// dv/dt = - q h u - dB/dy
template <class T>
struct NorthMomentum {
  Metric m;
  Corners<T> q;
  Wests<T> east;
  Centres<T> b;
  Souths<T> dv;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    if (!m.inside(dv, j)) return;
    const T both   = q(j, i) + q(j, i + 1);
    const T turned = (both + q(j - 1, i)) * east(j - 1, i) +
                     (both + q(j - 1, i + 1)) * east(j - 1, i + 1) +
                     (both + q(j + 1, i)) * east(j, i) + (both + q(j + 1, i + 1)) * east(j, i + 1);
    dv(j, i) = (b(j - 1, i) - b(j, i)) / (radius * m.step) - turned / 12.0;
  }
};
struct NorthMomentumAdjoint {
  Metric m;
  Corners<double> q, a_q;
  Wests<double> east, a_east;
  Centres<double> a_b;
  Souths<double> a_dv;
  KOKKOS_FUNCTION void operator()(int j, int i) const {
    if (!m.inside(a_dv, j)) return;
    const double t = -a_dv(j, i) / 12, slope = a_dv(j, i) / (radius * m.step);
    const double both = q(j, i) + q(j, i + 1);
    double flux       = 0;
    for (int y = j - 1; y <= j; ++y)
      for (int x = i; x <= i + 1; ++x) {
        const int corner = y < j ? j - 1 : j + 1;
        flux += east(y, x);
        add(a_q, corner, x, t * east(y, x));
        add(a_east, y, x, t * (both + q(corner, x)));
      }
    add(a_q, j, i, t * flux);
    add(a_q, j, i + 1, t * flux);
    add(a_b, j - 1, i, slope);
    add(a_b, j, i, -slope);
  }
};

}  // namespace hybrid

#endif
