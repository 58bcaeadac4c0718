// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: Interpolate has one rule
// expect: an area's output has its own partition, not Meets
// expect: an area's ratio of inputs to outputs is at least one
// expect: the finer level is finer by a factor of at least one
// expect: Interpolate's options are one of Linear, LinearCorners, Nearest, Bicubic
// expect: interpolation is in one, two or three dimensions
#include <shard/layers/resampling/interpolate.hpp>

shard::Interpolate<2, shard::Nearest, shard::Bicubic> two_rules;
shard::Interpolate<2, shard::Area<2>, shard::Meets<2>> area_that_meets;
shard::Area<0> nothing;
shard::Meets<0> infinitely_coarse;
shard::Interpolate<2, shard::Reflect> no_rule;
shard::Interpolate<4> of_four;
