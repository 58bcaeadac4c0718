// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_TILE_HPP
#define SHARD_SRC_LAYERS_DEVICE_TILE_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "shard/base/impl/launch.hpp"
#include "shard/layers/product_precision.hpp"
#include "unroll.hpp"

namespace shard::impl {

/// The number of team threads that one thread executes: one on a device, all of them on a host,
/// where a team has one thread. Kernels have the state of a thread in an array of this length.
template <class Space, int Threads>
inline constexpr int lanes_of = is_host_space_v<Space> ? Threads : 1;

/// What the teams of a multiprocessor share.
struct Multiprocessor {
  int scratch;  ///< bytes
  int threads;
};
/// Those of the GPU for which Kokkos was built; of an NVIDIA GPU that isn't known here, the
/// smallest.
#if defined(KOKKOS_ARCH_AMPERE80)
inline constexpr Multiprocessor multiprocessor{164 * 1024, 2048};
#elif defined(KOKKOS_ARCH_AMPERE87)
inline constexpr Multiprocessor multiprocessor{164 * 1024, 1536};
#elif defined(KOKKOS_ARCH_AMPERE86) || defined(KOKKOS_ARCH_ADA89) || \
    defined(KOKKOS_ARCH_BLACKWELL120) || defined(KOKKOS_ARCH_BLACKWELL121)
inline constexpr Multiprocessor multiprocessor{100 * 1024, 1536};
#elif defined(KOKKOS_ARCH_VOLTA)
inline constexpr Multiprocessor multiprocessor{96 * 1024, 2048};
#elif defined(KOKKOS_ENABLE_HIP)
inline constexpr Multiprocessor multiprocessor{64 * 1024, 2048};
#elif defined(KOKKOS_ENABLE_CUDA) && !defined(KOKKOS_ARCH_HOPPER90) && \
    !defined(KOKKOS_ARCH_BLACKWELL100) && !defined(KOKKOS_ARCH_BLACKWELL103)
inline constexpr Multiprocessor multiprocessor{64 * 1024, 1024};
#else
inline constexpr Multiprocessor multiprocessor{228 * 1024, 2048};
#endif

/// How many teams, at most `most`, fit on a multiprocessor together. Kokkos doesn't launch a kernel
/// whose launch bounds ask for more.
constexpr int resident_teams(int most, int threads, std::size_t scratch,
                             const Multiprocessor& on = multiprocessor) {
  // for each team the system and Kokkos take less than 2 KiB more, and 8 bytes for each thread
  const int by_scratch = on.scratch / (static_cast<int>(scratch) + 2048 + 8 * threads);
  const int fit        = by_scratch < on.threads / threads ? by_scratch : on.threads / threads;
  return fit < 1 ? 1 : fit < most ? fit : most;
}

/// The most scratch memory that a team of the kernel asks for.
template <class Functor>
constexpr std::size_t most_scratch_bytes() {
  if constexpr (requires { Functor::most_scratch_bytes(); })
    return Functor::most_scratch_bytes();
  else
    return Functor::scratch_bytes();
}

/// Runs a team kernel that has `threads`, `lanes`, `teams()`, `scratch_bytes()` and `resident`: the
/// teams of a multiprocessor that its registers allow.
template <class Space, class Functor>
void launch_teams(const std::string& label, const Space& space, const Functor& functor) {
  if (functor.teams() == 0) return;
  constexpr int resident =
      resident_teams(Functor::resident, Functor::threads, most_scratch_bytes<Functor>());
  Kokkos::parallel_for(
      label,
      team_policy<Functor, Kokkos::LaunchBounds<Functor::threads, resident>>(
          space, functor.teams(), Functor::threads / Functor::lanes, functor.scratch_bytes()),
      functor);
}

/// True if Space has tensor cores for products of T in TF32 and bfloat16: a GPU of NVIDIA, if
/// Kokkos was built for sm_80 or later. The fake device of the tests has, and rounds in the same
/// way.
template <class Space, class T>
inline constexpr bool has_tensor_tiles_v = false;
#ifdef KOKKOS_ENABLE_CUDA
#if !defined(KOKKOS_ARCH_MAXWELL) && !defined(KOKKOS_ARCH_PASCAL) && \
    !defined(KOKKOS_ARCH_VOLTA) && !defined(KOKKOS_ARCH_TURING75)
template <>
inline constexpr bool has_tensor_tiles_v<Kokkos::Cuda, float> = true;
#endif
#else
template <class Space>
requires(is_host_space_v<Space>) inline constexpr bool has_tensor_tiles_v<Space, float> = true;
#endif

/// Returns the value, hidden from the device's optimiser. The compiler then has an address in a
/// register, and doesn't compute it again from its parts in each iteration.
template <class V>
KOKKOS_INLINE_FUNCTION V kept(V value) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(V) == 8)
    asm("" : "+l"(value));
  else
    asm("" : "+r"(value));
#endif
  return value;
}

/// The widest type that a device loads by one instruction.
template <class T>
struct alignas(16) LoadVector {
  static constexpr int width = 16 / sizeof(T);
  T at[width];
};

/// A tile of a matrix product. A team computes Rows x Columns sums; a thread has LaneRows x
/// LaneColumns of them in registers. Depth terms are in scratch memory while the next ones are
/// loaded (double buffering). Terms are added in ascending order.
template <class T, int Rows, int Columns, int Depth, int LaneRows, int LaneColumns>
struct ProductTile {
  static constexpr int rows = Rows, columns = Columns, depth = Depth;
  static constexpr int lane_rows = LaneRows, lane_columns = LaneColumns;
  static constexpr int width     = LoadVector<T>::width;
  static constexpr int row_lanes = Rows / LaneRows, column_lanes = Columns / LaneColumns;
  static constexpr int threads = row_lanes * column_lanes;
  // padded against bank conflicts of threads that store neighbouring terms
  static constexpr int row_pitch = Rows + width, column_pitch = Columns + width;
  static constexpr int buffer  = Depth * (row_pitch + column_pitch);
  static constexpr int bytes   = 2 * buffer * static_cast<int>(sizeof(T));
  static constexpr int a_loads = Rows * Depth / threads, b_loads = Columns * Depth / threads;
  static_assert(LaneRows % width == 0 && LaneColumns % width == 0);
  static_assert(a_loads * threads == Rows * Depth && b_loads * threads == Columns * Depth);

  /// A thread's sums, and the operands that it has loaded but not yet stored to scratch memory.
  struct Registers {
    T sums[LaneRows][LaneColumns];
    T a[a_loads], b[b_loads];
  };

  /// The row in the tile of row i of a thread's sums.
  KOKKOS_INLINE_FUNCTION static int row(int thread, int i) {
    return (i / width * row_lanes + thread / column_lanes) * width + i % width;
  }
  KOKKOS_INLINE_FUNCTION static int column(int thread, int j) {
    return (j / width * column_lanes + thread % column_lanes) * width + j % width;
  }

  /// Adds Depth terms from scratch memory.
  KOKKOS_INLINE_FUNCTION static void multiply(Registers& r, int thread, const T* a_terms,
                                              const T* b_terms) {
    using Vector     = LoadVector<T>;
    const T* const a = a_terms + thread / column_lanes * width;
    const T* const b = b_terms + thread % column_lanes * width;
    SHARD_UNROLL
    for (int k = 0; k < Depth; ++k) {
      Vector u[LaneRows / width], v[LaneColumns / width];
      SHARD_UNROLL
      for (int i = 0; i < LaneRows / width; ++i)
        u[i] = *reinterpret_cast<const Vector*>(a + k * row_pitch + i * row_lanes * width);
      SHARD_UNROLL
      for (int j = 0; j < LaneColumns / width; ++j)
        v[j] = *reinterpret_cast<const Vector*>(b + k * column_pitch + j * column_lanes * width);
      SHARD_UNROLL
      for (int i = 0; i < LaneRows; ++i) {
        SHARD_UNROLL
        for (int j = 0; j < LaneColumns; ++j)
          r.sums[i][j] += u[i / width].at[i % width] * v[j / width].at[j % width];
      }
    }
  }
};

/// Rounds to TF32: 10 bits of mantissa, ties away from zero.
KOKKOS_INLINE_FUNCTION std::uint32_t tf32_bits(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
#else
  const auto bits = Kokkos::bit_cast<std::uint32_t>(value);
  return value == value ? (bits + 0x1000U) & 0xffffe000U
                        : bits;  // the sum would overflow for a NaN
#endif
}

/// Rounds to bfloat16: 7 bits of mantissa, ties to even. The upper half of the result.
KOKKOS_INLINE_FUNCTION std::uint32_t bfloat16_bits(float value) {
  const auto bits = Kokkos::bit_cast<std::uint32_t>(value);
  return value == value ? (bits + 0x7fffU + (bits >> 16U & 1U)) & 0xffff0000U
                        : (bits | 0x400000U) & 0xffff0000U;  // a NaN stays one
}

/// Two values in bfloat16, the first in the lower half.
KOKKOS_INLINE_FUNCTION std::uint32_t bfloat16_pair(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#else
  return bfloat16_bits(first) >> 16U | bfloat16_bits(second);
#endif
}

/// What a factor becomes.
template <ProductPrecision Factors>
KOKKOS_INLINE_FUNCTION float rounded_factor(float value) {
  return Kokkos::bit_cast<float>(Factors == ProductPrecision::tf32 ? tf32_bits(value)
                                                                   : bfloat16_bits(value));
}

/// A ProductTile of float on tensor cores: factors are rounded to TF32 or bfloat16, products are
/// exact, sums are float. A warp computes 32 x WarpColumns sums by instructions for 16 rows, 8
/// columns, and 8 terms in TF32, 8 or 16 in bfloat16.
template <int Rows, int Columns, int Depth, int WarpColumns, ProductPrecision Factors>
struct TensorTile {
  static constexpr int rows = Rows, columns = Columns, depth = Depth;
  static constexpr int lane_rows = 4, lane_columns = WarpColumns / 4;
  static constexpr int warps_across = Columns / WarpColumns,
                       threads      = Rows / 32 * warps_across * 32;
  // no bank conflicts: a warp loads eight rows and four terms at once
  static constexpr int row_pitch = Rows + 8, column_pitch = Columns + 8;
  static constexpr int buffer  = Depth * (row_pitch + column_pitch);
  static constexpr int bytes   = 2 * buffer * static_cast<int>(sizeof(float));
  static constexpr int a_loads = Rows * Depth / threads, b_loads = Columns * Depth / threads;
  static_assert(Rows % 32 == 0 && Columns % WarpColumns == 0 && WarpColumns % 8 == 0 &&
                Depth % 8 == 0);
  static_assert(a_loads * threads == Rows * Depth && b_loads * threads == Columns * Depth);
  static_assert(Factors != ProductPrecision::float32);

  struct Registers {
    float sums[lane_rows][lane_columns];
    float a[a_loads], b[b_loads];
  };

  KOKKOS_INLINE_FUNCTION static int row(int thread, int i) {
    return thread / 32 / warps_across * 32 + i * 8 + thread % 32 / 4;
  }
  KOKKOS_INLINE_FUNCTION static int column(int thread, int j) {
    return thread / 32 % warps_across * WarpColumns + j / 2 * 8 + thread % 4 * 2 + j % 2;
  }

  KOKKOS_INLINE_FUNCTION static void multiply(Registers& r, int thread, const float* a_terms,
                                              const float* b) {
    const float* const a = a_terms + row(thread, 0);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const float* const first_b = b + thread / 32 % warps_across * WarpColumns + thread % 32 / 4;
    if constexpr (Factors == ProductPrecision::tf32)
      multiply_tf32(r, thread, a, first_b);
    else
      multiply_bfloat16(r, thread, a, first_b);
#else
    for (int k = 0; k < Depth; ++k)
      for (int i = 0; i < lane_rows; ++i)
        for (int j = 0; j < lane_columns; ++j)
          r.sums[i][j] += rounded_factor<Factors>(a[k * row_pitch + i * 8]) *
                          rounded_factor<Factors>(b[k * column_pitch + column(thread, j)]);
#endif
  }

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

  __device__ static void multiply_tf32(Registers& r, int thread, const float* a, const float* b) {
    SHARD_UNROLL
    for (int k = thread % 4; k < Depth; k += 8) {
      std::uint32_t u[lane_rows][2];
      SHARD_UNROLL
      for (int i = 0; i < lane_rows; ++i) {
        u[i][0] = tf32_bits(a[k * row_pitch + i * 8]);
        u[i][1] = tf32_bits(a[(k + 4) * row_pitch + i * 8]);
      }
      SHARD_UNROLL
      for (int j = 0; j < lane_columns; j += 2) {
        const std::uint32_t v0 = tf32_bits(b[k * column_pitch + j * 4]),
                            v1 = tf32_bits(b[(k + 4) * column_pitch + j * 4]);
        SHARD_UNROLL
        for (int i = 0; i < lane_rows; i += 2)
          asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, "
              "%7}, {%8, %9}, "
              "{%0, %1, %2, %3};"
              : "+f"(r.sums[i][j]), "+f"(r.sums[i][j + 1]), "+f"(r.sums[i + 1][j]),
                "+f"(r.sums[i + 1][j + 1])
              : "r"(u[i][0]), "r"(u[i + 1][0]), "r"(u[i][1]), "r"(u[i + 1][1]), "r"(v0), "r"(v1));
      }
    }
  }

  /// A thread's pair of terms is (k, k + 4) for both operands, and not (k, k + 1) as in the
  /// instruction's description: the sum is the same, without bank conflicts.
  __device__ static void multiply_bfloat16(Registers& r, int thread, const float* a,
                                           const float* b) {
    constexpr int pairs = Depth % 16 == 0 ? 2 : 1;  // of terms in an instruction
    SHARD_UNROLL
    for (int k = thread % 4; k < Depth; k += 8 * pairs) {
      std::uint32_t u[lane_rows][pairs];
      SHARD_UNROLL
      for (int i = 0; i < lane_rows; ++i) {
        SHARD_UNROLL
        for (int p = 0; p < pairs; ++p)
          u[i][p] = bfloat16_pair(a[(k + 8 * p) * row_pitch + i * 8],
                                  a[(k + 8 * p + 4) * row_pitch + i * 8]);
      }
      SHARD_UNROLL
      for (int j = 0; j < lane_columns; j += 2) {
        std::uint32_t v[pairs];
        SHARD_UNROLL
        for (int p = 0; p < pairs; ++p)
          v[p] = bfloat16_pair(b[(k + 8 * p) * column_pitch + j * 4],
                               b[(k + 8 * p + 4) * column_pitch + j * 4]);
        SHARD_UNROLL
        for (int i = 0; i < lane_rows; i += 2) {
          float(&s)[lane_columns] = r.sums[i];
          float(&t)[lane_columns] = r.sums[i + 1];
          if constexpr (pairs == 2)
            asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, "
                "%6, %7}, {%8, %9}, "
                "{%0, %1, %2, %3};"
                : "+f"(s[j]), "+f"(s[j + 1]), "+f"(t[j]), "+f"(t[j + 1])
                : "r"(u[i][0]), "r"(u[i + 1][0]), "r"(u[i][1]), "r"(u[i + 1][1]), "r"(v[0]),
                  "r"(v[1]));
          else
            asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, "
                "{%6}, "
                "{%0, %1, %2, %3};"
                : "+f"(s[j]), "+f"(s[j + 1]), "+f"(t[j]), "+f"(t[j + 1])
                : "r"(u[i][0]), "r"(u[i + 1][0]), "r"(v[0]));
        }
      }
    }
  }
#endif
};

/// Calls run(factors) if products of T in Space use tensor cores: the device has them, and the
/// precision isn't float32. `decltype(factors)::value` is the precision. Returns whether it did.
template <class Space, class T, class Run>
bool with_tensor_cores(const Run& run) {
  using P = ProductPrecision;
  if constexpr (has_tensor_tiles_v<Space, T>) {
    const P precision = product_precision();
    if (precision == P::tf32) run(std::integral_constant<P, P::tf32>());
    if (precision == P::bfloat16) run(std::integral_constant<P, P::bfloat16>());
    return precision != P::float32;
  }
  return false;
}

/// Adds the products of `terms` terms to the threads' sums. `source.load(lane, thread)` loads the
/// next Depth terms of both operands into the lane's registers, with zeros after the last term;
/// `source.store(lane, thread, a, b)` stores them to scratch memory.
template <class Tile, int Lanes, class Team, class Source, class Lane, class T>
KOKKOS_INLINE_FUNCTION void multiply_tile(const Team& team, const Source& source,
                                          Lane (&lanes)[Lanes], int terms, T* scratch) {
  if (terms <= 0) return;
  const int first = team.team_rank() * Lanes;
  SHARD_UNROLL
  for (int l = 0; l < Lanes; ++l) {
    source.load(lanes[l], first + l);
    source.store(lanes[l], first + l, scratch, scratch + Tile::depth * Tile::row_pitch);
  }
  team.team_barrier();
  int now = 0;
  for (int k = Tile::depth;; k += Tile::depth) {
    const bool more = k < terms;
    T* const next   = scratch + (Tile::buffer - now);
    SHARD_UNROLL
    for (int l = 0; l < Lanes; ++l) {
      if (more) source.load(lanes[l], first + l);
      Tile::multiply(lanes[l].registers, first + l, scratch + now,
                     scratch + now + Tile::depth * Tile::row_pitch);
      if (more) source.store(lanes[l], first + l, next, next + Tile::depth * Tile::row_pitch);
    }
    if (!more) return;
    team.team_barrier();
    now = Tile::buffer - now;
  }
}

}  // namespace shard::impl

#endif
