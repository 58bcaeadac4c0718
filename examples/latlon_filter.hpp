// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A filter beside the poles of a latitude-longitude grid, by Fourier transforms of whole circles.
#ifndef SHARD_EXAMPLES_LATLON_FILTER_HPP
#define SHARD_EXAMPLES_LATLON_FILTER_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "latlon_grid.hpp"

namespace latlon {

/// Fourier transforms of any length (Stockham's form of the fast transform), by a team.
struct Fourier {
  using Complex = Kokkos::complex<double>;
  explicit Fourier(int count)
      : length(count), wave("exp(-2 pi i k / length)", static_cast<std::size_t>(count)) {
    const auto host = Kokkos::create_mirror_view(wave);
    for (int k = 0; k < length; ++k)
      host(k) = Kokkos::polar(1.0, -2 * pi * static_cast<double>(k) / static_cast<double>(length));
    Kokkos::deep_copy(wave, host);
  }
  /// Transforms x; y is room for as many numbers. The result is in x, which may have become y.
  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team, Complex*& x, Complex*& y) const {
    for (int left = length, done = 1; left > 1;) {
      int radix = left % 4 == 0 ? 4 : 2;
      while (left % radix != 0) ++radix;
      for (int k = team.team_rank(); k < length / radix; k += team.team_size())
        butterfly(radix, done, k - k % done, x + k, y + k % done + radix * (k - k % done));
      team.team_barrier();
      Kokkos::kokkos_swap(x, y);
      left /= radix, done *= radix;
    }
  }

  int length;
  Kokkos::View<Complex*, Space::memory_space> wave;

 private:
  KOKKOS_FUNCTION void butterfly(int radix, int done, int turn, const Complex* x,
                                 Complex* y) const {
    const int apart = length / radix;
    if (radix == 4) {
      const Complex a = x[0] + x[2 * apart], b = x[0] - x[2 * apart], c = x[apart] + x[3 * apart],
                    d = x[apart] - x[3 * apart], id(d.imag(), -d.real());
      y[0]            = a + c;
      y[done]         = wave(turn) * (b + id);
      y[2 * done]     = wave(2 * turn) * (a - c);
      y[3 * done]     = wave(3 * turn) * (b - id);
      return;
    }
    for (int j = 0; j < radix; ++j) {
      Complex sum = x[0];
      for (int r = 1; r < radix; ++r) sum += wave(j * r % radix * apart) * x[r * apart];
      y[j * done] = wave(j * turn) * sum;
    }
  }
};

/// Damps short waves along rows within 30 degrees of a pole: wave number n by the factor min(1,
/// cos(latitude) / (cos(60 degrees) sin(n step / 2))). It is symmetric, so it is its own adjoint.
struct PolarRows {
  PolarRows(index_t row_count, const Metric& m)
      : rows(row_count),
        beside_pole((row_count + 5) / 6),
        fourier(static_cast<int>(2 * row_count)),
        half_sine(numbers(2 * row_count, [&](double n) { return Kokkos::sin(n * m.step / 2); })) {}

  /// A kernel: rows of two fields. Those of real fields are transformed together, one as the real
  /// part and one as the imaginary part.
  template <class F>
  struct Kernel {
    using Complex                    = Fourier::Complex;
    static constexpr bool is_complex = std::is_same_v<typename F::value_type, Complex>;
    index_t rows, beside_pole, first;  // `first`: the global row of the fields' row 0
    Fourier fourier;
    Numbers half_sine, a_cosine, b_cosine;
    F a, b;

    template <class Team>
    KOKKOS_FUNCTION void operator()(const Team& team) const {
      const index_t row = first + a.to_global(0, team.league_rank());
      if (row >= beside_pole && row < rows - beside_pole) return;
      auto* room = static_cast<Complex*>(
          team.team_scratch(1).get_shmem_aligned(room_of(fourier.length), alignof(Complex)));
      if constexpr (is_complex) {
        smooth(team, room, a, a, a_cosine(row), a_cosine(row));
        team.team_barrier();
        smooth(team, room, b, b, b_cosine(row), b_cosine(row));
      } else {
        smooth(team, room, a, b, a_cosine(row), b_cosine(row));
      }
    }

    static KOKKOS_FUNCTION std::size_t room_of(int length) {
      return 2 * static_cast<std::size_t>(length) * sizeof(Complex);
    }

   private:
    /// A row of numbers whose real part is of f and whose imaginary part is of g, with the cosines
    /// of both. The inverse transform is that of the conjugates.
    template <class Team>
    KOKKOS_FUNCTION void smooth(const Team& team, Complex* x, const F& f, const F& g,
                                double f_cosine, double g_cosine) const {
      const int j = team.league_rank(), n = fourier.length;
      Complex* y = x + n;
      for (int i = team.team_rank(); i < n; i += team.team_size())
        if constexpr (is_complex)
          x[i] = f(j, i);
        else
          x[i] = Complex(f(j, i), g(j, i));
      team.team_barrier();
      fourier(team, x, y);
      for (int k = team.team_rank(); k < n; k += team.team_size()) {
        const Complex here = x[k], there = Kokkos::conj(x[k > 0 ? n - k : 0]);
        y[k] = Kokkos::conj(factor(f_cosine, k) * (here + there) +
                            factor(g_cosine, k) * (here - there));
      }
      team.team_barrier();
      Kokkos::kokkos_swap(x, y);
      fourier(team, x, y);
      for (int i = team.team_rank(); i < n; i += team.team_size())
        if constexpr (is_complex)
          f(j, i) = Kokkos::conj(x[i]);
        else
          f(j, i) = x[i].real(), g(j, i) = -x[i].imag();
    }
    KOKKOS_FUNCTION double factor(double cosine, int k) const {
      const double damped = half_sine(k) > 2 * cosine ? 2 * cosine / half_sine(k) : 1.0;
      return damped / (2 * fourier.length);
    }
  };

  /// Filters whole circles of latitude in place, with these cosines by global row.
  template <class F>
  void operator()(const Space& space, const F& a, const Numbers& a_cosine, const F& b,
                  const Numbers& b_cosine, index_t first = 0) const {
    if (a.extent(0) == 0) return;
    constexpr int threads =
        std::is_same_v<Space, Kokkos::DefaultHostExecutionSpace> ? 1 : 128;  // of a row
    Kokkos::TeamPolicy<Space> policy(space, static_cast<int>(a.extent(0)), threads);
    policy.set_scratch_size(
        1, Kokkos::PerTeam(static_cast<int>(Kernel<F>::room_of(fourier.length + 1))));
    Kokkos::parallel_for(
        "polar filter", policy,
        Kernel<F>{rows, beside_pole, first, fourier, half_sine, a_cosine, b_cosine, a, b});
  }

  index_t rows, beside_pole;  ///< `beside_pole`: rows that are filtered at each pole
  Fourier fourier;
  Numbers half_sine;
};

/// The same of fields that are cut in both directions: the rows beside the poles go to whole
/// circles, in one message for each pair of ranks, and back.
template <class T>
class PolarFilter {
 public:
  using Fields = std::vector<Wests<T>>;

  /// For fields with the partitions of `cells`. The cosines are those of the first and the second
  /// field's rows.
  PolarFilter(const Mesh& mesh, const Centres<T>& cells, const Metric& m, Numbers first_cosine,
              Numbers second_cosine)
      : mesh_(mesh),
        parts_(cells.partitions()),
        filter_(cells.global_extent(0), m),
        cosine_{std::move(first_cosine), std::move(second_cosine)} {
    for (int k = 0; k < 4; ++k)
      circles_.push_back(
          Circles<T>("circles", mesh, {filter_.beside_pole, cells.global_extent(1)}));
  }

  /// The rows of two fields beside the poles, to be filtered together.
  template <class A, class B>
  Fields caps(const A& a, const B& b) const {
    return {cap(a, 0), cap(b, 0), cap(a, north()), cap(b, north())};
  }
  void operator()(const Space& space, const Fields& caps) const {
    shard::redistribute(space, circles_, caps);
    filter_(space, circles_[0], cosine_[0], circles_[1], cosine_[1]);
    filter_(space, circles_[2], cosine_[0], circles_[3], cosine_[1], north());
    shard::redistribute(space, caps, circles_);
  }
  const PolarRows& rows() const { return filter_; }

  /// This rank's points of a field that the filter may change, and the others.
  template <class F>
  auto filtered(const F& f) const {
    return global_rows(f, {{0, filter_.beside_pole}, {north(), f.global_extent(0)}});
  }
  template <class F>
  auto others(const F& f) const {
    return global_rows(f, {{filter_.beside_pole, north()}});
  }

 private:
  index_t north() const { return filter_.rows - filter_.beside_pole; }
  /// `beside_pole` rows from the global row `first` as a field of their own.
  template <class F>
  Wests<T> cap(const F& f, index_t first) const {
    const index_t end = first + filter_.beside_pole;
    std::vector<index_t> begins;
    for (int r = 0; r <= parts_[0].parts(); ++r)
      begins.push_back(std::clamp(parts_[0].begin(r), first, end) - first);
    const auto& box = global_rows(f, {{first, end}}).boxes[0];  // and the halo's rows around it
    return {mesh_,
            Kokkos::subview(f.view(), std::pair(box.begin[0], box.end[0] + 2), Kokkos::ALL),
            {shard::Partition::explicit_begins(begins), parts_[1]}};
  }

  Mesh mesh_;
  std::array<shard::Partition, 2> parts_;
  PolarRows filter_;
  std::array<Numbers, 2> cosine_;
  std::vector<Circles<T>> circles_;
};

}  // namespace latlon

#endif
