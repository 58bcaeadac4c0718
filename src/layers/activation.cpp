// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "elementwise.hpp"
#include "launch.hpp"
#include "shard/layers/impl/activation_kernels.hpp"

namespace shard::impl {

/// Each function: its value, and its derivative times a. A NaN stays one.
struct ReluFunction {
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T value(T x) const {
    return x < T(0) ? T(0) : x;
  }
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T derivative(T a, T x) const {
    return x <= T(0) ? T(0) : a;
  }
};

template <class T>
struct LeakyReluFunction {
  T slope;
  KOKKOS_FORCEINLINE_FUNCTION T value(T x) const { return x * factor(x); }
  KOKKOS_FORCEINLINE_FUNCTION T derivative(T a, T x) const { return a * factor(x); }
  /// Loops with a product in one branch alone aren't vectorised.
  KOKKOS_FORCEINLINE_FUNCTION T factor(T x) const { return x > T(0) ? T(1) : slope; }
};

struct SiluFunction {
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T value(T x) const {
    return x * sigmoid(x);
  }
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T derivative(T a, T x) const {
    const T s = sigmoid(x);
    return a * (s * (T(1) + x * (T(1) - s)));
  }
};

/// x Phi(x), Phi(x) = erfc(-x / sqrt 2) / 2, which has all its digits where Phi is small.
struct GeluFunction {
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T value(T x) const {
    KOKKOS_IF_ON_DEVICE((return x * (T(0.5) * Kokkos::erfc(-x * inverse_root_two<T>));))
    KOKKOS_IF_ON_HOST((return NormalPart<T>(x).product();))
  }
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T derivative(T a, T x) const {
    KOKKOS_IF_ON_DEVICE(
        (constexpr T inverse_root_two_pi = static_cast<T>(0.39894228040143267794);
         const T phi                     = T(0.5) * Kokkos::erfc(-x * inverse_root_two<T>);
         return a * (phi + x * (inverse_root_two_pi * Kokkos::exp(T(-0.5) * x * x)));))
    KOKKOS_IF_ON_HOST((return a * NormalPart<T>(x).slope();))
  }
  template <class T>
  static constexpr T inverse_root_two = static_cast<T>(0.70710678118654752440);
};

/// The same; the value of a float is accurate to 1e-6 only.
struct GeluFastFunction : GeluFunction {
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T value(T x) const {
    if constexpr (sizeof(T) == 4)
      return gelu_fit(x);
    else
      return GeluFunction::value(x);
  }
};

/// x (1 + tanh u) / 2 = x sigmoid(2 u), which has all its digits where it is small.
struct GeluTanhFunction {
  template <class T>
  static constexpr T root = static_cast<T>(1.59576912160573071176);  ///< 2 sqrt(2 / pi)
  template <class T>
  static constexpr T cubic = static_cast<T>(0.044715);

  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T value(T x) const {
    return x * sigmoid(twice_inner(x));
  }
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T derivative(T a, T x) const {
    const T s     = sigmoid(twice_inner(x));
    const T slope = root<T> * (T(1) + T(3) * cubic<T> * x * x);
    return a * (s * (T(1) + x * (T(1) - s) * slope));
  }
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T twice_inner(T x) const {
    return root<T> * (x + cubic<T> * x * x * x);
  }
};

struct TanhFunction {
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T value(T x) const {
    return tanh_of(x);
  }
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T derivative(T a, T x) const {
    const T e = exponential(T(-2) * magnitude(x)), sum = T(1) + e;
    return a * (T(4) * e / (sum * sum));  // 1 - tanh(x)^2
  }
};

struct SigmoidFunction {
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T value(T x) const {
    return sigmoid(x);
  }
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T derivative(T a, T x) const {
    const T e = exponential(-magnitude(x)), sum = T(1) + e;
    return a * (e / (sum * sum));  // s (1 - s)
  }
};

template <class F>
struct ActivationValue {
  F f;
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T operator()(T x) const {
    return f.value(x);
  }
};
template <class F>
struct ActivationSlope {
  F f;
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T operator()(T a, T x) const {
    return f.derivative(a, x);
  }
};

template <class F>
struct GateValue {
  F f;
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T operator()(T a, T x) const {
    return a * f.value(x);
  }
};
template <class F>
struct GateSlope {
  F f;
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T operator()(T c, T a, T x) const {
    return f.derivative(c * a, x);
  }
};
template <class F>
struct GateTangent {
  F f;
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T operator()(T ta, T tx, T a, T x) const {
    return ta * f.value(x) + f.derivative(tx * a, x);
  }
};

template <class T, class F, int From>
struct GateRows {
  RowSplit split;
  Block<T> to;
  Block<const T> from[From];
  F f;

  void operator()(index_t item) const {
    const auto r     = split.row(item);
    const F function = f;
    if constexpr (From == 2)
      map_line(r.count, function, line_of(to, r), line_of(from[0], r), line_of(from[1], r));
    else if constexpr (From == 3)
      map_line(r.count, function, line_of(to, r), line_of(from[0], r), line_of(from[1], r),
               line_of(from[2], r));
    else
      map_line(r.count, function, line_of(to, r), line_of(from[0], r), line_of(from[1], r),
               line_of(from[2], r), line_of(from[3], r));
  }
};

template <class T, class F>
struct ActivationRows {
  RowSplit split;
  Block<T> to;
  Block<const T> from;
  F f;

  void operator()(index_t item) const {
    const auto r = split.row(item);
    map_line(r.count, ActivationValue<F>{f}, line_of(to, r), line_of(from, r));
  }
};

template <class T, class F>
struct ActivationDerivativeRows {
  RowSplit split;
  Block<T> to;
  Block<const T> factor, from;
  F f;

  void operator()(index_t item) const {
    const auto r = split.row(item);
    map_line(r.count, ActivationSlope<F>{f}, line_of(to, r), line_of(factor, r), line_of(from, r));
  }
};

template <class T, class Use>
void with_function(Activation f, T figure, const Use& use) {
  switch (f) {
    case Activation::relu: return use(ReluFunction{});
    case Activation::leaky_relu: return use(LeakyReluFunction<T>{figure});
    case Activation::silu: return use(SiluFunction{});
    case Activation::gelu: return use(GeluFunction{});
    case Activation::gelu_tanh: return use(GeluTanhFunction{});
    case Activation::gelu_fast: return use(GeluFastFunction{});
    case Activation::tanh: return use(TanhFunction{});
    case Activation::sigmoid: return use(SigmoidFunction{});
  }
}

template <class Space, class T>
void ActivationKernels<Space, T>::apply(const Space& space, Activation f, double figure,
                                        const Block<T>& y, const Block<const T>& x) {
  with_function(f, static_cast<T>(figure), [&](const auto& function) {
    using F = std::remove_cvref_t<decltype(function)>;
    if constexpr (is_host_v<Space>) {
      const RowSplit split = RowSplit::of(space, y);
      launch("shard::activation", space, split.items(),
             ActivationRows<T, F>{split, y, x, function});
    } else {
      map_planes("shard::activation", space,
                 ElementwiseOp<ActivationValue<F>, T, 1>{y, {x}, {function}}, y);
    }
  });
}

template <class Space, class T>
void ActivationKernels<Space, T>::times_derivative(const Space& space, Activation f, double figure,
                                                   const Block<T>& b, const Block<const T>& a,
                                                   const Block<const T>& x) {
  with_function(f, static_cast<T>(figure), [&](const auto& function) {
    using F = std::remove_cvref_t<decltype(function)>;
    if constexpr (is_host_v<Space>) {
      const RowSplit split = RowSplit::of(space, b);
      launch("shard::activation_derivative", space, split.items(),
             ActivationDerivativeRows<T, F>{split, b, a, x, function});
    } else {
      map_planes("shard::activation_derivative", space,
                 ElementwiseOp<ActivationSlope<F>, T, 2>{b, {a, x}, {function}}, b);
    }
  });
}

/// to = Gate<the function f>(from...)
template <template <class> class Gate, class Space, class T, class... From>
void launch_gate(const char* label, const Space& space, Activation activation, const Block<T>& to,
                 const From&... from) {
  constexpr int count = sizeof...(From);
  with_function(activation, T(0), [&](const auto& function) {
    using F = Gate<std::remove_cvref_t<decltype(function)>>;
    if constexpr (is_host_v<Space>) {
      const RowSplit split = RowSplit::of(space, to);
      launch(label, space, split.items(), GateRows<T, F, count>{split, to, {from...}, {function}});
    } else {
      map_planes(label, space, ElementwiseOp<F, T, count>{to, {from...}, {function}}, to);
    }
  });
}

template <class Space, class T>
void ActivationKernels<Space, T>::gate(const Space& space, Activation f, const Block<T>& y,
                                       const Block<const T>& a, const Block<const T>& x) {
  launch_gate<GateValue>("shard::gate", space, f, y, a, x);
}

template <class Space, class T>
void ActivationKernels<Space, T>::gate_derivative(const Space& space, Activation f,
                                                  const Block<T>& b, const Block<const T>& c,
                                                  const Block<const T>& a,
                                                  const Block<const T>& x) {
  launch_gate<GateSlope>("shard::gate_derivative", space, f, b, c, a, x);
}

template <class Space, class T>
void ActivationKernels<Space, T>::gate_tangent(const Space& space, Activation f, const Block<T>& ty,
                                               const Block<const T>& ta, const Block<const T>& tx,
                                               const Block<const T>& a, const Block<const T>& x) {
  launch_gate<GateTangent>("shard::gate_tangent", space, f, ty, ta, tx, a, x);
}

SHARD_KERNELS(ActivationKernels)

}  // namespace shard::impl
