// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operands of the device's convolutions and products, and plain loops over them.
#ifndef SHARD_TESTS_LAYERS_DEVICE_BLOCKS_HPP
#define SHARD_TESTS_LAYERS_DEVICE_BLOCKS_HPP

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "shard/layers/impl/linear_kernels.hpp"

namespace shard::testing {

using impl::Block;
using impl::LocalWindow;

class Generator {
 public:
  explicit Generator(unsigned seed, int parts = 10000) : engine_(seed), parts_(parts) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }
  int between(int a, int b) { return a + below(b - a + 1); }
  /// From -1 to 1, a multiple of 1 / parts.
  double real() { return static_cast<double>(between(-parts_, parts_)) / parts_; }

 private:
  std::mt19937 engine_;
  int parts_;
};

/// A block with its memory, whose cells are padded on all sides.
template <class T>
struct Cells {
  std::vector<T> memory;
  Block<T> block;

  Cells(Generator& random, index_t batch, index_t channels, const index_t (&begin)[3],
        const index_t (&extent)[3]) {
    block.batch     = batch;
    block.channels  = channels;
    index_t strides = random.between(1, 2), before = 0;
    for (int d = 2; d >= 0; --d) {
      block.begin[d]      = begin[d];
      block.end[d]        = begin[d] + extent[d];
      block.stride[d + 2] = strides;
      const index_t low = random.below(3), all = low + extent[d] + random.below(3) + 1;
      before += (low - begin[d]) * strides;
      strides *= all;
    }
    block.stride[1] = strides;
    block.stride[0] = strides * (channels + random.below(2));
    memory.resize(static_cast<std::size_t>(block.stride[0] * batch + 1));
    for (T& value : memory) value = static_cast<T>(random.real());
    block.origin = memory.data() + before;
  }
};

template <class T>
void expect_near(const std::vector<T>& a, const std::vector<T>& b, const std::string& what) {
  const double tolerance = sizeof(T) == 8 ? 1e-12 : 2e-5;
  ASSERT_EQ(a.size(), b.size());
  double largest = 1;
  for (const T& value : b) largest = std::max(largest, std::abs(static_cast<double>(value)));
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(static_cast<double>(a[i]), static_cast<double>(b[i]), tolerance * largest)
        << what << " at " << i;
}

/// Visits all (n, a, b, o, i, weight) of a window.
template <class T, class Visit>
void visit_products(const Block<T>& coarse, const Block<T>& fine, const LocalWindow& w,
                    const Visit& visit) {
  const index_t per_coarse = coarse.channels / w.groups, per_fine = fine.channels / w.groups;
  for (index_t n = 0; n < coarse.batch; ++n)
    for (index_t a = 0; a < coarse.channels; ++a)
      for (index_t b = 0; b < per_fine; ++b)
        for (index_t oz = coarse.begin[0]; oz < coarse.end[0]; ++oz)
          for (index_t oy = coarse.begin[1]; oy < coarse.end[1]; ++oy)
            for (index_t ox = coarse.begin[2]; ox < coarse.end[2]; ++ox)
              for (index_t t = 0; t < w.taps(); ++t) {
                const index_t o[3] = {oz, oy, ox},
                              k[3] = {t / w.kernel[2] / w.kernel[1], t / w.kernel[2] % w.kernel[1],
                                      t % w.kernel[2]};
                index_t i[3];
                bool inside = true;
                for (int d = 0; d < 3; ++d) {
                  i[d]   = o[d] * w.stride[d] + k[d] * w.dilation[d] + w.offset[d];
                  inside = inside && i[d] >= fine.begin[d] && i[d] < fine.end[d];
                }
                if (inside)
                  visit(coarse.at(n, a, oz, oy, ox),
                        fine.at(n, a / per_coarse * per_fine + b, i[0], i[1], i[2]),
                        (a * per_fine + b) * w.taps() + t);
              }
}

template <class T>
std::vector<T> values(Generator& random, index_t count) {
  std::vector<T> v(static_cast<std::size_t>(count));
  for (T& value : v) value = static_cast<T>(random.real());
  return v;
}

/// A tensor's rows as two dimensions with gaps.
template <class T>
impl::TensorRows<T> rows_with_gaps(std::vector<T>& memory, index_t n0, index_t n1, index_t length,
                                   index_t step, Generator& random) {
  impl::TensorRows<T> rows;
  rows.length       = length;
  rows.step         = step;
  const index_t row = length * step + random.below(3), outer = row * (n1 + random.below(2));
  memory      = values<T>(random, outer * n0 + 1);
  rows.origin = memory.data();
  rows.rows.append(n0, outer);
  rows.rows.append(n1, row);
  return rows;
}

}  // namespace shard::testing

#endif
