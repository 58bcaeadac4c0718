// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_COLLECTIVES_COLLECTIVE_HPP
#define SHARD_SRC_COLLECTIVES_COLLECTIVE_HPP

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "../redistribute/block_kernels.hpp"
#include "../redistribute/collective_messages.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/launch.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/comm/impl/device_space.hpp"
#include "shard/collectives/impl/collectives_call.hpp"

namespace shard::impl {

/// Where the messages of collectives lie: two buffers, and their copies on the host where MPI takes
/// no device memory. Kept by the mesh for each axis, and no smaller than they once were.
template <class Memory>
struct CollectiveBuffers : CachedPlan {
  using Bytes     = Kokkos::View<std::byte*, Memory>;
  using HostBytes = Kokkos::View<std::byte*, StagingMemory<Memory>>;
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
  std::size_t bytes() const override {
    return send.size() + receive.size() + host_send.size() + host_receive.size();
  }
  bool holds(index_t send_bytes, index_t receive_bytes) const {
    return static_cast<index_t>(send.extent(0)) >= send_bytes &&
           static_cast<index_t>(receive.extent(0)) >= receive_bytes;
  }
};

inline constexpr const char* kind_names[] = {"without arithmetic",
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
inline std::string text_of(double value) {
  char words[32];
  std::snprintf(words, sizeof words, "%.17g", value);
  return words;
}

/// Extents of a View, but that of dimension `except`, which may differ by rank.
inline std::string dims_of(const CollectiveCall& call, const PlainView& view, int except = -1) {
  std::string words = "[";
  for (int d = 0; d < call.rank; ++d)
    words += (d == 0 ? "" : ", ") + (d == except ? "*" : text(view.extent[Geometry::at(d)]));
  return words + "]";
}

/// What the blocks in a buffer have of a View: of block b the indices [begin + b * step, begin + b
/// * step + length) along a dimension, which stand there from `at` on among `extent`, and all
/// indices of the other dimensions.
struct ViewBlocks {
  int dim        = 0;
  index_t blocks = 1;
  index_t extent = 0, length = 0, begin = 0, step = 0, at = 0;
  index_t offset = 0;  ///< of block 0 in the buffer, in bytes
};

/// One collective from its checks to its end.
template <class Space>
class Collective {
  using Memory =
      std::conditional_t<is_host_space_v<Space>, Kokkos::HostSpace, typename Space::memory_space>;

 public:
  Collective(const Space& space, const CollectiveCall& call)
      : space_(space),
        call_(call),
        comm_(call.mesh->axis_comm(call.axis)),
        size_(call.mesh->extent(call.axis)),
        coordinate_(call.mesh->coordinate(call.axis)) {}

  /// Collective: throws on every rank unless all have the same arguments. Along dimension `free`,
  /// if there is one, extents may differ. `wrong`: what this rank finds wrong; if it is what all
  /// find, it is thrown as ArgumentError.
  void agree(const std::string& details, int free = -1, std::string wrong = {}) {
    const Watched watched({.what = "other ranks to call a collective", .rank = call_.mesh->rank()});
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
                  dims_of(call_, call_.to, free) + " from " + dims_of(call_, call_.from, free) +
                  details + (call_.first_is_fast ? ", both LayoutLeft" : "") +
                  ", messages of at most " + text(limit) + " bytes"
            : wrong + details;
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
  /// Runs checks that throw ArgumentError. Where the extents that they look at may differ by rank:
  /// collective, and all throw if one does.
  template <class Checks>
  void check(bool by_rank, const Checks& checks) const {
    if (!by_rank || size_ == 1) return checks();
    require_no_error(comm_, call_.function, wrong_in(checks));
  }
  /// What checks say that throw ArgumentError; empty if they don't.
  template <class Checks>
  static std::string wrong_in(const Checks& checks) {
    try {
      checks();
    } catch (const ArgumentError& error) {
      return error.what();
    }
    return {};
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
  void require_divides(int d) const { require_divides(d, call_.from); }
  void require_divides(int d, const PlainView& view) const {
    const index_t n = view.extent[Geometry::at(d)];
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
    const PlanKey key{0x636f6c6c65637469ULL, static_cast<std::uint64_t>(call_.axis) << 1U |
                                                 (is_host_space_v<Space> ? 0U : 1U)};
    buffers_ = std::static_pointer_cast<Buffers>(call_.mesh->find(key));
    if (!buffers_) {
      auto made = std::make_shared<Buffers>();
      if (!is_host_space_v<Space>)
        made->staged = !decide_device_messages(comm_, device_kind_of<Memory>).direct;
      call_.mesh->keep(KeptKind::one_of_its_kind, key, made);
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

  /// All of a View as `blocks` blocks along a dimension.
  ViewBlocks whole(const PlainView& view, int d, index_t blocks) const {
    const index_t n = view.extent[Geometry::at(d)] / blocks;
    return {.dim = d, .blocks = blocks, .extent = n, .length = n, .step = n};
  }
  /// `blocks` blocks of a View along a dimension to or from a buffer, one after the other.
  void pack(int d, index_t blocks) { pack(whole(call_.from, d, blocks)); }
  void unpack(int d, index_t blocks, bool from_receive) {
    unpack(whole(call_.to, d, blocks), from_receive);
  }
  void pack(const ViewBlocks& piece) { pack(call_.from, piece); }
  void pack(const PlainView& view, const ViewBlocks& piece) {
    if (count(view, piece) > 0) run_copy("shard::pack", block_copy(view, piece, true));
  }
  void unpack(const ViewBlocks& piece, bool from_receive) { unpack(call_.to, piece, from_receive); }
  void unpack(const PlainView& view, const ViewBlocks& piece, bool from_receive) {
    if (count(view, piece) > 0)
      run_copy("shard::unpack", block_copy(view, piece, false, from_receive));
  }
  /// Adds what came to a View; values are arithmetic.
  void add(const PlainView& view, const ViewBlocks& piece) {
    if (count(view, piece) > 0) run_add(block_copy(view, piece, false, true, call_.value_size));
  }
  /// Along a dimension [begin, begin + length) of one View to the other's indices from `to_begin`.
  void copy(const PlainView& from, const PlainView& to, int d, index_t length, index_t begin,
            index_t to_begin) {
    if (count(from, {.dim = d, .length = length}) > 0)
      run_copy("shard::copy", view_copy(&from, to, d, length, begin, to_begin, call_.unit));
  }
  void add(const PlainView& from, const PlainView& to, int d, index_t length, index_t begin,
           index_t to_begin) {
    if (count(from, {.dim = d, .length = length}) > 0)
      run_add(view_copy(&from, to, d, length, begin, to_begin, call_.value_size));
  }
  /// Zeros along a dimension of a View.
  void clear(const PlainView& to, int d, index_t length, index_t begin) {
    if (count(to, {.dim = d, .length = length}) > 0)
      run_copy("shard::clear", view_copy(nullptr, to, d, length, 0, begin, call_.unit));
  }
  /// What is sent becomes the scaled reduction of what came (`parts` > 1) or of itself.
  void combine(index_t count, int parts) {
    if (count == 0) return;
    Combine c;
    c.parts_at = (parts > 1 ? buffers_->receive : buffers_->send).data();
    c.out      = buffers_->send.data();
    c.count    = count;
    c.parts    = parts;
    c.kind     = call_.kind;
    c.op       = call_.op;
    c.scale    = call_.scale;
    const index_t items =
        is_host_space_v<Space> ? (count + Combine::chunk - 1) / Combine::chunk : count;
    launch("shard::combine", space_, items, CombineKernel<is_host_space_v<Space>>{c});
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
  /// Blocks of `from` to all ranks, and theirs into `to`. Values that stand in a View as they do in
  /// a message are not packed, or not unpacked.
  void all_to_all(const std::vector<ViewBlocks>& out, const std::vector<ViewBlocks>& in,
                  index_t block) {
    const bool direct  = is_host_space_v<Space> && block > 0 && !overlap();
    const bool no_pack = direct && out.size() == 1 && out[0].begin == 0 &&
                         block_copy(call_.from, out[0], true).is_contiguous();
    const bool no_unpack = direct && in.size() == 1 && in[0].begin == 0 &&
                           block_copy(call_.to, in[0], false).is_contiguous();
    if (!no_pack)
      for (const ViewBlocks& piece : out) pack(piece);
    send(block * size_, block * size_, [&](const BlockMessages& m, std::byte* o, std::byte* i) {
      m.all_to_all(no_pack ? call_.from.data : o, no_unpack ? call_.to.data : i, block);
    });
    if (!no_unpack)
      for (const ViewBlocks& piece : in) unpack(piece, true);
  }
  void all_to_all(index_t block) {
    send(block * size_, block * size_, [&](const BlockMessages& m, std::byte* out, std::byte* in) {
      m.all_to_all(out, in, block);
    });
  }
  /// Messages between single ranks, from and to places in the buffers.
  void to_peers(const std::vector<RankMessage>& sent, const std::vector<RankMessage>& received) {
    send(end_of(sent), end_of(received),
         [&](const BlockMessages& m, std::byte* out, std::byte* in) {
           m.to_peers(out, sent, in, received);
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
  static index_t end_of(const std::vector<RankMessage>& messages) {
    return messages.empty() ? 0 : messages.back().offset + messages.back().bytes;
  }
  /// Values of a piece in all its blocks.
  index_t count(const PlainView& view, const ViewBlocks& piece) const {
    index_t n = piece.blocks * piece.length;
    for (int d = 0; d < call_.rank; ++d)
      if (d != piece.dim) n *= view.extent[Geometry::at(d)];
    return n;
  }
  /// Whether the memory of the Views meets.
  bool overlap() const {
    const auto end = [&](const PlainView& view) {
      const std::byte* at = view.data + call_.value_size;
      for (int d = 0; d < call_.rank; ++d)
        at += (view.extent[Geometry::at(d)] - 1) * view.stride[Geometry::at(d)];
      return at;
    };
    return call_.from.data < end(call_.to) && call_.to.data < end(call_.from);
  }
  /// Calls use(dimension) for a View's dimensions from the fastest of a message to the slowest.
  template <class Use>
  void for_dims(const Use& use) const {
    for (int i = 0; i < call_.rank; ++i) use(call_.first_is_fast ? i : call_.rank - 1 - i);
  }
  /// The copy between a View and blocks in a buffer; in a block dimensions stand in their order,
  /// the last one the fastest, or the first.
  BlockCopy block_copy(const PlainView& view, const ViewBlocks& piece, bool packs,
                       bool from_receive = false, int unit = 0) const {
    BlockCopy copy;
    copy.unit      = unit == 0 ? call_.unit : unit;
    copy.packs     = packs;
    const auto add = [&](index_t n, index_t view_stride, index_t buffer_stride) {
      if (packs)
        copy.add(n, view_stride, buffer_stride);
      else
        copy.add(n, buffer_stride, view_stride);
    };
    add(call_.value_size / copy.unit, copy.unit, copy.unit);
    index_t bytes = call_.value_size, offset = piece.offset;
    for_dims([&](int d) {
      const bool cut  = d == piece.dim;
      const index_t n = cut ? piece.length : view.extent[Geometry::at(d)];
      add(n, view.stride[Geometry::at(d)], bytes);
      if (cut) offset += piece.at * bytes;
      bytes *= cut ? piece.extent : n;
    });
    const index_t stride = view.stride[Geometry::at(piece.dim)];
    add(piece.blocks, piece.step * stride, bytes);
    std::byte* const buffer = (from_receive ? buffers_->receive : buffers_->send).data() + offset;
    std::byte* const data   = view.data + piece.begin * stride;
    copy.from               = packs ? data : buffer;
    copy.to                 = packs ? buffer : data;
    copy.close();
    return copy;
  }
  /// The copy between two Views, or of zeros.
  BlockCopy view_copy(const PlainView* from, const PlainView& to, int dim, index_t length,
                      index_t begin, index_t to_begin, int unit) const {
    const PlainView& shape = from == nullptr ? to : *from;
    const auto cut         = Geometry::at(dim);
    BlockCopy copy;
    copy.unit = unit;
    copy.add(call_.value_size / unit, unit, unit);
    for_dims([&](int d) {
      const auto i = Geometry::at(d);
      copy.add(d == dim ? length : shape.extent[i], shape.stride[i], to.stride[i]);
    });
    copy.from = from == nullptr ? nullptr : from->data + begin * from->stride[cut];
    copy.to   = to.data + to_begin * to.stride[cut];
    copy.close();
    return copy;
  }
  void run_copy(const char* label, const BlockCopy& copy) const {
    run_block_copy(label, space_, copy);
  }
  void run_add(const BlockCopy& copy) const {
    const index_t items = copy.lines() * (is_host_space_v<Space> ? 1 : copy.extent[0]);
    launch("shard::add", space_, items, BlockAddKernel<is_host_space_v<Space>>{copy, call_.kind});
  }

  Space space_;
  const CollectiveCall& call_;
  MPI_Comm comm_;
  int size_, coordinate_;
  BlockMessages messages_{};
  std::shared_ptr<CollectiveBuffers<Memory>> buffers_;
};

}  // namespace shard::impl

#endif
