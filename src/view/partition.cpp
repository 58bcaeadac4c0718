// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/view/partition.hpp"

#include <algorithm>
#include <utility>

#include "shard/base/error.hpp"
#include "shard/view/impl/block_table.hpp"
#include "shard/view/impl/index_halo.hpp"

namespace shard {

namespace {

index_t ceil_divide(index_t a, index_t b) { return (a + b - 1) / b; }

void require_sizes(const char* function, index_t size, int parts) {
  if (size < 0 || parts < 1)
    impl::throw_argument(function,
                         {"a partition needs a size of at least 0 and at least 1 part, got size ",
                          impl::text(size), " over ", impl::text(parts), " parts"});
}

}  // namespace

Partition Partition::balanced(index_t size, int parts) {
  require_sizes("Partition::balanced", size, parts);
  Partition p;
  p.parts_     = parts;
  p.base_size_ = p.size_ = size;
  p.rehash();
  return p;
}

Partition Partition::ceil(index_t size, int parts) {
  require_sizes("Partition::ceil", size, parts);
  Partition p = balanced(size, parts);
  p.kind_     = Kind::ceil;
  p.rehash();
  return p;
}

Partition Partition::explicit_begins(std::vector<index_t> begins) {
  if (begins.size() < 2 || begins.front() != 0 || !std::is_sorted(begins.begin(), begins.end()))
    impl::throw_argument("Partition::explicit_begins",
                         {"the begins must start with 0, never fall and end with the size, got ",
                          impl::text(begins.data(), static_cast<int>(begins.size()))});
  Partition p;
  p.kind_      = Kind::listed;
  p.parts_     = static_cast<int>(begins.size()) - 1;
  p.base_size_ = p.size_ = begins.back();
  p.begins_              = std::make_shared<const std::vector<index_t>>(std::move(begins));
  p.rehash();
  return p;
}

Partition Partition::explicit_counts(const std::vector<index_t>& counts) {
  std::vector<index_t> begins{0};
  for (const index_t count : counts) {
    if (count < 0)
      impl::throw_argument("Partition::explicit_counts",
                           {"counts are not negative, got ",
                            impl::text(counts.data(), static_cast<int>(counts.size()))});
    begins.push_back(begins.back() + count);
  }
  return explicit_begins(std::move(begins));
}

Partition Partition::with(Step step) const {
  if (empty())
    impl::throw_argument("Partition", {"nothing can be derived from an empty partition"});
  if (step.stride < 1 || step.size < 0)
    impl::throw_argument(
        "Partition",
        {"a derived partition needs a stride of at least 1 and a size of at least 0, got stride ",
         impl::text(step.stride), " and size ", impl::text(step.size)});
  Partition p           = *this;
  p.size_               = step.size;
  p.space_              = nullptr;
  std::vector<Step> all = steps();
  all.push_back(step);
  p.steps_ = std::make_shared<const std::vector<Step>>(std::move(all));
  p.rehash();
  return p;
}

Partition Partition::staggered() const { return with({Derivation::staggered, 1, size_ + 1}); }
Partition Partition::coarsened(index_t stride, index_t size) const {
  return with({Derivation::coarsened, stride, size});
}
Partition Partition::refined(index_t stride, index_t size) const {
  return with({Derivation::refined, stride, size});
}

const std::vector<Partition::Step>& Partition::steps() const {
  static const std::vector<Step> no_steps;
  return steps_ ? *steps_ : no_steps;
}

bool Partition::same_steps(const Partition& other) const {
  return steps_ == other.steps_ || steps() == other.steps();
}

index_t Partition::begin(int r) const {
  if (r == 0) return 0;
  if (r == parts_) return size_;
  index_t b = 0;
  switch (kind_) {
    case Kind::balanced: {
      const index_t share = base_size_ / parts_, more = base_size_ % parts_;
      b = r * share + std::min<index_t>(r, more);
      break;
    }
    case Kind::ceil: b = std::min(base_size_, r * ceil_divide(base_size_, parts_)); break;
    case Kind::listed: b = (*begins_)[static_cast<std::size_t>(r)]; break;
  }
  for (const Step& step : steps()) switch (step.how) {
      case Derivation::staggered: b = b < step.size - 1 ? b : step.size; break;
      case Derivation::coarsened: b = std::min(step.size, ceil_divide(b, step.stride)); break;
      case Derivation::refined: b = std::min(step.size, b * step.stride); break;
    }
  return b;
}

int Partition::first_ending_after(index_t g) const {
  int low = 0, high = parts_;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (end(middle) > g)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

int Partition::owner(index_t g) const {
  if (g < 0 || g >= size_)
    impl::throw_argument("Partition::owner",
                         {"index ", impl::text(g), " is outside [0, ", impl::text(size_), ")"});
  return first_ending_after(g);
}

const impl::IndexHalo* Partition::index_halo() const {
  return space_ && !space_->has_blocks ? static_cast<const impl::IndexHalo*>(space_.get())
                                       : nullptr;
}

const impl::BlockSpace* Partition::block_space() const {
  return space_ && space_->has_blocks ? static_cast<const impl::BlockSpace*>(space_.get())
                                      : nullptr;
}

bool Partition::same_space(const Partition& other) const {
  // two grids of the same blocks are equal
  return space_ == other.space_ || (block_space() != nullptr && other.block_space() != nullptr &&
                                    space_->identity == other.space_->identity);
}

bool operator==(const Partition& a, const Partition& b) {
  if (a.parts_ != b.parts_ || a.size_ != b.size_ || !a.same_space(b)) return false;
  // equal construction, as of copies: skip the comparison of parts
  if (a.kind_ == b.kind_ && a.base_size_ == b.base_size_ && a.begins_ == b.begins_ &&
      a.same_steps(b))
    return true;
  for (int r = 1; r < a.parts_; ++r)
    if (a.begin(r) != b.begin(r)) return false;
  return true;
}

std::string Partition::describe() const {
  if (empty()) return "none";
  std::string words = kind_ == Kind::balanced ? "balanced "
                      : kind_ == Kind::ceil   ? "ceil "
                                              : "listed ";
  words += impl::text(base_size_) + " over " + impl::text(parts_);
  if (kind_ == Kind::listed) {
    constexpr std::size_t shown = 17;
    words += " " + impl::text(begins_->data(), static_cast<int>(std::min(begins_->size(), shown)));
    if (begins_->size() > shown)
      words += " hash " + impl::text(static_cast<index_t>(hash(impl::hash_seed) >> 1));
  }
  for (const Step& step : steps()) {
    const char* how = step.how == Derivation::staggered   ? ", staggered to "
                      : step.how == Derivation::coarsened ? ", coarsened to "
                                                          : ", refined to ";
    words += how + impl::text(step.size) + " by " + impl::text(step.stride);
  }
  if (space_)
    words += (space_->has_blocks ? ", blocks of " : ", index space ") +
             std::string(space_->space->name) + " number " +
             impl::text(static_cast<index_t>(space_->identity >> 1));
  return words;
}

Partition impl::with_space(Partition partition, std::shared_ptr<const PartitionSpace> space) {
  partition.space_ = std::move(space);
  partition.rehash();
  return partition;
}

std::uint64_t Partition::hash(std::uint64_t seed) const {
  return impl::hash_bytes(&hash_, sizeof(hash_), seed);
}

void Partition::rehash() {
  const index_t head[] = {static_cast<index_t>(kind_), parts_, base_size_, size_};
  hash_                = impl::hash_bytes(head, sizeof(head), impl::hash_seed);
  if (begins_) hash_ = impl::hash_bytes(begins_->data(), begins_->size() * sizeof(index_t), hash_);
  for (const Step& step : steps()) {
    const index_t words[] = {static_cast<index_t>(step.how), step.stride, step.size};
    hash_                 = impl::hash_bytes(words, sizeof(words), hash_);
  }
  if (space_) hash_ = impl::hash_bytes(&space_->identity, sizeof(space_->identity), hash_);
}

}  // namespace shard
