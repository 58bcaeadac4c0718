// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_LAYERS_SCOPED_PRECISION_HPP
#define SHARD_TESTS_LAYERS_SCOPED_PRECISION_HPP

#include <gtest/gtest.h>

#include "../../src/layers/bfloat16.hpp"
#include "../../src/layers/bfloat16_tiles.hpp"

namespace shard::testing {

/// Sets the precision of products for a scope.
class ScopedPrecision {
 public:
  explicit ScopedPrecision(ProductPrecision p) : before_(product_precision()) {
    set_product_precision(p);
  }
  ~ScopedPrecision() { set_product_precision(before_); }
  ScopedPrecision(const ScopedPrecision&)            = delete;
  ScopedPrecision& operator=(const ScopedPrecision&) = delete;

 private:
  ProductPrecision before_;
};

/// A host's value as a factor of a product in bfloat16.
template <class T>
T in_bfloat16(T value) {
  return static_cast<T>(Kokkos::bit_cast<float>(impl::bfloat16_bits(static_cast<float>(value))));
}

/// Calls body() with products in bfloat16 on the host: emulated, and in the processor's registers
/// if it has them.
template <class Body>
void with_bfloat16_tiles(const Body& body) {
  const ScopedPrecision precision(ProductPrecision::bfloat16);
  for (const bool emulated : {true, false}) {
    impl::emulate_bfloat16_tiles(emulated);
    SCOPED_TRACE(emulated ? "emulated" : "in registers");
    if (impl::has_bfloat16_tiles()) body();
  }
}

}  // namespace shard::testing

#endif
