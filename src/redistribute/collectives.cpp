// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/redistribute/collectives_call.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include "block_kernels.hpp"
#include "collective_messages.hpp"
#include "shard/base/error.hpp"
#include "shard/base/watchdog.hpp"
#include "shard/comm/device_space.hpp"

namespace shard::impl {

namespace {

template <class Space>
inline constexpr bool on_host_v =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename Space::memory_space>::accessible;

/// Where the messages of collectives lie: two buffers, and their copies on the host where MPI takes
/// no device memory. Kept by the mesh for each axis, and no smaller than they once were.
template <class Memory>
struct CollectiveBuffers : CachedPlan {
  using Bytes     = Kokkos::View<std::byte*, Memory>;
  using HostBytes = Kokkos::View<std::byte*, Kokkos::HostSpace>;
  Bytes send, receive;
  HostBytes host_send, host_receive;
  bool staged = false;

  template <class Buffer>
  static void grow(Buffer& buffer, const std::string& label, index_t bytes) {
    if (static_cast<index_t>(buffer.extent(0)) >= bytes) return;
    buffer = Buffer();  // the old one first, so that there are never both
    buffer = Buffer(Kokkos::view_alloc(Kokkos::WithoutInitializing, label),
                    static_cast<std::size_t>(bytes));
  }
  void reserve(index_t send_bytes, index_t receive_bytes) {
    grow(send, "shard: sent by a collective", send_bytes);
    grow(receive, "shard: received by a collective", receive_bytes);
    if (!staged) return;
    grow(host_send, "shard: sent by a collective", send_bytes);
    grow(host_receive, "shard: received by a collective", receive_bytes);
  }
  void forget() {
    send = receive = Bytes();
    host_send = host_receive = HostBytes();
  }
  bool holds(index_t send_bytes, index_t receive_bytes) const {
    return static_cast<index_t>(send.extent(0)) >= send_bytes &&
           static_cast<index_t>(receive.extent(0)) >= receive_bytes;
  }
};

constexpr const char* kind_names[] = {"without arithmetic",
                                      "bool",
                                      "int8",
                                      "int16",
                                      "int32",
                                      "int64",
                                      "uint8",
                                      "uint16",
                                      "uint32",
                                      "uint64",
                                      "half_t",
                                      "bhalf_t",
                                      "float32",
                                      "float64",
                                      "complex64",
                                      "complex128"};

/// All digits: two numbers that differ have different texts.
std::string text_of(double value) {
  char words[32];
  std::snprintf(words, sizeof words, "%.17g", value);
  return words;
}

std::string dims_of(const CollectiveCall& call, const PlainView& view) {
  return text(view.extent.data(), call.rank);
}

/// One collective from its checks to its end.
template <class Space>
class Collective {
  using Memory =
      std::conditional_t<on_host_v<Space>, Kokkos::HostSpace, typename Space::memory_space>;

 public:
  Collective(const Space& space, const CollectiveCall& call)
      : space_(space),
        call_(call),
        comm_(call.mesh->axis_comm(call.axis)),
        size_(call.mesh->extent(call.axis)),
        coordinate_(call.mesh->coordinate(call.axis)) {}

  /// Collective: throws on every rank unless all have the same arguments.
  void agree(const std::string& details) {
    const Watched watched({.what = "other ranks to call a collective", .rank = call_.mesh->rank()});
    std::string wrong;
    index_t limit = 0;
    try {
      limit = message_limit();
    } catch (const ArgumentError& error) {
      wrong = error.what();
    }
    const std::string mine =
        wrong.empty()
            ? std::string(call_.function) + " of " + text(call_.value_size) + "-byte values (" +
                  kind_names[static_cast<std::size_t>(call_.kind)] + "), to " +
                  dims_of(call_, call_.to) + " from " + dims_of(call_, call_.from) + details +
                  (call_.first_is_fast ? ", both LayoutLeft" : "") + ", messages of at most " +
                  text(limit) + " bytes"
            : wrong;
    if (size_ > 1) require_agreement(comm_, call_.function, mine);
    if (!wrong.empty()) throw ArgumentError(wrong);
    messages_ = {comm_, limit};
  }

  /// A dimension counted from 0.
  int dim(const char* name, int given) const {
    if (given < -call_.rank || given >= call_.rank)
      throw_argument(call_.function,
                     {name, " is ", text(given), "; Views of rank ", text(call_.rank),
                      " have dimensions 0 to ", text(call_.rank - 1), ", or -1 for the last"});
    return given < 0 ? given + call_.rank : given;
  }
  /// Throws unless the extent of `to` in a dimension is `wanted`.
  void require_extent(int d, index_t wanted, const char* why) const {
    const index_t is = call_.to.extent[Geometry::at(d)];
    if (is != wanted)
      throw_argument(call_.function,
                     {"dimension ", text(d), " of the View that is written has extent ", text(is),
                      ", the one that is read ", text(call_.from.extent[Geometry::at(d)]), why,
                      " makes ", text(wanted)});
  }
  void require_divides(int d) const {
    const index_t n = call_.from.extent[Geometry::at(d)];
    if (n % size_ != 0)
      throw_argument(call_.function, {"dimension ", text(d), " has extent ", text(n), ", which ",
                                      text(size_), " ranks along the axis don't divide"});
  }
  /// Throws unless the Views' extents are equal in all dimensions but these two.
  void require_same(int except = -1, int except_too = -1) const {
    for (int d = 0; d < call_.rank; ++d)
      if (d != except && d != except_too) require_extent(d, call_.from.extent[Geometry::at(d)], "");
  }
  void require_scalable() const {
    const bool scales = call_.kind == ValueKind::f16 || call_.kind == ValueKind::bf16 ||
                        call_.kind == ValueKind::f32 || call_.kind == ValueKind::f64 ||
                        call_.kind == ValueKind::c32 || call_.kind == ValueKind::c64;
    if (call_.scale != 1 && !scales)
      throw_argument(call_.function,
                     {"the scale is ", text_of(call_.scale),
                      " and the values are integers; scale them yourself, or leave it 1"});
  }
  void require_root() const {
    if (call_.root < 0 || call_.root >= size_)
      throw_argument(call_.function, {"the root is ", text(call_.root),
                                      "; the axis has ranks 0 to ", text(size_ - 1)});
  }

  /// The buffers, at least that large. Collective where they have to grow.
  void reserve(index_t send_bytes, index_t receive_bytes) {
    using Buffers = CollectiveBuffers<Memory>;
    const PlanKey key{0x636f6c6c65637469ULL,
                      static_cast<std::uint64_t>(call_.axis) << 1U | (on_host_v<Space> ? 0U : 1U)};
    buffers_ = std::static_pointer_cast<Buffers>(call_.mesh->find(key));
    if (!buffers_) {
      auto made = std::make_shared<Buffers>();
      if (!on_host_v<Space> && size_ > 1)
        made->staged = !decide_device_messages(comm_, device_kind_of<Memory>).direct;
      call_.mesh->keep(key, made);
      buffers_ = made;
    }
    if (buffers_->holds(send_bytes, receive_bytes)) return;
    std::string wrong;
    try {
      buffers_->reserve(send_bytes, receive_bytes);
    } catch (const std::exception& error) {
      wrong = std::string("no memory for its messages: ") + error.what();
    }
    try {
      require_no_error(comm_, call_.function, wrong);
    } catch (...) {
      buffers_->forget();  // all ranks alike, so that they agree about the next time
      throw;
    }
  }
  /// A buffer for this call alone. Local.
  void reserve_here(index_t bytes) {
    buffers_ = std::make_shared<CollectiveBuffers<Memory>>();
    buffers_->reserve(bytes, 0);
  }

  /// `blocks` blocks of a View along a dimension to or from a buffer, one after the other.
  void pack(int d, int blocks) {
    if (values() > 0) run_copy("shard::pack", block_copy(call_.from, d, blocks, true));
  }
  void unpack(int d, int blocks, bool from_receive) {
    BlockCopy copy = block_copy(call_.to, d, blocks, false);
    copy.from      = (from_receive ? buffers_->receive : buffers_->send).data();
    if (values(call_.to) > 0) run_copy("shard::unpack", copy);
  }
  /// What is sent becomes the scaled reduction of what came (`parts` > 1) or of itself.
  void combine(index_t count, int parts) {
    if (count == 0) return;
    Combine c;
    c.parts_at          = (parts > 1 ? buffers_->receive : buffers_->send).data();
    c.out               = buffers_->send.data();
    c.count             = count;
    c.parts             = parts;
    c.kind              = call_.kind;
    c.op                = call_.op;
    c.scale             = call_.scale;
    const index_t items = on_host_v<Space> ? (count + Combine::chunk - 1) / Combine::chunk : count;
    Kokkos::parallel_for("shard::combine",
                         Kokkos::RangePolicy<Space, Kokkos::IndexType<index_t>>(space_, 0, items),
                         CombineKernel<on_host_v<Space>>{c});
  }
  /// Scales what is sent, if it is to be scaled.
  void scale(index_t count) {
    if (call_.scale != 1) combine(count, 1);
  }
  void clear_sent(index_t first, index_t last) {
    if (first < last)
      Kokkos::deep_copy(
          space_, Kokkos::subview(buffers_->send, Kokkos::pair<index_t, index_t>(first, last)),
          std::byte{0});
  }

  /// Sends what is packed. use(messages, send, receive) is given host memory where MPI needs it.
  template <class Use>
  void send(index_t send_bytes, index_t receive_bytes, const Use& use) {
    using Range       = Kokkos::pair<index_t, index_t>;
    const bool staged = buffers_->staged;
    if (staged && send_bytes > 0)
      Kokkos::deep_copy(space_, Kokkos::subview(buffers_->host_send, Range(0, send_bytes)),
                        Kokkos::subview(buffers_->send, Range(0, send_bytes)));
    fence();
    {
      const Watched watched({.what = "the values of a collective", .rank = call_.mesh->rank()});
      if (staged)
        use(messages_, buffers_->host_send.data(), buffers_->host_receive.data());
      else
        use(messages_, buffers_->send.data(), buffers_->receive.data());
    }
    if (staged && receive_bytes > 0)
      Kokkos::deep_copy(space_, Kokkos::subview(buffers_->receive, Range(0, receive_bytes)),
                        Kokkos::subview(buffers_->host_receive, Range(0, receive_bytes)));
  }
  void all_to_all(index_t block) {
    send(block * size_, block * size_, [&](const BlockMessages& m, std::byte* out, std::byte* in) {
      m.all_to_all(out, in, block);
    });
  }
  void all_gather(index_t block) {
    send(block, block * size_, [&](const BlockMessages& m, std::byte* out, std::byte* in) {
      m.all_gather(out, in, block);
    });
  }
  void gather(index_t block) {
    send(block, coordinate_ == call_.root ? block * size_ : 0,
         [&](const BlockMessages& m, std::byte* out, std::byte* in) {
           m.gather(out, in, block, call_.root);
         });
  }
  /// The root's packed values into the others' received ones.
  void broadcast(index_t bytes) {
    const bool root = coordinate_ == call_.root;
    send(root ? bytes : 0, root ? 0 : bytes,
         [&](const BlockMessages& m, std::byte* out, std::byte* in) {
           m.broadcast(root ? out : in, bytes, call_.root);
         });
  }
  void fence() const { space_.fence("shard: a collective's buffers change hands"); }

  /// Values of a View.
  index_t values(const PlainView& view) const {
    index_t n = 1;
    for (int d = 0; d < call_.rank; ++d) n *= view.extent[Geometry::at(d)];
    return n;
  }
  index_t values() const { return values(call_.from); }
  index_t value_size() const { return call_.value_size; }
  int size() const { return size_; }
  int coordinate() const { return coordinate_; }

 private:
  /// The copy between a View and blocks in the buffer; in a block dimensions stand in their order,
  /// the last one the fastest, or the first.
  BlockCopy block_copy(const PlainView& view, int cut, int blocks, bool packs) const {
    BlockCopy copy;
    copy.unit      = call_.unit;
    const auto add = [&](index_t n, index_t view_stride, index_t buffer_stride) {
      if (packs)
        copy.add(n, view_stride, buffer_stride);
      else
        copy.add(n, buffer_stride, view_stride);
    };
    add(call_.value_size / call_.unit, call_.unit, call_.unit);
    index_t bytes = call_.value_size;
    for (int i = 0; i < call_.rank; ++i) {
      const auto d    = Geometry::at(call_.first_is_fast ? i : call_.rank - 1 - i);
      const index_t n = view.extent[d] / (static_cast<int>(d) == cut ? blocks : 1);
      add(n, view.stride[d], bytes);
      bytes *= n;
    }
    const auto c = Geometry::at(cut);
    add(blocks, view.extent[c] / blocks * view.stride[c], bytes);
    if (copy.dims == 0) {  // one unit
      copy.dims      = 1;
      copy.extent[0] = 1;
    }
    copy.from = packs ? view.data : nullptr;
    copy.to   = packs ? buffers_->send.data() : view.data;
    return copy;
  }
  void run_copy(const char* label, const BlockCopy& copy) const {
    constexpr index_t piece = 65536;  // units of a line that one thread copies
    const index_t pieces = on_host_v<Space> ? (copy.extent[0] + piece - 1) / piece : copy.extent[0];
    Kokkos::parallel_for(
        label,
        Kokkos::RangePolicy<Space, Kokkos::IndexType<index_t>>(space_, 0, copy.lines() * pieces),
        BlockCopyKernel<on_host_v<Space>>{copy, pieces});
  }

  Space space_;
  const CollectiveCall& call_;
  MPI_Comm comm_;
  int size_, coordinate_;
  BlockMessages messages_{};
  std::shared_ptr<CollectiveBuffers<Memory>> buffers_;
};

std::string along(const CollectiveCall& call) { return ", dimension " + text(call.dim); }
std::string scaled_by(const CollectiveCall& call) {
  constexpr const char* names[] = {"sum", "max", "min"};
  return std::string(", ") + names[static_cast<std::size_t>(call.op)] + ", scale " +
         text_of(call.scale);
}

/// The reduction of all ranks' packed values, a share of which each rank makes. Padded to equal
/// shares, of which the values' tail has nothing.
template <class Space>
index_t reduce_shares(Collective<Space>& all) {
  const index_t share = (all.values() + all.size() - 1) / all.size();
  const index_t bytes = share * all.value_size();
  all.reserve(bytes * all.size(), bytes * all.size());
  all.pack(0, 1);
  all.clear_sent(all.values() * all.value_size(), bytes * all.size());
  all.all_to_all(bytes);
  all.combine(share, all.size());
  return bytes;
}

}  // namespace

template <class Space>
void Collectives<Space>::all_reduce(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  all.agree(scaled_by(call));
  all.require_same();
  all.require_scalable();
  if (all.size() == 1) return scaled_copy(space, call);
  all.all_gather(reduce_shares(all));
  all.unpack(0, 1, true);
  all.fence();
}

template <class Space>
void Collectives<Space>::all_gather(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  all.agree(along(call) + scaled_by(call));
  const int d = all.dim("the dimension", call.dim);
  all.require_same(d);
  all.require_extent(d, call.from.extent[Geometry::at(d)] * all.size(), ", which over all ranks");
  all.require_scalable();
  const index_t bytes = all.values() * all.value_size();
  all.reserve(bytes, bytes * all.size());
  all.pack(0, 1);
  all.scale(all.values());
  all.all_gather(bytes);
  all.unpack(d, all.size(), true);
  all.fence();
}

template <class Space>
void Collectives<Space>::reduce_scatter(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  all.agree(along(call) + scaled_by(call));
  const int d = all.dim("the dimension", call.dim);
  all.require_divides(d);
  all.require_same(d);
  all.require_extent(d, call.from.extent[Geometry::at(d)] / all.size(), ", a shard of which");
  all.require_scalable();
  const index_t count = all.values() / all.size();
  const index_t bytes = count * all.value_size();
  all.reserve(bytes * all.size(), bytes * all.size());
  all.pack(d, all.size());
  if (all.size() > 1) {
    all.all_to_all(bytes);
    all.combine(count, all.size());
  } else {
    all.scale(count);
  }
  all.unpack(0, 1, false);
  all.fence();
}

template <class Space>
void Collectives<Space>::all_to_all(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  all.agree(", split dimension " + text(call.dim) + ", concat dimension " + text(call.concat_dim));
  const int split  = all.dim("the split dimension", call.dim);
  const int concat = all.dim("the concat dimension", call.concat_dim);
  all.require_divides(split);
  if (split == concat) {
    all.require_same();
  } else {
    all.require_same(split, concat);
    all.require_extent(split, call.from.extent[Geometry::at(split)] / all.size(),
                       ", a piece of which");
    all.require_extent(concat, call.from.extent[Geometry::at(concat)] * all.size(),
                       ", which over all ranks");
  }
  const index_t bytes = all.values() / all.size() * all.value_size();
  all.reserve(bytes * all.size(), bytes * all.size());
  all.pack(split, all.size());
  all.all_to_all(bytes);
  all.unpack(concat, all.size(), true);
  all.fence();
}

template <class Space>
void Collectives<Space>::broadcast(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  all.agree(", root " + text(call.root));
  all.require_same();
  all.require_root();
  const index_t bytes = all.values() * all.value_size();
  all.reserve(bytes, bytes);
  const bool root = all.coordinate() == call.root;
  if (root) all.pack(0, 1);
  all.broadcast(bytes);
  all.unpack(0, 1, !root);
  all.fence();
}

template <class Space>
void Collectives<Space>::reduce(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  all.agree(", root " + text(call.root));
  all.require_same();
  all.require_root();
  if (all.size() == 1) return scaled_copy(space, call);
  all.gather(reduce_shares(all));
  const bool root = all.coordinate() == call.root;
  if (!root) all.clear_sent(0, all.values() * all.value_size());
  all.unpack(0, 1, root);
  all.fence();
}

template <class Space>
void Collectives<Space>::scaled_copy(const Space& space, const CollectiveCall& call) {
  Collective all(space, call);
  all.require_same();
  all.require_scalable();
  all.reserve_here(all.values() * all.value_size());
  all.pack(0, 1);
  all.scale(all.values());
  all.unpack(0, 1, false);
  all.fence();
}

#if defined(KOKKOS_ENABLE_SERIAL)
template struct Collectives<Kokkos::Serial>;
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
template struct Collectives<Kokkos::OpenMP>;
#endif
#if defined(KOKKOS_ENABLE_THREADS)
template struct Collectives<Kokkos::Threads>;
#endif
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct Collectives<Kokkos::DefaultExecutionSpace>;
#endif

}  // namespace shard::impl
