// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transport of a tracer on a cubed sphere by finite volumes, in blocks of its six tiles: upwind
// values of third order with Koren's limiter (1993) along each direction, and the three stages of
// Shu and Osher (1988). Winds come from a stream function at the corners of cells, so they have no
// divergence and a constant stays one.
#ifndef SHARD_EXAMPLES_SHALLOW_WATER_CUBED_SPHERE_MODEL_HPP
#define SHARD_EXAMPLES_SHALLOW_WATER_CUBED_SPHERE_MODEL_HPP

#include <shard/shard.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

struct Ranks;
struct Sphere;

using Space = Kokkos::DefaultExecutionSpace;
using shard::index_t;
/// field(block, y, x)
using Tracer =
    shard::ShardedView<double***, Kokkos::LayoutRight,
                       shard::ShardDim<0, Ranks, shard::Blocks<Sphere>>,
                       shard::ShardDim<1, shard::Unsharded, shard::Halo<2>, shard::LinkedY>,
                       shard::ShardDim<2, shard::Unsharded, shard::Halo<2>, shard::LinkedX>>;
using Point = std::array<double, 3>;
/// Points of the unit sphere on the device.
using Corners = Kokkos::View<double*** [3], Space::memory_space>;

constexpr double pi = 3.14159265358979323846, period = 12;  // days

inline double dot(const Point& a, const Point& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}
inline Point cross(const Point& a, const Point& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
/// The area of a triangle on the unit sphere (Van Oosterom and Strackee 1983).
inline double triangle(const Point& a, const Point& b, const Point& c) {
  return 2 * std::atan2(dot(a, cross(b, c)), 1 + dot(a, b) + dot(b, c) + dot(c, a));
}

/// Stream functions on the unit sphere, per day. Solid rotation at 45 degrees to the earth's axis
/// (Williamson et al. 1992, case 1), or the deformational flow of Nair and Lauritzen 2010 (J.
/// Comput. Phys. 229, 8868-8887), case 4: it deforms the tracer, is carried eastwards, and brings
/// all back after a period.
struct Wind {
  bool deforms;
  double time = 0;
  KOKKOS_FUNCTION double operator()(double x, double y, double z) const {
    if (!deforms) return -2 * pi / period * (z - x) * Kokkos::sqrt(0.5);
    const double turned = 2 * pi * time / period;
    const double east   = y * Kokkos::cos(turned) - x * Kokkos::sin(turned);  // cos(lat) sin(lon')
    return 10 / period * east * east * Kokkos::cos(pi * time / period) - 2 * pi / period * z;
  }
};

/// The volumes through the faces of cells: differences of the stream function, at faces that the
/// block owns.
struct WindKernel {
  Wind stream;
  Corners corner;
  Tracer owners, out;  // 0 where another block owns the face
  bool along_x;
  KOKKOS_FUNCTION double at(int n, int j, int i) const {
    return stream(corner(n, j, i, 0), corner(n, j, i, 1), corner(n, j, i, 2));
  }
  KOKKOS_FUNCTION void operator()(int n, int j, int i) const {
    if (owners(n, j, i) == 0)
      out(n, j, i) = 0;
    else
      out(n, j, i) = along_x ? at(n, j, i) - at(n, j + 1, i) : at(n, j, i + 1) - at(n, j, i);
  }
};

/// out = a before + b (in + dt L(in)), L from the volumes u and v through the faces.
struct TransportKernel {
  Tracer before, in, u, v, area, out;
  double a, b, dt;

  /// The tracer at a face between the second and the third of four cells, from where the wind
  /// blows.
  KOKKOS_FUNCTION static double at_face(double wind, double q0, double q1, double q2, double q3) {
    return wind > 0 ? q1 + 0.5 * limited(q1 - q0, q2 - q1) : q2 - 0.5 * limited(q3 - q2, q2 - q1);
  }
  /// A third of the upwind difference and two thirds of the central one, limited.
  KOKKOS_FUNCTION static double limited(double upwind, double central) {
    const double sign = central > 0 ? 1 : -1, s = sign * upwind, t = sign * central;
    return s * t > 0 ? sign * Kokkos::fmin(2 * Kokkos::fmin(s, t), (s + 2 * t) / 3) : 0.0;
  }
  KOKKOS_FUNCTION double across_x(int n, int j, int i) const {
    return u(n, j, i) *
           at_face(u(n, j, i), in(n, j, i - 2), in(n, j, i - 1), in(n, j, i), in(n, j, i + 1));
  }
  KOKKOS_FUNCTION double across_y(int n, int j, int i) const {
    return v(n, j, i) *
           at_face(v(n, j, i), in(n, j - 2, i), in(n, j - 1, i), in(n, j, i), in(n, j + 1, i));
  }
  KOKKOS_FUNCTION void operator()(int n, int j, int i) const {
    // pairs in this order, so that a turned tile has the same sums
    const double outflow =
        (across_x(n, j, i + 1) - across_x(n, j, i)) + (across_y(n, j + 1, i) - across_y(n, j, i));
    out(n, j, i) = a * before(n, j, i) + b * (in(n, j, i) - dt / area(n, j, i) * outflow);
  }
};

/// The model on the ranks of a communicator, in blocks of `block` cells.
class CubedSphere {
 public:
  CubedSphere(MPI_Comm comm, index_t n, std::array<index_t, 2> block, bool deforms)
      : cells(n),
        ranks_(comm, {0}),
        sphere(ranks_, shard::cubed_sphere(n), {.block = block}),
        q("q", ranks_, {sphere, sphere.y(), sphere.x()}),
        area("area", ranks_, {sphere, sphere.y(), sphere.x()}),
        stream_{deforms},
        u_("u", ranks_, at(shard::At::west)),
        v_("v", ranks_, at(shard::At::south)),
        halos_(shard::Exchange(q).faces()),
        winds_(shard::Exchange(shard::vector_of(u_, v_)).shared()) {
    const auto extent = [](index_t size) { return static_cast<std::size_t>(size); };
    corner_ =
        Corners("corners", extent(sphere.count()), extent(block[0] + 1), extent(block[1] + 1));
    const auto host = Kokkos::create_mirror_view(corner_);
    for (index_t b = 0; b < sphere.count(); ++b)
      for (index_t j = 0; j <= block[0]; ++j)
        for (index_t i = 0; i <= block[1]; ++i) {
          const Point p = point(sphere.block(b), 2 * j, 2 * i);
          for (std::size_t k = 0; k < 3; ++k) host(b, j, i, k) = p[k];
        }
    Kokkos::deep_copy(corner_, host);
    // the adjoint takes the copies' ones to the owners
    shard::deep_copy(Space(), u_owners_, 1.0), shard::deep_copy(Space(), v_owners_, 1.0);
    shard::Exchange(shard::vector_of(u_owners_, v_owners_)).shared().adjoint(Space());
    set(area, [&](const shard::TileBlock& b, index_t j, index_t i) {
      const Point west = point(b, 2 * j, 2 * i), east = point(b, 2 * j, 2 * i + 2),
                  north = point(b, 2 * j + 2, 2 * i + 2);
      return triangle(west, east, north) + triangle(west, north, point(b, 2 * j + 2, 2 * i));
    });
  }
  /// Sets the tracer: value(point) at the centres of cells.
  template <class Value>
  void start(const Value& value) {
    set(q, [&](const shard::TileBlock& b, index_t j, index_t i) {
      return value(point(b, 2 * j + 1, 2 * i + 1));
    });
  }

  void step(double time, double dt) {
    blow(time);
    run(q, first_, 0, 1, dt);
    blow(time + dt);
    run(first_, second_, 3.0 / 4, 1.0 / 4, dt);
    blow(time + dt / 2);
    run(second_, first_, 1.0 / 3, 2.0 / 3, dt);
    swap(q, first_);
  }
  double mass() const { return shard::dot<shard::Determinism::ordered>(Space(), area, q); }

  /// The tracer of this rank's blocks: use(tile, y, x, value, area).
  template <class Use>
  void each(const Use& use) const {
    const auto values = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), q.view());
    const auto areas  = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), area.view());
    for (index_t b = 0; b < sphere.count(); ++b)
      for (index_t j = 0; j < q.extent(1); ++j)
        for (index_t i = 0; i < q.extent(2); ++i) {
          const shard::TileBlock& at = sphere.block(b);
          use(at.tile, at.y + j, at.x + i, values(b, j + 2, i + 2), areas(b, j + 2, i + 2));
        }
  }
  const index_t cells;

 private:
  std::array<shard::Partition, 3> at(shard::At position) const {
    return {sphere.at(position), sphere.y(position), sphere.x(position)};
  }
  /// A point of a block, in half cells.
  Point point(const shard::TileBlock& b, index_t y, index_t x) const {
    return shard::cubed_sphere_point(cells, b.tile, static_cast<double>(2 * b.y + y),
                                     static_cast<double>(2 * b.x + x));
  }
  template <class Value>
  void set(const Tracer& field, const Value& value) const {
    const auto host = Kokkos::create_mirror_view(field.view());
    for (index_t b = 0; b < sphere.count(); ++b)
      for (index_t j = 0; j < field.extent(1); ++j)
        for (index_t i = 0; i < field.extent(2); ++i)
          host(b, j + 2, i + 2) = value(sphere.block(b), j, i);
    Kokkos::deep_copy(field.view(), host);
  }
  /// The winds at a time. A face on the edge of a tile is on both tiles, whose roundings differ.
  /// Its owner computes it and the others get that value, turned to their axes; so mass is
  /// conserved.
  void blow(double time) {
    stream_.time = time;
    shard::parallel_for("u", Space(), shard::owned_region(u_),
                        WindKernel{stream_, corner_, u_owners_, u_, true});
    shard::parallel_for("v", Space(), shard::owned_region(v_),
                        WindKernel{stream_, corner_, v_owners_, v_, false});
    winds_(Space());
  }
  void run(const Tracer& in, const Tracer& out, double a, double b, double dt) const {
    halos_(Space(), in);
    shard::parallel_for("transport", Space(), shard::owned_region(out),
                        TransportKernel{q, in, u_, v_, area, out, a, b, dt});
  }

  shard::Mesh<Ranks> ranks_;

 public:
  shard::BlockGrid<Sphere, Ranks> sphere;
  Tracer q;  ///< the tracer
  Tracer area;

 private:
  Wind stream_;
  Corners corner_;
  Tracer u_, v_;  // volumes through the faces across x and y, per day
  Tracer u_owners_ = u_.like("owners of u"), v_owners_ = v_.like("owners of v");
  Tracer first_ = q.like("first stage"), second_ = q.like("second stage");
  shard::Exchange<Tracer> halos_;
  decltype(shard::Exchange(shard::vector_of(u_, v_)).shared()) winds_;
};

#endif
