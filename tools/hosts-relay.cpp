// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// hosts-relay DELAY RATE NETNS...
//
// Joins the hosts of tools/hosts by links with a delay, where the kernel has no netem. It makes a
// TAP device net0 in each network namespace, reads the frames that hosts send, and writes them to
// the host with their address. A frame waits for the frames that its host sent before, then for its
// own length at RATE (1gbit, 200mbit; 0: no limit), then for DELAY (50us, 1ms). Frames keep their
// order, and none is dropped. Runs until a signal ends it.
//
// The devices offload checksums and segmentation: up to 64 KiB of TCP pass as one frame, with two
// system calls.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

/// virtio_net_hdr, which the devices put before each frame; its own header isn't C++.
struct Offload {
  std::uint8_t flags, segmented;
  std::uint16_t headers, segment_bytes;
  std::uint16_t transport, checksum;  // where TCP's header begins, and its checksum in that
};
constexpr std::size_t header = sizeof(Offload);
constexpr std::size_t most   = header + 65536 + 18;  // with Ethernet's header and a VLAN's tag

// A timer wakes its thread some tens of microseconds late on a virtual machine, so the relay polls
// that long before a frame is due.
constexpr nanoseconds near{40000};

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

/// A number with one of the units, times that unit: "50us".
double quantity(const std::string& text, const std::vector<std::pair<std::string, double>>& units) {
  char* end          = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  for (const auto& [name, factor] : units)
    if (name == end && end != text.c_str() && value >= 0) return value * factor;
  throw std::invalid_argument("'" + text + "' is not understood");
}

/// Makes net0 in a namespace.
int open_tap(const std::string& name) {
  const int space = open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
  if (space < 0 || setns(space, CLONE_NEWNET) != 0) fail("namespace " + name);
  close(space);
  const int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (tap < 0) fail("/dev/net/tun");
  ifreq request{};
  std::strcpy(request.ifr_name, "net0");
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  if (ioctl(tap, TUNSETIFF, &request) != 0) fail("TUNSETIFF");
  if (ioctl(tap, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN) != 0)
    fail("TUNSETOFFLOAD");
  return tap;
}

/// The bytes of a frame on the wire, where each segment repeats the headers.
std::int64_t wire_bytes(const std::vector<char>& frame) {
  Offload offload;
  std::memcpy(&offload, frame.data(), header);
  const std::int64_t all   = static_cast<std::int64_t>(frame.size() - header);
  const std::size_t length = header + offload.transport + 12;  // of TCP's header, in words of four
  if (offload.segmented == 0 || length >= frame.size()) return all;
  const std::int64_t headers =
      offload.transport + 4 * (static_cast<std::uint8_t>(frame[length]) >> 4);
  const std::int64_t segments = (all - headers + offload.segment_bytes - 1) / offload.segment_bytes;
  return all + std::max<std::int64_t>(segments - 1, 0) * headers;
}

using Address = std::array<char, 6>;
Address address_in(const std::vector<char>& frame, std::size_t offset) {
  Address address;
  std::copy_n(frame.data() + header + offset, address.size(), address.begin());
  return address;
}

class Relay {
 public:
  Relay(double delay, double bits_per_second, const std::vector<std::string>& names)
      : delay_(static_cast<std::int64_t>(delay * 1e9)),
        byte_time_(bits_per_second > 0 ? 8e9 / bits_per_second : 0),
        buffer_(most) {
    for (const std::string& name : names) {
      hosts_.push_back({open_tap(name), {}, {}, {}});
      polled_.push_back({hosts_.back().tap, POLLIN, 0});
    }
  }

  [[noreturn]] void run() {
    for (;;) {
      for (Host& host : hosts_)
        while (!host.held.empty() && host.held.front().due <= Clock::now()) deliver(host);
      wait();
      for (std::size_t i = 0; i < hosts_.size(); ++i)
        if (polled_[i].revents != 0)
          while (take(hosts_[i])) continue;
    }
  }

 private:
  struct Held {
    Clock::time_point due;
    std::vector<char> frame;
  };
  struct Host {
    int tap;
    Address address;         // of the last frame that it sent
    Clock::time_point free;  // when its link has sent all that it was given
    std::deque<Held> held;
  };

  /// Reads a frame, if there is one.
  bool take(Host& host) {
    const ssize_t n = read(host.tap, buffer_.data(), buffer_.size());
    if (n < static_cast<ssize_t>(header + 14)) return false;
    std::vector<char> frame(buffer_.begin(), buffer_.begin() + n);
    host.address = address_in(frame, 6);
    const nanoseconds sending(
        static_cast<std::int64_t>(byte_time_ * static_cast<double>(wire_bytes(frame))));
    host.free = std::max(host.free, Clock::now()) + sending;
    host.held.push_back({host.free + delay_, std::move(frame)});
    return true;
  }

  /// Writes the oldest frame of a host to the one that it is for, or to all others.
  void deliver(Host& from) {
    const std::vector<char> frame = std::move(from.held.front().frame);
    from.held.pop_front();
    const Address to = address_in(frame, 0);
    const auto known =
        std::find_if(hosts_.begin(), hosts_.end(), [&](const Host& h) { return h.address == to; });
    for (Host& host : hosts_) {
      if (&host == &from || (known != hosts_.end() && &host != &*known)) continue;
      // EIO: the device is down, so what is sent to it is lost
      if (write(host.tap, frame.data(), frame.size()) < 0 && errno != EIO) fail("write");
    }
  }

  /// Until a frame comes, or until shortly before the next one is due.
  void wait() {
    auto due = Clock::time_point::max();
    for (const Host& host : hosts_)
      if (!host.held.empty()) due = std::min(due, host.held.front().due);
    timespec left{};
    timespec* until = nullptr;
    if (due != Clock::time_point::max()) {
      const nanoseconds::rep n = std::max(due - Clock::now() - near, nanoseconds(0)).count();
      left                     = {n / 1000000000, n % 1000000000};
      until                    = &left;
    }
    if (ppoll(polled_.data(), polled_.size(), until, nullptr) < 0 && errno != EINTR) fail("ppoll");
  }

  nanoseconds delay_;
  double byte_time_;
  std::vector<char> buffer_;
  std::vector<Host> hosts_;
  std::vector<pollfd> polled_;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) throw std::invalid_argument("hosts-relay DELAY RATE NETNS...");
  const double delay = quantity(argv[1], {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}});
  const double rate =
      quantity(argv[2], {{"", 1}, {"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}});
  Relay relay(delay, rate, {argv + 3, argv + argc});
  // before the ranks, whatever they do, and woken without the slack of other threads' timers
  const sched_param first{1};
  if (sched_setscheduler(0, SCHED_FIFO, &first) != 0)
    std::perror("hosts-relay: no priority, so frames may be late");
  relay.run();
} catch (const std::exception& error) {
  std::fprintf(stderr, "hosts-relay: %s\n", error.what());
  return EXIT_FAILURE;
}
