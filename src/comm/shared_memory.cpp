// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cstring>
#include <utility>

#include "shard/base/impl/watchdog.hpp"
#include "shard/comm/shared_field.hpp"
#include "shard/comm/impl/shared_pool.hpp"

namespace shard::impl {

namespace {

class SharedFieldMemory : public FieldMemory {
 public:
  SharedFieldMemory(std::shared_ptr<SharedPool> pool, SharedPiece piece, std::size_t bytes)
      : pool_(std::move(pool)), piece_(std::move(piece)) {
    std::memset(piece_.data(), 0, bytes);
  }
  // user-provided, because hipcc makes defaulted destructors for the device too
  ~SharedFieldMemory() override {}  // NOLINT(modernize-use-equals-default)

  void* data() const override { return piece_.data(); }
  std::shared_ptr<FieldMemory> more(std::size_t bytes) const override {
    SharedPiece piece = pool_->allocate_here(bytes);
    if (piece.data() == nullptr) return nullptr;
    return std::make_shared<SharedFieldMemory>(pool_, std::move(piece), bytes);
  }

 private:
  std::shared_ptr<SharedPool> pool_;
  SharedPiece piece_;
};

}  // namespace

std::shared_ptr<FieldMemory> shared_memory_if(MeshState& mesh, std::size_t bytes, bool wanted) {
  const Watched watched({.what = "other ranks to allocate shared memory", .rank = mesh.rank()});
  const auto pool   = SharedPool::of(mesh);
  SharedPiece piece = pool->allocate(wanted ? bytes : 0);
  if (piece.data() == nullptr) return nullptr;
  return std::make_shared<SharedFieldMemory>(pool, std::move(piece), bytes);
}

}  // namespace shard::impl
