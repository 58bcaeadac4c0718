// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Test cases as functions of a point of the unit sphere and time, on the host: Williamson et al.
// 1992 (cases 1, 2, 5, 6), the barotropic jet of Galewsky et al. 2004 (Tellus 56A, 429-440) and the
// unsteady solid body rotation of Laeuter et al. 2005 (J. Comput. Phys. 210, 535-553, example 3).
#ifndef SHARD_EXAMPLES_SHALLOW_WATER_FLOWS_HPP
#define SHARD_EXAMPLES_SHALLOW_WATER_FLOWS_HPP

#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "../voronoi_mesh.hpp"
#include "williamson.hpp"

/// A test case. The velocity is k x grad(stream): no case has divergence at the start.
struct Flow {
  using Point    = voronoi::Point;
  using Function = std::function<double(const Point&, double time)>;
  std::string name;
  double days;  // the length of the run, as the papers have it
  Function depth, stream;
  std::function<double(const Point&)> relief = [](const Point&) { return 0.0; }, coriolis = earth;
  bool exact    = false;  // depth and stream are the answer at any time
  bool advected = false;  // the depth is carried by the given velocity, which stays

  static double earth(const Point& p) { return 2 * omega * p[2]; }
};

inline double latitude_of(const voronoi::Point& p) {
  return std::asin(std::fmax(-1.0, std::fmin(1.0, p[2])));
}
inline double longitude_of(const voronoi::Point& p) {  // 0 to 2 pi
  const double lon = std::atan2(p[1], p[0]);
  return lon < 0 ? lon + 2 * pi : lon;
}

/// Cases 2 (steady rotation), 5 (a mountain) and 6 (a Rossby-Haurwitz wave) of williamson.hpp.
inline Flow williamson(int number, double alpha = 0) {
  const Williamson of{number, alpha};
  Flow flow{
      "case " + std::to_string(number),
      number == 2   ? 5.0
      : number == 5 ? 15.0
                    : 10.0,
      [of](const voronoi::Point& p, double) { return of.depth(latitude_of(p), longitude_of(p)); },
      [of](const voronoi::Point& p, double) {
        return -radius * of.speed() * of.height_on_axis(latitude_of(p), longitude_of(p));
      }};
  flow.relief = [of](const voronoi::Point& p) {
    return of.relief(latitude_of(p), longitude_of(p));
  };
  flow.coriolis = [of](const voronoi::Point& p) {
    return of.coriolis(latitude_of(p), longitude_of(p));
  };
  flow.exact = number == 2;
  if (number == 6)  // equation 141, omega = K = 7.848e-6
    flow.stream = [](const voronoi::Point& p, double) {
      const double c = std::cos(latitude_of(p));
      return radius * radius * 7.848e-6 * p[2] *
             (c * c * c * c * std::cos(4 * longitude_of(p)) - 1);
    };
  return flow;
}

/// Case 1: a cosine bell of radius 1/3 that a rotation carries once around the sphere in 12 days.
inline Flow cosine_bell(double alpha) {
  Flow flow        = williamson(2, alpha);
  const auto axis  = voronoi::Point{-std::sin(alpha), 0, std::cos(alpha)};
  const auto start = voronoi::Point{0, -1, 0};  // it is on the axis' equator
  flow.name        = "case 1";
  flow.days        = 12;
  flow.depth       = [=](const voronoi::Point& p, double time) {
    using namespace voronoi;
    const double turned = 2 * pi * time / (12 * day);
    const Point centre  = std::cos(turned) * start + std::sin(turned) * cross(axis, start);
    const double r      = 3 * arc(p, centre);
    return r < 1 ? 500 * (1 + std::cos(pi * r)) : 0.0;
  };
  flow.advected = true;
  return flow;
}

/// A flow that is a rotation about a tilted axis when seen from outside the earth, over a relief
/// that balances the earth's centrifugal force: from the earth the axis moves westwards.
inline Flow laeuter() {
  constexpr double speed = 2 * pi * radius / (12 * day), potential = 133681;
  const auto height = [](const voronoi::Point& p, double time) {  // along the flow's axis
    const voronoi::Point axis{-std::cos(omega * time) * std::sqrt(0.5),
                              std::sin(omega * time) * std::sqrt(0.5), std::sqrt(0.5)};
    return voronoi::dot(axis, p);
  };
  const auto earth = [](const voronoi::Point& p) { return omega * radius * p[2]; };
  Flow flow{
      "Laeuter", 5,
      [=](const voronoi::Point& p, double time) {
        const double w = speed * height(p, time) + earth(p);
        return (potential - 0.5 * w * w) / gravity;
      },
      [=](const voronoi::Point& p, double time) { return -radius * speed * height(p, time); }};
  flow.relief = [=](const voronoi::Point& p) { return 0.5 * earth(p) * earth(p) / gravity; };
  flow.exact  = true;
  return flow;
}

/// The zonal jet of Galewsky et al.: its integrals from the southern edge at 1025 latitudes.
class Jet {
 public:
  Jet() {
    double mean = 0;  // of the balanced depth's deviation
    for (int k = 0; k < intervals; ++k) {
      const double a = at(k), b = at(k + 1), m = (a + b) / 2;
      const double before = geopotential_.back(), middle = before + simpson(a, m, &Jet::force);
      stream_.push_back(stream_.back() + simpson(a, b, &Jet::speed));
      geopotential_.push_back(before + simpson(a, b, &Jet::force));
      mean +=
          (b - a) / 12 *
          (before * std::cos(a) + 4 * middle * std::cos(m) + geopotential_.back() * std::cos(b));
    }
    mean += geopotential_.back() * (1 - std::sin(north)) / 2;
    rest_ = 10000 + radius * mean / gravity;
  }
  /// The depth of the resting water in the south, so that the mean depth is 10 km.
  double rest() const { return rest_; }
  double depth(double lat) const {
    return rest_ - radius / gravity * integral(geopotential_, lat, &Jet::force);
  }
  double stream(double lat) const { return -radius * integral(stream_, lat, &Jet::speed); }

 private:
  static constexpr int intervals = 1024;
  static constexpr double south = pi / 7, north = pi / 2 - south;
  static double at(int k) { return south + (north - south) * k / intervals; }

  double speed(double lat) const {
    if (lat <= south || lat >= north) return 0;
    const double half = (north - south) / 2;
    return 80 * std::exp(1 / (half * half) + 1 / ((lat - south) * (lat - north)));
  }
  double force(double lat) const {
    const double u = speed(lat);
    return u * (2 * omega * std::sin(lat) + u * std::tan(lat) / radius);
  }
  double simpson(double a, double b, double (Jet::*f)(double) const) const {
    return (b - a) / 6 * ((this->*f)(a) + 4 * (this->*f)((a + b) / 2) + (this->*f)(b));
  }
  double integral(const std::vector<double>& sums, double lat,
                  double (Jet::*f)(double) const) const {
    const double place = (lat - south) / (north - south) * intervals;
    if (place <= 0) return 0;
    if (place >= intervals) return sums.back();
    const int k = static_cast<int>(place);
    return sums[static_cast<std::size_t>(k)] + simpson(at(k), lat, f);
  }

  std::vector<double> stream_{0.0}, geopotential_{0.0};
  double rest_ = 0;
};

/// The jet in balance, and the bump that makes it unstable.
inline Flow galewsky(bool perturbed) {
  const auto jet = std::make_shared<Jet>();
  Flow flow{perturbed ? "Galewsky" : "balanced jet", perturbed ? 6.0 : 5.0,
            [=](const voronoi::Point& p, double) {
              const double lat = latitude_of(p), lon = std::remainder(longitude_of(p), 2 * pi);
              const double x = 3 * lon, y = 15 * (pi / 4 - lat);
              return jet->depth(lat) +
                     (perturbed ? 120 * std::cos(lat) * std::exp(-x * x - y * y) : 0.0);
            },
            [=](const voronoi::Point& p, double) { return jet->stream(latitude_of(p)); }};
  flow.exact = !perturbed;
  return flow;
}

/// A case by its name on the command line.
inline Flow flow_named(const std::string& name) {
  if (name == "1") return cosine_bell(pi / 4);
  if (name == "2") return williamson(2);
  if (name == "2tilted") return williamson(2, pi / 4);
  if (name == "5") return williamson(5);
  if (name == "6") return williamson(6);
  if (name == "jet") return galewsky(false);
  if (name == "galewsky") return galewsky(true);
  if (name == "laeuter") return laeuter();
  throw std::invalid_argument("no case \"" + name +
                              "\"; there are 1, 2, 2tilted, 5, 6, jet, galewsky and laeuter");
}

#endif
