// SPDX-License-Identifier: BSD-3-Clause
//
// The ways in which data and the news of it get from one rank's device to another's, by name. A path that passes
// its self-test on a machine (sync_trial.hpp) is used only where PTX or the link guarantees what it relies on:
//
//   ll        8-byte words of data and epoch, stored whole (ld/st.relaxed.sys): PTX, everywhere
//   ll128     128-byte lines whose last word is the epoch, stored by eight lanes at once: the link, on one GPU and
//             over NVLink
//   ll16      16-byte lines of 12 bytes of data and an epoch, stored whole (scalar ld/st.relaxed.sys.b128): PTX and
//             CUDA, in host memory, on one GPU and between GPUs with native atomics, which NVLink has. A memory
//             instruction with a scalar type is one operation on all its bytes (PTX ISA, memory consistency model,
//             memory operations; its paragraph on vectors still calls 64 bits the largest scalar), b128 at system
//             scope from PTX ISA 8.4 and SM 70 on. What that is worth outside the GPU is CUDA's to say: naturally
//             aligned accesses of 16 bytes to mapped host memory are preserved as single ones for hosts and other
//             devices (CUDA programming guide, mapped memory), and atomic at system scope (libcu++, memory model,
//             atomicity); NVIDIA knows of no machine that splits them. For memory of a peer that is reached without
//             native atomics nothing is said.
//   flag      plain data, then a flag with release and acquire at system scope: PTX, everywhere
//   flag-gpu  the same at the scope of a GPU, whose ranks share one second-level cache: PTX, where all ranks are on
//             one GPU
//   fence     plain data, a fence at system scope, a relaxed flag; relaxed polls, then a fence: PTX, everywhere
//
// The numbers go over the wire in the selection table.
#pragma once

#include <cstdint>
#include <optional>

#include "base/function.hpp"
#include "base/launch_overlap.hpp"
#include "proto/algorithm.hpp"

namespace xyl {

enum class sync_path : std::uint8_t { packet, wide_packet, line_packet, flag, device_flag, fenced_flag };
inline constexpr int sync_paths = 6;

// How flags are posted and awaited. The first is the plain way: it needs nothing but the memory model.
enum class flag_order : std::uint8_t { release, device_release, fenced };
inline constexpr int flag_orders = 3;

XYL_FN constexpr bool is_flag(sync_path p) { return p >= sync_path::flag; }
XYL_FN constexpr flag_order order_of(sync_path p) {
  return static_cast<flag_order>(static_cast<int>(p) - static_cast<int>(sync_path::flag));
}
XYL_FN constexpr sync_path path_of(flag_order o) {
  return static_cast<sync_path>(static_cast<int>(o) + static_cast<int>(sync_path::flag));
}

constexpr const char* name_of(sync_path p) {
  constexpr const char* names[sync_paths] = {"ll", "ll128", "ll16", "flag", "flag-gpu", "fence"};
  return static_cast<int>(p) < sync_paths ? names[static_cast<int>(p)] : "?";
}

// What all ranks of a communicator use on devices. Where packets are not, headers still travel as such.
struct sync_choice {
  bool packets = true;
  bool wide_packets = false;  // whether allreduces may use ll128,
  bool line_packets = false;  // or ll16; never both, since they share memory
  flag_order flags = flag_order::release;
  launch_overlap packet_overlap = launch_overlap::none;  // of all kinds of packets
  launch_overlap flag_overlap = launch_overlap::none;

  // The kind of lines that allreduces may go in.
  constexpr std::optional<algorithm> lines() const {
    if (wide_packets) return algorithm::wide_packet;
    return line_packets ? std::optional(algorithm::line_packet) : std::nullopt;
  }
  constexpr std::uint32_t packed() const {
    return 1u | static_cast<std::uint32_t>(packets) << 8 | static_cast<std::uint32_t>(wide_packets) << 9 |
           static_cast<std::uint32_t>(line_packets) << 10 | static_cast<std::uint32_t>(flags) << 12 |
           static_cast<std::uint32_t>(packet_overlap) << 16 | static_cast<std::uint32_t>(flag_overlap) << 24;
  }
  friend constexpr bool operator==(const sync_choice&, const sync_choice&) = default;
};

}  // namespace xyl
