// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A bell that a solid rotation carries once around a cubed sphere, over four corners of the cube
// (Williamson et al. 1992, case 1, alpha = 45 degrees): finite volumes with van Leer's monotonised
// central slopes and two stages of Runge and Kutta. After 12 days the initial state is the answer.
// The run is done twice, in blocks on all ranks and in whole tiles on each rank alone; both have
// the same bits.
//
// 14_cubed_sphere [CELLS [MAP.png]]: CELLS x CELLS cells a tile (default: a table of 12, 24, 48).
#include <shard/shard.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "shard/io/map.hpp"

struct Ranks;
struct Sphere;

using Space = Kokkos::DefaultExecutionSpace;
using shard::index_t;
/// field(block, y, x)
using Field =
    shard::ShardedView<double***, Kokkos::LayoutRight,
                       shard::ShardDim<0, Ranks, shard::Blocks<Sphere>>,
                       shard::ShardDim<1, shard::Unsharded, shard::Halo<2>, shard::LinkedY>,
                       shard::ShardDim<2, shard::Unsharded, shard::Halo<2>, shard::LinkedX>>;
using Point = std::array<double, 3>;

constexpr double pi = 3.14159265358979323846, days = 12;

double dot(const Point& a, const Point& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
Point cross(const Point& a, const Point& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
/// The area of a triangle on the unit sphere (Van Oosterom and Strackee 1983).
double triangle(const Point& a, const Point& b, const Point& c) {
  return 2 * std::atan2(dot(a, cross(b, c)), 1 + dot(a, b) + dot(b, c) + dot(c, a));
}
/// The stream function of the rotation, on the unit sphere, per day.
double stream(const Point& p) { return -2 * pi / days * (p[2] - p[0]) * std::sqrt(0.5); }
/// A cosine bell of radius 1/3 around a point of the equator.
double bell(const Point& p) {
  const double distance = std::acos(std::fmin(1.0, std::fmax(-1.0, -p[1])));
  return distance < 1.0 / 3 ? 500 * (1 + std::cos(3 * pi * distance)) : 0;
}

/// out = a before + b (in + dt L(in)), L from the volumes u and v through the faces.
struct TransportKernel {
  Field before, in, u, v, area, out;
  double a, b, dt;

  /// The tracer at a face between the second and the third of four cells, from where the wind
  /// blows.
  KOKKOS_FUNCTION static double at_face(double wind, double q0, double q1, double q2, double q3) {
    const double middle = q2 - q1;
    return wind > 0 ? q1 + 0.5 * limited(q1 - q0, middle) : q2 - 0.5 * limited(q3 - q2, middle);
  }
  KOKKOS_FUNCTION static double limited(double s, double t) {
    const double sign = s > 0 ? 1 : -1;
    return s * t > 0
               ? sign * Kokkos::fmin(2 * Kokkos::fmin(sign * s, sign * t), 0.5 * sign * (s + t))
               : 0.0;
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
class Model {
 public:
  Model(MPI_Comm comm, index_t n, std::array<index_t, 2> block)
      : cells(n),
        ranks_(comm, {0}),
        sphere(ranks_, shard::cubed_sphere(n), {.block = block}),
        q("q", ranks_, {sphere, sphere.y(), sphere.x()}),
        area("area", ranks_, {sphere, sphere.y(), sphere.x()}),
        u_("u", ranks_, at(shard::At::west)),
        v_("v", ranks_, at(shard::At::south)),
        halos_(shard::Exchange(q).faces()) {
    const auto p = [&](const shard::TileBlock& b, index_t j, index_t i) {  // a corner of a cell
      return shard::cubed_sphere_point(n, b.tile, 2.0 * static_cast<double>(b.y + j),
                                       2.0 * static_cast<double>(b.x + i));
    };
    set(q, [&](const shard::TileBlock& b, index_t j, index_t i) {
      return bell(shard::cubed_sphere_point(n, b.tile, 2.0 * static_cast<double>(b.y + j) + 1,
                                            2.0 * static_cast<double>(b.x + i) + 1));
    });
    set(area, [&](const shard::TileBlock& b, index_t j, index_t i) {
      const Point west = p(b, j, i), east = p(b, j, i + 1), north = p(b, j + 1, i + 1);
      return triangle(west, east, north) + triangle(west, north, p(b, j + 1, i));
    });
    // differences of a stream function: no divergence
    set(u_, [&](const shard::TileBlock& b, index_t j, index_t i) {
      return stream(p(b, j, i)) - stream(p(b, j + 1, i));
    });
    set(v_, [&](const shard::TileBlock& b, index_t j, index_t i) {
      return stream(p(b, j, i + 1)) - stream(p(b, j, i));
    });
    // both tiles have the same bits at the faces that they share, so that mass is conserved
    shard::Exchange(shard::vector_of(u_, v_)).shared()(Space());
  }

  void step(double dt) {
    run(q, stage_, 0, 1, dt);
    run(stage_, next_, 0.5, 0.5, dt);
    swap(q, next_);
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
  template <class Value>
  void set(const Field& field, const Value& value) const {
    const auto host = Kokkos::create_mirror_view(field.view());
    for (index_t b = 0; b < sphere.count(); ++b)
      for (index_t j = 0; j < field.extent(1); ++j)
        for (index_t i = 0; i < field.extent(2); ++i)
          host(b, j + 2, i + 2) = value(sphere.block(b), j, i);
    Kokkos::deep_copy(field.view(), host);
  }
  void run(const Field& in, const Field& out, double a, double b, double dt) const {
    halos_(Space(), in);
    shard::parallel_for("transport", Space(), shard::owned_region(out),
                        TransportKernel{q, in, u_, v_, area, out, a, b, dt});
  }

  shard::Mesh<Ranks> ranks_;

 public:
  shard::BlockGrid<Sphere, Ranks> sphere;
  Field q;  ///< the tracer
  Field area;

 private:
  Field u_, v_;  // volumes through the faces across x and y, per day
  Field stage_ = q.like("stage"), next_ = q.like("next");
  shard::Exchange<Field> halos_;
};

/// A map of the tracer: each point has its nearest cell's.
void draw(const std::string& path, const Model& alone) {
  const auto n = alone.cells;
  std::vector<Point> centres;
  std::vector<double> values;
  alone.each([&](int tile, index_t y, index_t x, double value, double) {
    centres.push_back(shard::cubed_sphere_point(n, tile, 2.0 * static_cast<double>(y) + 1,
                                                2.0 * static_cast<double>(x) + 1));
    values.push_back(value);
  });
  shard::Map map;
  map.title = "The bell after 12 days";
  map.units = "m";
  for (int i = 0; i < 90; ++i) map.latitudes.push_back(89.0 - 2 * i);
  for (int j = 0; j < 180; ++j) map.longitudes.push_back(2.0 * j);
  for (const double latitude : map.latitudes)
    for (const double longitude : map.longitudes) {
      const double phi = latitude * pi / 180, lambda = longitude * pi / 180;
      const Point p{std::cos(phi) * std::cos(lambda), std::cos(phi) * std::sin(lambda),
                    std::sin(phi)};
      std::size_t nearest = 0;
      for (std::size_t c = 1; c < centres.size(); ++c)
        if (dot(p, centres[c]) > dot(p, centres[nearest])) nearest = c;
      map.values.push_back(values[nearest]);
    }
  shard::Figure figure;
  figure.title =
      "Williamson case 1 on 6 x " + std::to_string(n) + " x " + std::to_string(n) + " cells";
  figure.maps = {map};
  shard::write_png(path, figure);
}

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  std::vector<index_t> sizes{12, 24, 48};
  if (argc > 1) sizes = {std::atol(argv[1])};
  if (environment.rank() == 0)
    std::printf("  cells        l1         l2        max   change of mass\n");
  const double known[][2] = {{12, 0.7732}, {24, 0.4883}, {48, 0.1798}};  // l2, one rank
  bool right              = true;
  for (const index_t n : sizes) {
    Model model(environment.world(), n, {n / 2, n / 3}), alone(MPI_COMM_SELF, n, {n, n});
    const int steps   = 20 * static_cast<int>(n);
    const double mass = model.mass();
    for (int s = 0; s < steps; ++s) {
      model.step(days / steps);
      alone.step(days / steps);
    }
    std::vector<double> serial(static_cast<std::size_t>(6 * n * n));
    const auto place = [&](int tile, index_t y, index_t x) {
      return static_cast<std::size_t>((tile * n + y) * n + x);
    };
    double sums[5] =
        {};  // of the area times error, its square, the bell, its square; largest error
    alone.each([&](int tile, index_t y, index_t x, double value, double area) {
      serial[place(tile, y, x)] = value;
      const double exact = bell(shard::cubed_sphere_point(n, tile, 2.0 * static_cast<double>(y) + 1,
                                                          2.0 * static_cast<double>(x) + 1));
      const double error = std::fabs(value - exact);
      sums[0] += area * error;
      sums[1] += area * error * error;
      sums[2] += area * exact;
      sums[3] += area * exact * exact;
      sums[4] = std::fmax(sums[4], error / 1000);
    });
    int different = 0;
    model.each([&](int tile, index_t y, index_t x, double value, double) {
      if constexpr (std::is_same_v<Space, Kokkos::DefaultHostExecutionSpace>)
        different += std::memcmp(&value, &serial[place(tile, y, x)], sizeof(double)) != 0 ? 1 : 0;
    });
    MPI_Allreduce(MPI_IN_PLACE, &different, 1, MPI_INT, MPI_SUM, environment.world());
    const double l2 = std::sqrt(sums[1] / sums[3]), change = model.mass() / mass - 1;
    right = right && different == 0 && std::fabs(change) < 1e-12;
    for (const auto& [cells, value] : known)
      if (n == static_cast<index_t>(cells)) right = right && std::fabs(l2 / value - 1) < 1e-3;
    if (environment.rank() == 0) {
      std::printf("6 x %2d x %2d  %.3e  %.3e  %.3e  %9.1e%s\n", static_cast<int>(n),
                  static_cast<int>(n), sums[0] / sums[2], l2, sums[4], change,
                  different == 0 ? "" : "  other bits than on one rank");
      if (argc > 2) draw(argv[2], alone);
    }
  }
  if (environment.rank() == 0 && right) std::printf("the same bits as on one rank\n");
  return right ? 0 : 1;
}
