// SPDX-License-Identifier: BSD-3-Clause
//
// How a communicator measures its own allreduce: every rank times the same calls, the slowest rank's median counts,
// and from the times, which all ranks have, all come to the same next call.
#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <vector>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "comm/communicator.hpp"
#include "comm/ladder.hpp"
#include "exec/device_buffer.hpp"

namespace xyl {

namespace {

constexpr std::int64_t budget_ns = 180'000'000;
// What one rung may take, warm-up included, and how many times it is measured then.
constexpr std::int64_t rung_ns = 5'000'000;
constexpr int most_times = 9;
// Launches are enqueued in batches, so that what is timed is their work and not the host's.
constexpr int batch = 8;

// What ranks tell each other after each measurement.
struct timing {
  std::int64_t ns;       // -1: the call failed
  std::int64_t elapsed;  // since the beginning; rank 0's counts
};

struct buffers {
  std::vector<std::byte> host;
  device_buffer device;
  std::byte* send = nullptr;
  std::byte* recv = nullptr;
};

}  // namespace

// A batch of calls; the time of one.
result communicator::time_calls(const request& r, int calls, std::int64_t& ns) {
  const std::int64_t began = now_ns();
  for (int i = 0; i < calls; ++i) XYL_TRY(collect(r));
  if (device_) XYL_TRY(device_->drain());
  ns = (now_ns() - began) / calls;
  return {};
}

result communicator::measure_thresholds(bool deterministic, topo::tuning& out) {
  buffers room;
  std::vector<timing> all;
  std::vector<std::int64_t> own;
  std::optional<ladder> rungs;
  XYL_TRY(peers_->agree([&]() -> result {
    try {
      all.resize(static_cast<std::size_t>(ranks_));
      own.reserve(most_times);
      rungs.emplace(deterministic, !device_ || sync_.choice.packets, device_ && sync_.choice.wide_packets,
                    device_ && sync_.choice.line_packets);
      if (device_) {
        XYL_TRY(room.device.create(device_number_, 2 * ladder::largest));
        room.send = room.device.data();
      } else {
        room.host.assign(2 * ladder::largest, std::byte{0});
        room.send = room.host.data();
      }
      room.recv = room.send + ladder::largest;
    } catch (const std::bad_alloc&) {
      return error(xylSystemError, "out of memory");
    }
    return {};
  }()));

  const selection chosen = selection_;
  const std::int64_t began = now_ns();
  result failed;
  // The worst of all ranks; a rank whose call failed keeps coming until all know.
  const auto meet = [&](std::int64_t ns, std::int64_t& worst, bool& go_on) -> result {
    const timing mine{failed.ok() ? ns : -1, now_ns() - began};
    XYL_TRY(peers_->exchange(&mine, all.data(), sizeof mine));
    worst = 0;
    go_on = true;
    for (const timing& t : all) {
      go_on = go_on && t.ns >= 0;
      worst = std::max(worst, t.ns);
    }
    return {};
  };
  bool go_on = true;
  try {
    while (go_on && rungs->next()) {
      const ladder::rung at = *rungs->next();
      selection_.forced = static_cast<std::uint32_t>(at.how);
      selection_hash_ = selection_.hash();
      request r;
      r.what = collective::all_reduce;
      r.send = room.send;
      r.recv = room.recv;
      r.count = at.bytes / sizeof(float);
      r.type = xylFloat32;
      r.op = xylSum;
      if (device_) r.stream = device_->own_stream();
      const int calls = device_ ? batch : 1;
      std::int64_t ns = 0, worst = 0;
      failed = time_calls(r, 1, ns);
      if (failed.ok()) failed = time_calls(r, calls, ns);
      XYL_TRY(meet(ns, worst, go_on));
      if (!go_on) break;
      // The same number on all ranks.
      const auto times = static_cast<int>(
          std::clamp<std::int64_t>(rung_ns / std::max<std::int64_t>(1, worst * calls), 1, most_times));
      own.clear();
      for (int i = 0; i < times && failed.ok(); ++i) {
        failed = time_calls(r, calls, ns);
        own.push_back(ns);
      }
      std::nth_element(own.begin(), own.begin() + std::ssize(own) / 2, own.end());
      XYL_TRY(meet(own[own.size() / 2], worst, go_on));
      if (!go_on) break;
      rungs->timed(static_cast<double>(worst) * 1e-3);
      if (all[0].elapsed > budget_ns) rungs->stop();
    }
    if (go_on) out = rungs->thresholds();
  } catch (const std::bad_alloc&) {
    failed = error(xylSystemError, "out of memory");
  }
  selection_ = chosen;
  selection_hash_ = selection_.hash();
  calls_ = 0;
  XYL_TRY(peers_->agree(std::move(failed)));
  if (rank_ == 0)
    log_line(log_level::info, rank_, "thresholds of allreduce measured in %.2f s",
             static_cast<double>(now_ns() - began) * 1e-9);
  return {};
}

}  // namespace xyl
