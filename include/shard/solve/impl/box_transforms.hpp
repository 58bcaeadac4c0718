// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_BOX_TRANSFORMS_HPP
#define SHARD_SOLVE_IMPL_BOX_TRANSFORMS_HPP

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shard/base/types.hpp"
#include "shard/view/boundary.hpp"

namespace shard::impl {

/// The conditions at both walls of a dimension: which waves are the eigenvectors of the second
/// difference.
enum class BoxWalls : std::uint8_t { periodic, no_flux, zero, no_flux_to_zero, zero_to_no_flux };

/// A dimension of a box: its points, its walls, and the eigenvalues of -d2/dx2 in the order of the
/// transform's coefficients.
struct BoxDimension {
  BoxDimension() = default;
  BoxDimension(index_t extent, double spacing, BoundaryKind low, BoundaryKind high);
  index_t extent = 1;
  BoxWalls walls = BoxWalls::periodic;
  double scale   = 1.0;  ///< of both transforms one after the other, inverted
  std::vector<double> eigenvalues{0.0};
};

/// Which lines along dimension 0 of a box a rank has; they lie one after the other, those along
/// dimension 1 the fastest.
struct BoxLines {
  std::array<index_t, 3> begin{}, extent{1, 1, 1};
};

/// Real transforms of boxes of the same extents, by FFTW.
class BoxTransforms {
 public:
  /// Throws Error in a build without FFTW.
  BoxTransforms(const BoxDimension* dims, int rank);
  BoxTransforms(const BoxTransforms&)            = delete;
  BoxTransforms& operator=(const BoxTransforms&) = delete;
  ~BoxTransforms();
  /// Transforms `count` boxes in place, which lie one after the other in C's order.
  void run(double* first, index_t count, bool back) const;
  /// The same of one box, for kernels on a host.
  void run_one(double* box, bool back) const;

 private:
  struct Plans;
  std::unique_ptr<Plans> plans_;
  index_t size_ = 1;
};

/// What is wrong with a shift that makes one of these lines' eigenvalues 0, or nothing. The
/// constants may have the eigenvalue 0 without a shift.
std::string singular_shift(const std::array<BoxDimension, 3>& dims, int rank, double shift,
                           const BoxLines& lines);

/// Lines of coefficients along the other dimensions: transforms them along dimension 0, divides by
/// the eigenvalues and transforms back, and does all transforms' scaling.
void solve_lines(const BoxTransforms& transforms, const std::array<BoxDimension, 3>& dims, int rank,
                 double shift, const BoxLines& lines, double* data);

}  // namespace shard::impl

#endif
