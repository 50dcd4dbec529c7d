// SPDX-License-Identifier: BSD-3-Clause
//
// Links between processes over host memory: sealed memory that peers find through /proc. There is nothing to doubt
// about it; it is measured for people, and it shows in tests what a probe does.
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <vector>

#include "base/clock.hpp"
#include "os/machine.hpp"
#include "os/sealed_memory.hpp"
#include "probe/link.hpp"
#include "probe/region.hpp"

namespace xyl::probe {
namespace {

struct host_handle {
  std::int64_t process;
  std::int64_t descriptor;
  std::uint8_t nonce[16];
};
static_assert(sizeof(host_handle) <= sizeof(topo::probe_handle));

constexpr std::size_t chunk_bytes = 64 << 10;
constexpr std::uint32_t most_turns = 100;
constexpr int polls_before_yielding = 1000;

class host_link final : public link {
 public:
  result create(const topo::probe_setup& about, topo::probe_handle& mine) override {
    about_ = about;
    XYL_TRY(sealed_memory::create(sizeof(region), own_));
    host_handle handle{::getpid(), own_.fd(), {}};
    XYL_TRY(fill_random(handle.nonce, sizeof handle.nonce));
    std::memcpy(here().nonce, handle.nonce, sizeof handle.nonce);
    for (std::size_t i = 0; i < proof_words; ++i) here().own[i] = pattern(about.seed, about.rank, about.rank, i);
    std::memset(&mine, 0, sizeof mine);
    std::memcpy(&mine, &handle, sizeof handle);
    buffer_.resize(chunk_bytes);
    return {};
  }

  result open(int peer, const topo::probe_handle& theirs) override {
    host_handle handle;
    std::memcpy(&handle, &theirs, sizeof handle);
    const std::string path = format_text("/proc/%lld/fd/%lld", static_cast<long long>(handle.process),
                                         static_cast<long long>(handle.descriptor));
    unique_fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!fd) return system_error("cannot open %s", path.c_str());
    sealed_memory memory;
    XYL_TRY(sealed_memory::adopt(std::move(fd), sizeof(region), memory));
    if (std::memcmp(reinterpret_cast<const region*>(memory.data())->nonce, handle.nonce, sizeof handle.nonce) != 0)
      return error(xylSystemError, "%s is not the memory of rank %d", path.c_str(), peer);
    peers_[static_cast<std::size_t>(peer)] = std::move(memory);
    return {};
  }

  result write(std::span<const int> peers, verdicts out) override {
    for (int p : peers) {
      const auto to = static_cast<std::uint32_t>(p);
      for (std::size_t i = 0; i < proof_words; ++i)
        // relaxed: the ranks meet before anybody looks.
        std::atomic_ref(there(p).proof[about_.rank][i])
            .store(pattern(about_.seed, about_.rank, to, i), std::memory_order_relaxed);
      out[to] = topo::probe_verdict::good;
    }
    return {};
  }

  result verify(std::span<const int> peers, verdicts out) override {
    for (int p : peers) {
      const auto from = static_cast<std::uint32_t>(p);
      out[from] = compare(here().proof[from], from, about_.rank);
    }
    return {};
  }

  result read(std::span<const int> peers, verdicts out) override {
    for (int p : peers) {
      const auto from = static_cast<std::uint32_t>(p);
      out[from] = compare(there(p).own, from, from);
    }
    return {};
  }

  result stream(int peer, bool pull, std::uint32_t duration_us, double& rate) override {
    return copy_for(there(peer).stream, pull, duration_us, rate);
  }

  // Pieces small enough for every cache, in two places as the slots of a workspace are. The median is of times in
  // which the processor was not taken away.
  result hand_over(int peer, bool takes, bool is_first, std::uint32_t step, double& rate) override {
    const deadline until = deadline::in_ms(about_.step_ms / 2);
    const std::uint32_t turns = std::min(about_.round_trips, most_turns);
    std::byte* const memory = is_first ? there(peer).stream : here().stream;
    const bool reads = takes == is_first;
    std::vector<std::int64_t> times;
    for (std::uint32_t turn = 1; turn <= turns + untimed_trips; ++turn) {
      // The writer of a piece begins, and its reader lets it go on.
      if (reads) XYL_TRY(await(peer, flag_value(step, turn), until));
      std::byte* const at = memory + turn % 2 * chunk_bytes;
      const std::int64_t began = now_ns();
      std::memcpy(reads ? buffer_.data() : at, reads ? at : buffer_.data(), chunk_bytes);
      const std::int64_t took = now_ns() - began;
      if (turn > untimed_trips) times.push_back(std::max<std::int64_t>(took, 1));
      post(peer, flag_value(step, turn));
      if (!reads) XYL_TRY(await(peer, flag_value(step, turn), until));
    }
    if (!is_first || times.empty()) return {};
    std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
    rate = static_cast<double>(chunk_bytes) / static_cast<double>(times[times.size() / 2]);
    return {};
  }

  result flags(int peer, bool is_first, std::uint32_t step, double& one_way_us) override {
    const deadline until = deadline::in_ms(about_.step_ms / 2);
    std::int64_t began = 0;
    for (std::uint32_t trip = 1; trip <= about_.round_trips + untimed_trips; ++trip) {
      if (trip == untimed_trips + 1) began = now_ns();
      if (is_first) post(peer, flag_value(step, trip));
      XYL_TRY(await(peer, flag_value(step, trip), until));
      if (!is_first) post(peer, flag_value(step, trip));
    }
    one_way_us = static_cast<double>(now_ns() - began) / (2000.0 * about_.round_trips);
    return {};
  }

  result host_stream(std::uint32_t, bool read, std::uint32_t duration_us, double& rate) override {
    return copy_for(here().stream, read, duration_us, rate);
  }

 private:
  region& here() { return *reinterpret_cast<region*>(own_.data()); }
  region& there(int peer) { return *reinterpret_cast<region*>(peers_[static_cast<std::size_t>(peer)].data()); }

  void post(int peer, std::uint64_t value) {
    // release and, below, acquire: as flags of protocols are.
    std::atomic_ref(there(peer).flags[about_.rank].value).store(value, std::memory_order_release);
  }
  // Polls first, as ranks do, and then lets others have the processor.
  result await(int peer, std::uint64_t value, const deadline& until) {
    std::atomic_ref mine(here().flags[static_cast<std::size_t>(peer)].value);
    for (int polls = 1; mine.load(std::memory_order_acquire) < value; ++polls) {
      if (polls < polls_before_yielding) continue;
      if (until.passed()) return error(xylTimeout, "flags of rank %d did not come", peer);
      ::sched_yield();
    }
    return {};
  }

  topo::probe_verdict compare(std::uint64_t (&words)[proof_words], std::uint32_t from, std::uint32_t to) const {
    std::size_t wrong = 0, missing = 0;
    for (std::size_t i = 0; i < proof_words; ++i) {
      const std::uint64_t word = std::atomic_ref(words[i]).load(std::memory_order_relaxed);
      if (word == pattern(about_.seed, from, to, i)) continue;
      ++(word == 0 ? missing : wrong);
    }
    if (wrong > 0) return topo::probe_verdict::wrong;
    return missing > 0 ? topo::probe_verdict::dropped : topo::probe_verdict::good;
  }

  result copy_for(std::byte* memory, bool read, std::uint32_t duration_us, double& rate) {
    const std::int64_t began = now_ns(), wanted = std::int64_t{duration_us} * 1000;
    std::uint64_t bytes = 0;
    std::int64_t now = began;
    do {
      std::byte* const at = memory + bytes % stream_bytes;
      std::memcpy(read ? buffer_.data() : at, read ? at : buffer_.data(), chunk_bytes);
      bytes += chunk_bytes;
      now = now_ns();
    } while (now - began < wanted);
    rate = static_cast<double>(bytes) / static_cast<double>(now - began);
    return {};
  }

  topo::probe_setup about_{};
  sealed_memory own_;
  std::array<sealed_memory, topo::probe_most_ranks> peers_;
  std::vector<std::byte> buffer_;
};

}  // namespace

std::unique_ptr<link> make_host_link() { return std::make_unique<host_link>(); }

}  // namespace xyl::probe
