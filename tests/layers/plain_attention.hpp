// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_LAYERS_PLAIN_ATTENTION_HPP
#define SHARD_TESTS_LAYERS_PLAIN_ATTENTION_HPP

#include <array>
#include <cmath>
#include <functional>
#include <vector>

#include "layers/layer_support.hpp"

/// \file
/// Attention by plain loops over all cells.

namespace shard::testing {

/// Whether the cell at `i` attends to that at `j`.
template <int Rank>
using Sees =
    std::function<bool(const std::array<index_t, Rank>& i, const std::array<index_t, Rank>& j)>;

/// What is added to the score of a pair in a head: its value, its tangent, and what takes the
/// gradient of the score.
template <int Rank>
struct PlainBias {
  using Pair = std::function<double(index_t head, const std::array<index_t, Rank>& i,
                                    const std::array<index_t, Rank>& j)>;
  Pair value, tangent;
  std::function<void(index_t head, const std::array<index_t, Rank>& i,
                     const std::array<index_t, Rank>& j, double slope)>
      pull;
};

/// The extents of keys and values for those of queries.
template <std::size_t Rank>
std::array<index_t, Rank> key_extents(std::array<index_t, Rank> n, index_t heads,
                                      index_t key_heads) {
  if (key_heads > 0) n[1] = n[1] / heads * key_heads;
  return n;
}

/// Plain attention over the whole world, and what it gives backward and for tangents. The default
/// of `scale` is 1 / sqrt(features). Heads that share one of k and v follow each other.
template <int Rank>
struct Serial {
  World<Rank> y, ty, dq, dk, dv;

  Serial(const World<Rank>& q, const World<Rank>& k, const World<Rank>& v, const World<Rank>& dy,
         const World<Rank> (&t)[3], index_t heads, const Sees<Rank>& sees,
         const PlainBias<Rank>& bias = {}, double by = 0.0)
      : y(q.n), ty(q.n), dq(q.n), dk(k.n), dv(v.n) {
    const index_t features = q.n[1] / heads, per_key = q.n[1] / k.n[1];
    const double scale = by > 0.0 ? by : 1.0 / std::sqrt(static_cast<double>(features));
    index_t cells      = 1;
    for (int d = 2; d < Rank; ++d) cells *= q.n[static_cast<std::size_t>(d)];
    const auto cell = [&](index_t n, index_t i) {
      std::array<index_t, Rank> c{};
      for (int d = Rank - 1; d >= 2; --d) {
        c[static_cast<std::size_t>(d)] = i % q.n[static_cast<std::size_t>(d)];
        i /= q.n[static_cast<std::size_t>(d)];
      }
      c[0] = n;
      return c;
    };
    for (index_t n = 0; n < q.n[0]; ++n)
      for (index_t h = 0; h < heads; ++h)
        for (index_t i = 0; i < cells; ++i) {
          const auto at = [&](index_t j, index_t f) {
            auto c = cell(n, j);
            c[1]   = h * features + f;
            return q.at(c);
          };
          const auto key_at = [&](index_t j, index_t f) {
            auto c = cell(n, j);
            c[1]   = h / per_key * features + f;
            return k.at(c);
          };
          const auto product = [&](const World<Rank>& a, index_t i_a, const World<Rank>& b,
                                   index_t i_b) {
            double sum = 0.0;
            for (index_t f = 0; f < features; ++f) sum += a.v[at(i_a, f)] * b.v[key_at(i_b, f)];
            return sum;
          };
          std::vector<index_t> seen;
          for (index_t j = 0; j < cells; ++j)
            if (sees(cell(n, i), cell(n, j))) seen.push_back(j);
          std::vector<double> p;
          double sum = 0.0;
          for (index_t j : seen)
            p.push_back(std::exp(scale * product(q, i, k, j) +
                                 (bias.value ? bias.value(h, cell(n, i), cell(n, j)) : 0.0)));
          for (double one : p) sum += one;
          double mean_dp = 0.0, mean_ts = 0.0;
          std::vector<double> ts;
          for (std::size_t s = 0; s < seen.size(); ++s) {
            p[s] = sum == 0.0 ? 0.0 : p[s] / sum;  // a mask may exclude all
            ts.push_back(scale * (product(t[0], i, k, seen[s]) + product(q, i, t[1], seen[s])) +
                         (bias.tangent ? bias.tangent(h, cell(n, i), cell(n, seen[s])) : 0.0));
            mean_dp += p[s] * product(dy, i, v, seen[s]);
            mean_ts += p[s] * ts[s];
          }
          for (std::size_t s = 0; s < seen.size(); ++s) {
            const index_t j    = seen[s];
            const double slope = p[s] * (product(dy, i, v, j) - mean_dp), ds = scale * slope;
            if (bias.pull) bias.pull(h, cell(n, i), cell(n, j), slope);
            for (index_t f = 0; f < features; ++f) {
              y.v[at(i, f)] += p[s] * v.v[key_at(j, f)];
              ty.v[at(i, f)] +=
                  p[s] * ((ts[s] - mean_ts) * v.v[key_at(j, f)] + t[2].v[key_at(j, f)]);
              dv.v[key_at(j, f)] += p[s] * dy.v[at(i, f)];
              dq.v[at(i, f)] += ds * k.v[key_at(j, f)];
              dk.v[key_at(j, f)] += ds * q.v[at(i, f)];
            }
          }
        }
  }
};

/// Who is in whose window: `size` and `shift` for each dimension, and whether the seam is closed.
template <int Rank>
Sees<Rank> same_window(std::array<index_t, Rank> n, std::array<index_t, Rank - 2> size,
                       std::array<index_t, Rank - 2> shift = {},
                       std::array<bool, Rank - 2> masked   = {}) {
  return [=](const std::array<index_t, Rank>& i, const std::array<index_t, Rank>& j) {
    for (std::size_t d = 0; d < Rank - 2; ++d) {
      const index_t m = n[d + 2], a = (i[d + 2] - shift[d] + m) % m,
                    b = (j[d + 2] - shift[d] + m) % m;
      if (a / size[d] != b / size[d]) return false;
      if (masked[d] && (i[d + 2] < shift[d]) != (j[d + 2] < shift[d])) return false;
    }
    return true;
  };
}

}  // namespace shard::testing

#endif
