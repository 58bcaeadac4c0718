// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Eigenvalues of second differences in a box, and the division by them.
#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "shard/base/error.hpp"
#include "shard/base/impl/launch.hpp"
#include "shard/solve/impl/box_transforms.hpp"

namespace shard::impl {

namespace {

BoxWalls walls_of(BoundaryKind low, BoundaryKind high) {
  if (low == BoundaryKind::periodic) return BoxWalls::periodic;
  const bool zero_low = low == BoundaryKind::constant, zero_high = high == BoundaryKind::constant;
  if (zero_low) return zero_high ? BoxWalls::zero : BoxWalls::zero_to_no_flux;
  return zero_high ? BoxWalls::no_flux_to_zero : BoxWalls::no_flux;
}

double eigenvalue(const BoxDimension& dim, index_t k) {
  return dim.eigenvalues[static_cast<std::size_t>(k)];
}

/// The eigenvalue of dimensions 1 and 2 for line number `line`, without those of dimension 0.
double of_line(const std::array<BoxDimension, 3>& dims, const BoxLines& lines, index_t line) {
  const index_t j = line % lines.extent[1], k = line / lines.extent[1];
  return eigenvalue(dims[1], lines.begin[1] + j) + eigenvalue(dims[2], lines.begin[2] + k);
}

/// Runs on the host.
struct SolveLine {
  const BoxTransforms& transforms;
  const std::array<BoxDimension, 3>& dims;
  const BoxLines& lines;
  double shift, scale;
  double* data;

  void operator()(index_t line) const {
    const index_t n     = dims[0].extent;
    double* const x     = data + line * n;
    const double others = of_line(dims, lines, line);
    transforms.run_one(x, false);
    for (index_t i = 0; i < n; ++i) {
      const double lambda = eigenvalue(dims[0], i) + others + shift;
      x[i]                = lambda == 0.0 ? 0.0 : x[i] * (scale / lambda);
    }
    transforms.run_one(x, true);
  }
};

}  // namespace

BoxDimension::BoxDimension(index_t points, double spacing, BoundaryKind low, BoundaryKind high)
    : extent(points), walls(walls_of(low, high)) {
  const double pi = std::acos(-1.0), n = static_cast<double>(points);
  scale = points == 0 ? 1.0 : 1.0 / (walls == BoxWalls::periodic ? n : 2.0 * n);
  eigenvalues.clear();
  for (index_t k = 0; k < points; ++k) {
    const auto number = static_cast<double>(k);
    double half_turns = 0.5 * number;
    if (walls == BoxWalls::periodic)
      half_turns = number;  // the same for k and n - k, as the coefficients lie
    else if (walls == BoxWalls::zero)
      half_turns = 0.5 * (number + 1.0);
    else if (walls != BoxWalls::no_flux)
      half_turns = 0.5 * (number + 0.5);
    const double s = 2.0 * std::sin(pi * half_turns / n) / spacing;
    eigenvalues.push_back(s * s);
  }
}

std::string singular_shift(const std::array<BoxDimension, 3>& dims, int rank, double shift,
                           const BoxLines& lines) {
  double most = std::fabs(shift);
  for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d)
    for (const double e : dims[d].eigenvalues) most = std::max(most, e);
  for (index_t line = 0; line < lines.extent[1] * lines.extent[2]; ++line)
    for (const double e : dims[0].eigenvalues) {
      const double without = e + of_line(dims, lines, line);
      if (std::fabs(without + shift) <= 1e-14 * most && (without != 0.0 || shift != 0.0))
        return "the shift " + std::to_string(shift) +
               " is minus an eigenvalue, so the operator is singular";
    }
  return {};
}

void solve_lines(const BoxTransforms& transforms, const std::array<BoxDimension, 3>& dims, int rank,
                 double shift, const BoxLines& lines, double* data) {
  double scale = 1.0;
  for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d) scale *= dims[d].scale;
  launch("shard::fft_lines", Kokkos::DefaultHostExecutionSpace(), lines.extent[1] * lines.extent[2],
         SolveLine{transforms, dims, lines, shift, scale, data});
}

}  // namespace shard::impl
