// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <shard/io/map.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace shard {
namespace {

using Triple = std::array<double, 3>;

// sRGB (IEC 61966-2-1) and CIELAB for its white point D65.
double to_linear(double c) { return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4); }
double from_linear(double c) {
  return c <= 0.0031308 ? 12.92 * c : 1.055 * std::pow(c, 1.0 / 2.4) - 0.055;
}
constexpr Triple white{0.95047, 1.0, 1.08883};
constexpr double knee = 6.0 / 29.0;

Triple to_lab(const Colour& colour) {
  const double r = to_linear(colour.red), g = to_linear(colour.green), b = to_linear(colour.blue);
  const Triple xyz{0.4124564 * r + 0.3575761 * g + 0.1804375 * b,
                   0.2126729 * r + 0.7151522 * g + 0.0721750 * b,
                   0.0193339 * r + 0.1191920 * g + 0.9503041 * b};
  Triple f{};
  for (std::size_t k = 0; k < 3; ++k) {
    const double t = xyz[k] / white[k];
    f[k]           = t > knee * knee * knee ? std::cbrt(t) : t / (3.0 * knee * knee) + 4.0 / 29.0;
  }
  return {116.0 * f[1] - 16.0, 500.0 * (f[0] - f[1]), 200.0 * (f[1] - f[2])};
}

Colour from_lab(const Triple& lab) {
  const double fy = (lab[0] + 16.0) / 116.0;
  const Triple f{fy + lab[1] / 500.0, fy, fy - lab[2] / 200.0};
  Triple xyz{};
  for (std::size_t k = 0; k < 3; ++k) {
    xyz[k] =
        white[k] * (f[k] > knee ? f[k] * f[k] * f[k] : 3.0 * knee * knee * (f[k] - 4.0 / 29.0));
  }
  const auto part = [](double linear) { return from_linear(std::clamp(linear, 0.0, 1.0)); };
  return {part(3.2404542 * xyz[0] - 1.5371385 * xyz[1] - 0.4985314 * xyz[2]),
          part(-0.9692660 * xyz[0] + 1.8760108 * xyz[1] + 0.0415560 * xyz[2]),
          part(0.0556434 * xyz[0] - 0.2040259 * xyz[1] + 1.0572252 * xyz[2])};
}

// Moreland's polar form of CIELAB: magnitude, saturation, hue.
Triple to_msh(const Triple& lab) {
  const double m = std::hypot(lab[0], lab[1], lab[2]);
  return {m, m > 0.001 ? std::acos(lab[0] / m) : 0.0, std::atan2(lab[2], lab[1])};
}
Triple from_msh(const Triple& msh) {
  return {msh[0] * std::cos(msh[1]), msh[0] * std::sin(msh[1]) * std::cos(msh[2]),
          msh[0] * std::sin(msh[1]) * std::sin(msh[2])};
}

/// The hue given to the white end, spun so that colours beside white change evenly (section 5).
double spun_hue(const Triple& saturated, double unsaturated_magnitude) {
  if (saturated[0] >= unsaturated_magnitude) return saturated[2];
  const double spin =
      saturated[1] *
      std::sqrt(unsaturated_magnitude * unsaturated_magnitude - saturated[0] * saturated[0]) /
      (saturated[0] * std::sin(saturated[1]));
  return saturated[2] > -std::numbers::pi / 3.0 ? saturated[2] + spin : saturated[2] - spin;
}

Colour cool_to_warm(double x) {
  const Triple cool     = to_msh(to_lab({0.230, 0.299, 0.754}));
  const Triple warm     = to_msh(to_lab({0.706, 0.016, 0.150}));
  const double middle   = std::max({cool[0], warm[0], 88.0});
  const bool first_half = x < 0.5;
  const Triple& end     = first_half ? cool : warm;
  const Triple centre{middle, 0.0, spun_hue(end, middle)};
  const double to_centre = first_half ? 2.0 * x : 2.0 - 2.0 * x;
  Triple msh{};
  for (std::size_t k = 0; k < 3; ++k) msh[k] = (1.0 - to_centre) * end[k] + to_centre * centre[k];
  return from_lab(from_msh(msh));
}

/// Ten colours of viridis at equal distances; between them a cubic through the neighbours, in
/// CIELAB, where viridis is smooth.
Colour viridis(double x) {
  constexpr std::array<std::array<int, 3>, 10> points{{{68, 1, 84},
                                                       {72, 40, 120},
                                                       {62, 74, 137},
                                                       {49, 104, 142},
                                                       {38, 130, 142},
                                                       {31, 158, 137},
                                                       {53, 183, 121},
                                                       {109, 205, 89},
                                                       {180, 222, 44},
                                                       {253, 231, 37}}};
  constexpr int last = static_cast<int>(points.size()) - 1;
  const auto lab     = [&](int k) {
    const auto at = [&](int i) {
      const auto& p = points[static_cast<std::size_t>(i)];
      return to_lab({p[0] / 255.0, p[1] / 255.0, p[2] / 255.0});
    };
    if (k >= 0 && k <= last) return at(k);
    // outside the ends the curve is extrapolated by a parabola through the last three points
    const int end = k < 0 ? 0 : last, inward = k < 0 ? 1 : -1;
    const Triple a = at(end), b = at(end + inward), c = at(end + 2 * inward);
    Triple beyond{};
    for (std::size_t i = 0; i < 3; ++i) beyond[i] = 3.0 * a[i] - 3.0 * b[i] + c[i];
    return beyond;
  };
  const double scaled = x * last;
  const int k         = std::min(static_cast<int>(scaled), last - 1);
  const double t      = scaled - k;
  const Triple p0 = lab(k - 1), p1 = lab(k), p2 = lab(k + 1), p3 = lab(k + 2);
  Triple out{};
  for (std::size_t i = 0; i < 3; ++i) {
    out[i] = p1[i] + 0.5 * t *
                         (p2[i] - p0[i] +
                          t * (2.0 * p0[i] - 5.0 * p1[i] + 4.0 * p2[i] - p3[i] +
                               t * (3.0 * (p1[i] - p2[i]) + p3[i] - p0[i])));
  }
  return from_lab(out);
}

}  // namespace

Colour colour_at(ColourScale scale, double position) {
  const double x = std::isnan(position) ? 0.0 : std::clamp(position, 0.0, 1.0);
  return scale == ColourScale::sequential ? viridis(x) : cool_to_warm(x);
}

std::vector<double> nice_ticks(double low, double high, int most) {
  if (!(low < high) || !std::isfinite(low) || !std::isfinite(high) || most < 2) {
    throw std::invalid_argument("shard::nice_ticks: no ticks between " + std::to_string(low) +
                                " and " + std::to_string(high) + " (at most " +
                                std::to_string(most) + "); low < high and two or more are needed");
  }
  const double raw = (high - low) / most;
  double decade    = std::pow(10.0, std::floor(std::log10(raw)));
  // the smallest round step with at most `most` ticks; round ends are ticks
  for (;; decade *= 10.0) {
    for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
      const double step  = factor * decade;
      const double first = std::ceil(low / step - 1e-9), last = std::floor(high / step + 1e-9);
      if (last - first + 1.0 > most) continue;
      std::vector<double> ticks;
      for (double k = first; k <= last; k += 1.0) ticks.push_back(k == 0.0 ? 0.0 : k * step);
      return ticks;
    }
  }
}

std::array<double, 2> value_range(const std::vector<double>& values) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    low  = std::min(low, value);
    high = std::max(high, value);
  }
  if (!(low <= high)) return {0.0, 0.0};
  return {low, high};
}

}  // namespace shard
