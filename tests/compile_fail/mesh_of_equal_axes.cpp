// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a mesh's axes are different types
#include <shard/shard.hpp>

struct X;
struct Y;

int size(const shard::Mesh<X, Y, X>& mesh) { return mesh.size(); }
