// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "timing.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <vector>

#include "peak.hpp"
#include "shard/base/impl/host_space.hpp"

namespace {

clockid_t used_clock =
    shard::impl::is_host_space_v<Space> ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;

/// Seconds of this process, all threads together, or of the clock.
double processor_time() {
  timespec now{};
  clock_gettime(used_clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// GB/s of a copy of `bytes`, half of them read, half written.
double copy_rate(double bytes) {
  const auto half = static_cast<std::size_t>(bytes / 2);
  std::vector<char> from(half, 1), to(half, 2);
  return bytes * 1e-9 / seconds_of(0.02, [&] { std::memcpy(to.data(), from.data(), half); });
}

}  // namespace

void use_wall_clock() { used_clock = CLOCK_MONOTONIC; }

double seconds_of(double least, const std::function<void()>& call) {
  call();
  double fastest     = 1e300;
  int calls          = 0;
  const double begin = processor_time();
  for (double from = begin; calls < 3 || from - begin < least; ++calls) {
    call();
    const double now = processor_time();
    fastest          = std::min(fastest, now - from);
    from             = now;
  }
  return fastest;
}

template <class T>
void answer(double least, const Work& work, const std::function<void()>& forward,
            const std::function<void()>& backward, const std::function<void()>& of_input,
            const std::function<void()>& of_parameters) {
  const bool computes = work.flops > 0;
  const auto limit    = [&](double bytes) {
    return computes ? register_peak<T>(3) : copy_rate(bytes);
  };
  const double peak          = limit(work.forward_bytes),
               backward_peak = computes ? peak : limit(work.backward_bytes);
  const auto share           = [&](double seconds, double flops, double bytes, double rate) {
    return (computes ? flops : bytes) * 1e-9 / seconds / rate;
  };
  const double there = seconds_of(least, forward), back = seconds_of(least, backward);
  std::printf(
      "{\"forward\": %.6e, \"backward\": %.6e, \"forward_share\": %.3f, "
      "\"backward_share\": %.3f, \"limit\": %.1f",
      there, back, share(there, work.flops, work.forward_bytes, peak),
      share(back, 2 * work.flops, work.backward_bytes, backward_peak), peak);
  if (of_input)
    std::printf(", \"of_input\": %.3f", share(seconds_of(least, of_input), work.flops, 0, peak));
  if (of_parameters)
    std::printf(", \"of_parameters\": %.3f",
                share(seconds_of(least, of_parameters), work.flops, 0, peak));
  std::printf("}\n");
}

template void answer<float>(double, const Work&, const std::function<void()>&,
                            const std::function<void()>&, const std::function<void()>&,
                            const std::function<void()>&);
template void answer<double>(double, const Work&, const std::function<void()>&,
                             const std::function<void()>&, const std::function<void()>&,
                             const std::function<void()>&);
