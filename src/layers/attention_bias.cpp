// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "launch.hpp"
#include "shard/layers/impl/attention_bias_kernels.hpp"

namespace shard::impl {

template <class T>
struct ExpandBiasKernel {
  T* values;
  const T* table;
  BiasTable shape;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t tokens = shape.tokens[0] * shape.tokens[1] * shape.tokens[2];
    const index_t key = item % tokens, query = item / tokens % tokens,
                  rest = item / tokens / tokens;
    values[item] = table[shape.at(shape.row(query, key), rest / shape.heads, rest % shape.heads)];
  }
};

template <class T>
struct CollectBiasKernel {
  T* table;
  BiasSums<T> sums;
  index_t heads;
  BiasTable shape;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t rows = shape.rows(), tokens = sums.per_tokens;
    const index_t row = item % rows, head = item / rows % shape.heads,
                  type  = item / rows / shape.heads;
    const index_t first = shape.heads == heads ? head : 0,
                  last  = shape.heads == heads ? head + 1 : heads;
    double sum          = 0.0;
    for (index_t chunk = 0; chunk < sums.chunks; ++chunk)
      for (index_t h = first; h < last; ++h) {
        const T* const of =
            sums.values + ((chunk * shape.types + type) * heads + h) * tokens * tokens;
        for (index_t query = 0; query < tokens; ++query) {
          const index_t key = shape.key(row, query);
          if (key >= 0) sum += static_cast<double>(of[query * tokens + key]);
        }
      }
    T& to = table[shape.at(row, type, head)];
    to    = static_cast<T>(static_cast<double>(to) + sum);
  }
};

template <class T>
struct BoundBiasKernel {
  T* y;
  const T* x;
  double most;

  KOKKOS_FUNCTION void operator()(index_t i) const {
    y[i] = static_cast<T>(most / (1.0 + Kokkos::exp(-static_cast<double>(x[i]))));
  }
};

template <class T>
struct BoundBiasDerivativeKernel {
  T* b;
  const T *a, *y;
  double most;

  KOKKOS_FUNCTION void operator()(index_t i) const {
    const auto value = static_cast<double>(y[i]);
    b[i]             = static_cast<T>(static_cast<double>(a[i]) * value * (1.0 - value / most));
  }
};

template <class Space, class T>
void BiasKernels<Space, T>::expand(const Space& space, T* values, const T* table,
                                   const BiasTable& shape) {
  launch("shard::expand_bias", space, shape.types * shape.heads * shape.pairs(),
         ExpandBiasKernel<T>{values, table, shape});
}

template <class Space, class T>
void BiasKernels<Space, T>::collect(const Space& space, T* table, const BiasSums<T>& sums,
                                    index_t heads, const BiasTable& shape) {
  launch("shard::collect_bias", space, shape.types * shape.heads * shape.rows(),
         CollectBiasKernel<T>{table, sums, heads, shape});
}

template <class Space, class T>
void BiasKernels<Space, T>::bound(const Space& space, T* y, const T* x, index_t count,
                                  double most) {
  launch("shard::bound_bias", space, count, BoundBiasKernel<T>{y, x, most});
}

template <class Space, class T>
void BiasKernels<Space, T>::bound_derivative(const Space& space, T* b, const T* a, const T* y,
                                             index_t count, double most) {
  launch("shard::bound_bias_derivative", space, count, BoundBiasDerivativeKernel<T>{b, a, y, most});
}

template struct BiasKernels<Kokkos::DefaultExecutionSpace, float>;
template struct BiasKernels<Kokkos::DefaultExecutionSpace, double>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct BiasKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct BiasKernels<Kokkos::DefaultHostExecutionSpace, double>;
#endif

}  // namespace shard::impl
