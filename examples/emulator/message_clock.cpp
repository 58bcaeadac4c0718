// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emulator/message_clock.hpp"

#include <Kokkos_Core.hpp>

#include <chrono>
#include <cstring>
#include <vector>

namespace emulator {

namespace {

using Clock = std::chrono::steady_clock;

// Kokkos' callbacks are plain functions: what they count can't live in the object.
double total = 0.0;
std::vector<bool> open_regions;  // whether each is one of messages
Clock::time_point begun;

void push(const char* name) {
  open_regions.push_back(std::strcmp(name, "shard::messages") == 0);
  if (open_regions.back()) begun = Clock::now();
}

void pop() {
  if (open_regions.empty()) return;
  if (open_regions.back()) total += std::chrono::duration<double>(Clock::now() - begun).count();
  open_regions.pop_back();
}

}  // namespace

MessageClock::MessageClock() {
  total = 0.0;
  open_regions.clear();
  Kokkos::Tools::Experimental::set_push_region_callback(push);
  Kokkos::Tools::Experimental::set_pop_region_callback(pop);
}

MessageClock::~MessageClock() {
  Kokkos::Tools::Experimental::set_push_region_callback(nullptr);
  Kokkos::Tools::Experimental::set_pop_region_callback(nullptr);
}

double MessageClock::seconds() const { return total; }

}  // namespace emulator
