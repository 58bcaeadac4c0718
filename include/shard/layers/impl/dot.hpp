// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_DOT_HPP
#define SHARD_LAYERS_IMPL_DOT_HPP

/// \file
/// `dot`, for tests of <A x, y> = <x, A' y>: a reduction of any field.

#include "shard/reduce/reductions.hpp"

#endif
