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
    const auto pairs    = shape.pairs_of(row);
    double sum          = 0.0;
    for (index_t chunk = 0; chunk < sums.chunks; ++chunk)
      for (index_t h = first; h < last; ++h) {
        const T* const of =
            sums.values + ((chunk * shape.types + type) * heads + h) * tokens * tokens;
        for (index_t a = 0; a < pairs.count[0]; ++a)
          for (index_t b = 0; b < pairs.count[1]; ++b) {
            const T* const line = of + place(pairs.query, a, b) * tokens + place(pairs.key, a, b);
            for (index_t c = 0; c < pairs.count[2]; ++c)
              sum += static_cast<double>(line[c * (tokens + 1)]);
          }
      }
    T& to = table[shape.at(row, type, head)];
    to    = static_cast<T>(static_cast<double>(to) + sum);
  }

 private:
  /// The number of a token: `a` and `b` after the first along two dimensions.
  KOKKOS_FORCEINLINE_FUNCTION index_t place(const index_t (&first)[3], index_t a, index_t b) const {
    return ((first[0] + a) * shape.tokens[1] + first[1] + b) * shape.tokens[2] + first[2];
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

SHARD_KERNELS(BiasKernels)

}  // namespace shard::impl
