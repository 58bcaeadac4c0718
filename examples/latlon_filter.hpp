// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A filter beside the poles of a latitude-longitude grid, by Fourier transforms of whole circles.
#ifndef SHARD_EXAMPLES_LATLON_FILTER_HPP
#define SHARD_EXAMPLES_LATLON_FILTER_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "latlon_grid.hpp"

namespace latlon {

using Complex = Kokkos::complex<double>;

/// How many circles of latitude are transformed together: on a processor, by vector instructions.
constexpr int together = std::is_same_v<Space, Kokkos::DefaultHostExecutionSpace> ? 4 : 1;
/// A number of each of these circles.
struct alignas(together * sizeof(double)) Bundle {
  double real[together], imag[together];
  KOKKOS_FUNCTION Complex operator[](int c) const { return {real[c], imag[c]}; }
  KOKKOS_FUNCTION void set(int c, const Complex& z) { real[c] = z.real(), imag[c] = z.imag(); }
};

/// Fourier transforms of any length (Stockham's form of the fast transform), by a team.
struct Fourier {
  explicit Fourier(int count)
      : length(count), wave("exp(-2 pi i k / length)", static_cast<std::size_t>(count)) {
    const auto host = Kokkos::create_mirror_view(wave);
    for (int k = 0; k < length; ++k)
      host(k) = Kokkos::polar(1.0, -2 * pi * static_cast<double>(k) / static_cast<double>(length));
    Kokkos::deep_copy(wave, host);
  }
  /// Transforms x; y is room for as many numbers. The result is in x, which may have become y.
  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team, Bundle*& x, Bundle*& y) const {
    for (int left = length, done = 1; left > 1;) {
      int radix = left % 4 == 0 ? 4 : 2;
      while (left % radix != 0) ++radix;
      const int apart = length / radix, step = team.team_size(), rest = step % done;
      for (int k = team.team_rank(), place = k % done; k < apart; k += step) {
        butterfly(radix, apart, done, k - place, x + k, y + place + radix * (k - place));
        place += place + rest < done ? rest : rest - done;  // k % done
      }
      team.team_barrier();
      Kokkos::kokkos_swap(x, y);
      left /= radix, done *= radix;
    }
  }

  int length;
  Kokkos::View<Complex*, Space::memory_space> wave;

 private:
  KOKKOS_FUNCTION void butterfly(int radix, int apart, int done, int turn,
                                 const Bundle* KOKKOS_RESTRICT x, Bundle* KOKKOS_RESTRICT y) const {
    if (radix == 4) {
      const Complex once = wave(turn), twice = wave(2 * turn), thrice = wave(3 * turn);
      for (int n = 0; n < together; ++n) {
        const Complex even = x[0][n], odd = x[apart][n], even2 = x[2 * apart][n],
                      odd2 = x[3 * apart][n];
        const Complex a = even + even2, b = even - even2, c = odd + odd2, d = odd - odd2,
                      id(d.imag(), -d.real());
        y[0].set(n, a + c);
        y[done].set(n, once * (b + id));
        y[2 * done].set(n, twice * (a - c));
        y[3 * done].set(n, thrice * (b - id));
      }
      return;
    }
    for (int j = 0; j < radix; ++j)
      for (int n = 0; n < together; ++n) {
        Complex sum = x[0][n];
        for (int r = 1; r < radix; ++r) sum += wave(j * r % radix * apart) * x[r * apart][n];
        y[j * done].set(n, wave(j * turn) * sum);
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
        stretch(numbers(2 * row_count, [&](double n) {
          return n > 0 ? 2 / Kokkos::sin(n * m.step / 2) : std::numeric_limits<double>::max();
        })) {}

  /// Whole circles of latitude: a field, the global row of its row 0, and cosines by global row.
  template <class F>
  struct Rows {
    F field;
    index_t first;
    Numbers cosine;
  };
  /// A kernel: row j of a and row j of b, one as the real part and one as the imaginary part. They
  /// should be of like size, for each gets the other's rounding.
  template <class F>
  struct Kernel {
    static constexpr bool is_complex = std::is_same_v<typename F::value_type, Complex>;
    index_t rows, beside_pole;
    Fourier fourier;
    Numbers stretch;
    Rows<F> a, b;

    template <class Team>
    KOKKOS_FUNCTION void operator()(const Team& team) const {
      const int first = team.league_rank() * together;
      bool any        = false;
      for (int n = 0; n < together; ++n) any = any || is_filtered(first + n);
      if (!any) return;
      auto* x = static_cast<Bundle*>(
          team.team_scratch(1).get_shmem_aligned(room_of(fourier.length), alignof(Bundle)));
      smooth<false>(team, first, x);
      if constexpr (is_complex) {
        team.team_barrier();
        smooth<true>(team, first, x);
      }
    }
    static KOKKOS_FUNCTION std::size_t room_of(int length) {
      return 2 * static_cast<std::size_t>(length) * sizeof(Bundle);
    }

   private:
    KOKKOS_FUNCTION bool is_filtered(int j) const {
      if (j >= a.field.extent(0)) return false;
      const auto row = a.first + a.field.to_global(0, j);
      return row < beside_pole || row >= rows - beside_pole;
    }
    /// The inverse transform is that of the conjugates. Of complex fields it does the real or the
    /// imaginary parts. A row that isn't filtered takes part as zeros.
    template <bool Imaginary, class Team>
    KOKKOS_FUNCTION void smooth(const Team& team, int first, Bundle* x) const {
      const int count = fourier.length, begin = team.team_rank(), step = team.team_size();
      Bundle* y = x + count;
      double a_cosine[together], b_cosine[together];
      for (int n = 0; n < together; ++n) {
        const int j       = first + n;
        const bool filter = is_filtered(j);
        a_cosine[n]       = filter ? a.cosine(a.first + a.field.to_global(0, j)) : 0;
        b_cosine[n]       = filter ? b.cosine(b.first + b.field.to_global(0, j)) : 0;
        for (int i = begin; i < count; i += step)
          x[i].set(n, filter
                          ? Complex(part<Imaginary>(a.field(j, i)), part<Imaginary>(b.field(j, i)))
                          : Complex(0));
      }
      team.team_barrier();
      fourier(team, x, y);
      for (int k = begin; k < count; k += step)
        damp(stretch(k), a_cosine, b_cosine, x[k], x[k > 0 ? count - k : 0], y[k]);
      team.team_barrier();
      Kokkos::kokkos_swap(x, y);
      fourier(team, x, y);
      for (int n = 0; n < together; ++n)
        for (int i = begin; is_filtered(first + n) && i < count; i += step) {
          part<Imaginary>(a.field(first + n, i)) = x[i].real[n];
          part<Imaginary>(b.field(first + n, i)) = -x[i].imag[n];
        }
    }
    template <bool Imaginary, class T>
    static KOKKOS_FUNCTION double& part(T& value) {
      if constexpr (!is_complex)
        return value;
      else if constexpr (Imaginary)
        return value.imag();
      else
        return value.real();
    }
    KOKKOS_FUNCTION void damp(double stretched, const double* a_cosine, const double* b_cosine,
                              const Bundle& x, const Bundle& mirrored,
                              Bundle& KOKKOS_RESTRICT y) const {
      const double scale = 0.5 / fourier.length;
      for (int n = 0; n < together; ++n) {
        const Complex here = x[n], there = Kokkos::conj(mirrored[n]);
        const double a_factor = scale * Kokkos::min(1.0, stretched * a_cosine[n]),
                     b_factor = scale * Kokkos::min(1.0, stretched * b_cosine[n]);
        y.set(n, Kokkos::conj(a_factor * (here + there) + b_factor * (here - there)));
      }
    }
  };

  /// Filters in place.
  template <class F>
  void operator()(const Space& space, const Rows<F>& a, const Rows<F>& b) const {
    const auto count = static_cast<int>(a.field.extent(0));
    if (count == 0) return;
    constexpr int threads =
        std::is_same_v<Space, Kokkos::DefaultHostExecutionSpace> ? 1 : 128;  // of a team
    Kokkos::TeamPolicy<Space> policy(space, (count + together - 1) / together, threads);
    policy.set_scratch_size(
        1, Kokkos::PerTeam(static_cast<int>(Kernel<F>::room_of(fourier.length + 1))));
    Kokkos::parallel_for("polar filter", policy,
                         Kernel<F>{rows, beside_pole, fourier, stretch, a, b});
  }

  index_t rows, beside_pole;  ///< `beside_pole`: rows that are filtered at each pole
  Fourier fourier;
  Numbers stretch;  ///< by wave number: the factor is min(1, stretch cos(latitude))
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
    using Rows = PolarRows::Rows<Circles<T>>;
    for (std::size_t k = 0; k < 2; ++k)
      filter_(space, Rows{circles_[k], 0, cosine_[k]}, Rows{circles_[k + 2], north(), cosine_[k]});
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
    const auto rows = global_rows(f, {{first, end}});
    const std::pair lines(rows.boxes[0].begin[0], rows.boxes[0].end[0] + 2);  // and the halo's two
    return {mesh_,
            Kokkos::subview(f.view(), lines, Kokkos::ALL),
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
