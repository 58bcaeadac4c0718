// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A loop over each vector function, of a length that leaves no remainder: tools/packed-loops looks
// for scalar arithmetic in the instances of `loop`.

#include "../../src/layers/vector_functions.hpp"

namespace {

struct Exponential {
  template <class T>
  static T of(T x) {
    return shard::impl::exponential(x);
  }
};
struct ExponentialOfPart {
  template <class T>
  static T of(T x) {
    return shard::impl::exponential_of_part(x);
  }
};
struct Sigmoid {
  template <class T>
  static T of(T x) {
    return shard::impl::sigmoid(x);
  }
};
struct Gelu {
  template <class T>
  static T of(T x) {
    return shard::impl::NormalPart<T>(x).product();
  }
};
struct GeluFast {
  template <class T>
  static T of(T x) {
    return shard::impl::gelu_fit(x);
  }
};
struct GeluSlope {
  template <class T>
  static T of(T x) {
    return shard::impl::NormalPart<T>(x).slope();
  }
};
struct Tanh {
  template <class T>
  static T of(T x) {
    return shard::impl::tanh_of(x);
  }
};

template <class F, class T>
[[gnu::noinline]] void loop(const T* __restrict x, T* __restrict y) {
  for (int i = 0; i < 1024; ++i) y[i] = F::of(x[i]);
}
template <class T, class... F>
void loops(const T* x, T* y) {
  (loop<F>(x, y), ...);
}

}  // namespace

void all_loops(const float* x, float* y, const double* u, double* v) {
  loops<float, Exponential, ExponentialOfPart, Sigmoid, Gelu, GeluFast, GeluSlope, Tanh>(x, y);
  loops<double, Exponential, ExponentialOfPart, Sigmoid, Gelu, GeluSlope, Tanh>(u, v);
}
