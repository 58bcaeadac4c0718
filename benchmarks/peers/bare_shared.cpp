// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bare_shared.hpp"

#include <cstring>

namespace peers {

namespace {

/// Values that lie one after the other: this rank's halo and the other's cells that it takes
/// (forward), or the other's halo and the cells here to which it is added.
template <class T>
struct Run {
  T *halo, *owned;
  index_t count;
};

template <class T>
class Bare : public BareShared {
 public:
  Bare(const Problem& p, const Problem& other, int d, support::Handshake& handshake)
      : handshake_(handshake) {
    for (std::size_t f = 0; f < p.origins.size(); ++f) {
      T *mine = reinterpret_cast<T*>(p.origins[f]), *their = reinterpret_cast<T*>(other.origins[f]);
      add(p, low_halo(p, d), mine, other, high_edge(other, d), their, copied_);
      add(p, high_halo(p, d), mine, other, low_edge(other, d), their, copied_);
      add(other, high_halo(other, d), their, p, low_edge(p, d), mine, added_);
      add(other, low_halo(other, d), their, p, high_edge(p, d), mine, added_);
      add(p, low_halo(p, d), mine, p, low_halo(p, d), mine, own_);
      add(p, high_halo(p, d), mine, p, high_halo(p, d), mine, own_);
    }
  }

  void exchange() override {
    handshake_.meet();
    for (const Run<T>& run : copied_)
      std::memcpy(run.halo, run.owned, static_cast<std::size_t>(run.count) * sizeof(T));
    handshake_.meet();
  }
  void transpose() override {
    handshake_.meet();
    for (const Run<T>& run : added_)
      for (index_t n = 0; n < run.count; ++n) {
        run.owned[n] += run.halo[n];
        run.halo[n] = 0;
      }
    handshake_.meet();
  }
  void transpose_late() override {
    handshake_.meet();
    add_all();
    clear(added_);
    handshake_.meet();
  }
  void transpose_own() override {
    handshake_.meet();
    add_all();
    handshake_.meet();
    clear(own_);
  }

 private:
  /// Lines of two boxes of the same extents; those that follow each other on both sides become one.
  static void add(const Problem& halos, const Box& halo, T* halo_field, const Problem& owners,
                  const Box& owned, T* owned_field, std::vector<Run<T>>& runs) {
    const std::size_t first = runs.size();
    for_lines(halos, halo, [&](index_t offset, index_t count, index_t stride) {
      if (stride == 1)
        runs.push_back({halo_field + offset, nullptr, count});
      else
        for (index_t i = 0; i < count; ++i)
          runs.push_back({halo_field + offset + i * stride, nullptr, 1});
    });
    std::size_t next = first;
    for_lines(owners, owned, [&](index_t offset, index_t count, index_t stride) {
      for (index_t i = 0; i < (stride == 1 ? 1 : count); ++i)
        runs[next++].owned = owned_field + offset + i * stride;
    });
    std::size_t last = first;
    for (std::size_t i = first + 1; i < runs.size(); ++i)
      if (runs[last].halo + runs[last].count == runs[i].halo &&
          runs[last].owned + runs[last].count == runs[i].owned)
        runs[last].count += runs[i].count;
      else
        runs[++last] = runs[i];
    runs.resize(last + 1);
  }

  void add_all() const {
    for (const Run<T>& run : added_)
      for (index_t n = 0; n < run.count; ++n) run.owned[n] += run.halo[n];
  }
  static void clear(const std::vector<Run<T>>& runs) {
    for (const Run<T>& run : runs)
      std::memset(run.halo, 0, static_cast<std::size_t>(run.count) * sizeof(T));
  }

  support::Handshake& handshake_;
  std::vector<Run<T>> copied_, added_, own_;
};

}  // namespace

std::unique_ptr<BareShared> make_bare_shared(const Problem& p, const Problem& other, int d,
                                             support::Handshake& handshake) {
  if (p.value_bytes == 4) return std::make_unique<Bare<float>>(p, other, d, handshake);
  return std::make_unique<Bare<double>>(p, other, d, handshake);
}

}  // namespace peers
