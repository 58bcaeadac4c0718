// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bare_shared.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

namespace peers {

namespace {

/// The usual short rows as constants, so that their loop is none.
template <class Body>
void with_count(index_t count, const Body& body) {
  switch (count) {
    case 1: body(std::integral_constant<index_t, 1>{}); break;
    case 2: body(std::integral_constant<index_t, 2>{}); break;
    case 3: body(std::integral_constant<index_t, 3>{}); break;
    case 5: body(std::integral_constant<index_t, 5>{}); break;
    default: body(count);
  }
}

/// Where a box of values lies: its first value, and strides of three loops.
template <class T>
struct Side {
  T* first = nullptr;
  index_t stride[dims]{};
};

/// A box in two places, as loops from slow to fast; those that lie one after the other in both are
/// one. The last is over values that lie together in both, if some do.
template <class T>
struct Pair {
  Side<T> halo, owned;
  index_t n[dims] = {1, 1, 1};

  index_t cells() const { return n[0] * n[1] * n[2]; }
  /// The same, with `packed` in place of the owned cells: one value after the other.
  Pair with_owned(T* packed) const {
    Pair pair  = *this;
    pair.owned = {packed, {n[1] * n[2], n[2], 1}};
    return pair;
  }
  Pair with_halo(T* packed) const {
    Pair pair = *this;
    pair.halo = {packed, {n[1] * n[2], n[2], 1}};
    return pair;
  }
};

template <class T>
Pair<T> pair_of(const Problem& p, const Box& halo, T* halo_field, const Problem& q,
                const Box& owned, T* owned_field) {
  std::array<std::size_t, dims> order{0, 1, 2};  // from fast to slow
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return p.stride[a] < p.stride[b]; });
  Pair<T> pair;
  pair.halo.first  = halo_field;
  pair.owned.first = owned_field;
  int k            = dims;
  for (const std::size_t i : order) {
    pair.halo.first += halo.begin[i] * p.stride[i];
    pair.owned.first += owned.begin[i] * q.stride[i];
    const index_t n = halo.extent[i];
    if (n == 1) continue;
    if (k < dims && p.stride[i] == pair.n[k] * pair.halo.stride[k] &&
        q.stride[i] == pair.n[k] * pair.owned.stride[k]) {
      pair.n[k] *= n;
      continue;
    }
    --k;
    pair.n[k]            = n;
    pair.halo.stride[k]  = p.stride[i];
    pair.owned.stride[k] = q.stride[i];
  }
  return pair;
}

/// Calls row(halo, owned, count, halo stride, owned stride) for rows; the count is a constant where
/// rows are short and contiguous.
template <class T, class Row>
void for_rows(const Pair<T>& p, const Row& row) {
  const index_t hs = p.halo.stride[2], os = p.owned.stride[2];
  const auto all = [&](auto count, auto h, auto o) {
    for (index_t i = 0; i < p.n[0]; ++i)
      for (index_t j = 0; j < p.n[1]; ++j)
        row(p.halo.first + i * p.halo.stride[0] + j * p.halo.stride[1],
            p.owned.first + i * p.owned.stride[0] + j * p.owned.stride[1], count, h, o);
  };
  constexpr std::integral_constant<index_t, 1> one;
  if (hs <= 1 && os <= 1)
    with_count(p.n[2], [&](auto count) { all(count, one, one); });
  else
    all(p.n[2], hs, os);
}

struct CopyOwned {
  template <class T, class Count, class H, class O>
  void operator()(T* __restrict halo, const T* __restrict owned, Count count, H h, O o) const {
    if constexpr (std::is_same_v<H, index_t>)
      for (index_t n = 0; n < count; ++n) halo[n * h] = owned[n * o];
    else
      std::memcpy(halo, owned, static_cast<std::size_t>(count) * sizeof(T));
  }
};
/// The other way round; `Clear`: and the halo is set to zero.
template <bool Clear>
struct CopyHalo {
  template <class T, class Count, class H, class O>
  void operator()(T* __restrict halo, T* __restrict owned, Count count, H h, O o) const {
    for (index_t n = 0; n < count; ++n) {
      owned[n * o] = halo[n * h];
      if constexpr (Clear) halo[n * h] = 0;
    }
  }
};
template <bool Clear>
struct AddHalo {
  template <class T, class Count, class H, class O>
  void operator()(T* __restrict halo, T* __restrict owned, Count count, H h, O o) const {
    for (index_t n = 0; n < count; ++n) {
      owned[n * o] += halo[n * h];
      if constexpr (Clear) halo[n * h] = 0;
    }
  }
};
struct ClearHalo {
  template <class T, class Count, class H, class O>
  void operator()(T* halo, T*, Count count, H h, O) const {
    if constexpr (std::is_same_v<H, index_t>)
      for (index_t n = 0; n < count; ++n) halo[n * h] = 0;
    else
      std::memset(halo, 0, static_cast<std::size_t>(count) * sizeof(T));
  }
};

/// What moves along one dimension, field after field.
template <class T>
struct Phase {
  bool self = false;
  std::vector<Pair<T>> copied, added;  // to this rank's halo; from the other's
};

template <class T>
class Bare : public BareShared {
 public:
  Bare(const Problem& p, const Problem& other, const BareWindows& windows,
       support::Handshake& handshake)
      : handshake_(handshake), windows_(windows) {
    int rank = 0;
    MPI_Comm_rank(p.comm, &rank);
    for (int d = 0; d < dims; ++d) {
      if (p.width[static_cast<std::size_t>(d)] == 0) continue;
      Phase<T> phase;
      phase.self         = p.neighbours[static_cast<std::size_t>(d)].low == rank;
      const Problem& far = phase.self ? p : other;
      for (std::size_t f = 0; f < p.origins.size(); ++f) {
        T *here = reinterpret_cast<T*>(p.origins[f]), *there = reinterpret_cast<T*>(far.origins[f]);
        phase.copied.push_back(pair_of(p, low_halo(p, d), here, far, high_edge(far, d), there));
        phase.copied.push_back(pair_of(p, high_halo(p, d), here, far, low_edge(far, d), there));
        // in the order in which the other packs its halo: low, then high
        phase.added.push_back(pair_of(far, low_halo(far, d), there, p, high_edge(p, d), here));
        phase.added.push_back(pair_of(far, high_halo(far, d), there, p, low_edge(p, d), here));
      }
      phases_.push_back(std::move(phase));
    }
  }

  void exchange() override { forward(0, fields() * 2); }
  void exchange_singly() override {
    for (std::size_t f = 0; f < fields(); ++f) forward(2 * f, 2 * f + 2);
  }
  void transpose() override {
    backward([](const Phase<T>& phase) {
      for (const Pair<T>& pair : phase.added) for_rows(pair, AddHalo<true>{});
    });
  }
  void transpose_late() override {
    backward([](const Phase<T>& phase) {
      for (const Pair<T>& pair : phase.added) for_rows(pair, AddHalo<false>{});
      for (const Pair<T>& pair : phase.added) for_rows(pair, ClearHalo{});
    });
  }
  void transpose_own() override {
    for (std::size_t k = phases_.size(); k-- > 0;) {
      const Phase<T>& phase = phases_[k];
      if (!phase.self) handshake_.meet();
      for (const Pair<T>& pair : phase.added) for_rows(pair, AddHalo<false>{});
      if (!phase.self) handshake_.meet();
      for (const Pair<T>& pair : phase.copied) for_rows(pair, ClearHalo{});
    }
  }

  void exchange_packed() override {
    for (const Phase<T>& phase : phases_) {
      if (phase.self) {
        for (const Pair<T>& pair : phase.copied) for_rows(pair, CopyOwned{});
        continue;
      }
      T* at = reinterpret_cast<T*>(windows_.forward.mine);
      for (const Pair<T>& pair : phase.added) {
        for_rows(pair.with_halo(at), CopyOwned{});
        at += pair.cells();
      }
      handshake_.meet();
      at = reinterpret_cast<T*>(windows_.forward.theirs);
      for (const Pair<T>& pair : phase.copied) {
        for_rows(pair.with_owned(at), CopyOwned{});
        at += pair.cells();
      }
      handshake_.meet();
    }
  }
  void transpose_packed() override {
    for (std::size_t k = phases_.size(); k-- > 0;) {
      const Phase<T>& phase = phases_[k];
      if (phase.self) {
        for (const Pair<T>& pair : phase.added) for_rows(pair, AddHalo<true>{});
        continue;
      }
      T* at = reinterpret_cast<T*>(windows_.back.mine);
      for (const Pair<T>& pair : phase.copied) {
        for_rows(pair.with_owned(at), CopyHalo<true>{});
        at += pair.cells();
      }
      handshake_.meet();
      at = reinterpret_cast<T*>(windows_.back.theirs);
      for (const Pair<T>& pair : phase.added) {
        for_rows(pair.with_halo(at), AddHalo<false>{});
        at += pair.cells();
      }
      handshake_.meet();
    }
  }

 private:
  std::size_t fields() const { return phases_.front().copied.size() / 2; }

  /// Before a phase the other's cells must be written, those that phases before it fill too; at the
  /// end it must have read.
  void forward(std::size_t first, std::size_t last) const {
    bool met = false;
    for (const Phase<T>& phase : phases_) {
      if (!phase.self) handshake_.meet();
      for (std::size_t i = first; i < last; ++i) for_rows(phase.copied[i], CopyOwned{});
      met = met || !phase.self;
    }
    if (met) handshake_.meet();
  }
  template <class Body>
  void backward(const Body& body) const {
    bool met = false;
    for (std::size_t k = phases_.size(); k-- > 0;) {
      if (!phases_[k].self) handshake_.meet();
      body(phases_[k]);
      met = met || !phases_[k].self;
    }
    if (met) handshake_.meet();
  }

  support::Handshake& handshake_;
  BareWindows windows_;
  std::vector<Phase<T>> phases_;
};

}  // namespace

std::unique_ptr<BareShared> make_bare_shared(const Problem& p, const Problem& other,
                                             const BareWindows& windows,
                                             support::Handshake& handshake) {
  if (p.value_bytes == 4) return std::make_unique<Bare<float>>(p, other, windows, handshake);
  return std::make_unique<Bare<double>>(p, other, windows, handshake);
}

}  // namespace peers
