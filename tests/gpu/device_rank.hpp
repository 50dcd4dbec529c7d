// SPDX-License-Identifier: BSD-3-Clause
//
// One MPI process as one rank of a device communicator, for the GPU tests and benches: a device side, a host
// control page that only this process sees, and the cutting of long messages. With XYLEM_P2P=0 the ranks meet in
// host memory. Any failure of the scaffolding ends the job.
#pragma once

#include <cuda_runtime_api.h>
#include <mpi.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "comm/transfer_shape.hpp"
#include "exec/device_side.hpp"
#include "proto/stand_in.hpp"
#include "tests/gpu/mpi_program.hpp"

namespace xyl::gpu_test {

struct settings {
  std::uint64_t packet_bytes = 1 << 20;  // of a slot
  std::uint64_t bulk_bytes = 16 << 20;
  std::uint64_t wide_bytes = 9 << 18;
  std::uint32_t blocks = 64;
  std::int64_t deadline_ns = 30'000'000'000;
  std::uint64_t copy_bytes = 16 << 20;  // of all slots
};

class device_rank {
 public:
  explicit device_rank(const settings& s = {}) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    map_ = layout::make(static_cast<std::uint32_t>(ranks_), s.blocks, s.packet_bytes, s.bulk_bytes, 0, 4,
                        s.copy_bytes, s.wide_bytes);
    void* page = ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(page != MAP_FAILED, "mmap");
    control_ = static_cast<control_block*>(page);
    must(device_side::create(device_side::current_device(), map_, static_cast<std::byte*>(page), page_bytes,
                             s.deadline_ns, true, side_),
         "create");
    std::vector<device_handle> all(static_cast<std::size_t>(ranks_));
    MPI_Allgather(&side_->handle(), sizeof(device_handle), MPI_BYTE, all.data(), sizeof(device_handle), MPI_BYTE,
                  MPI_COMM_WORLD);
    // Never automatic: these tests are run once for each way.
    parameters p;
    must(read_parameters(environ, p), "read_parameters");
    std::shared_ptr<peer_group> windows;
    if (p.peer_to_peer == peer_to_peer_use::never) {
      std::unique_ptr<peer_group> made;
      const auto exchange = [](const void* mine, void* others, std::size_t bytes) {
        const int count = static_cast<int>(bytes);
        return MPI_Allgather(mine, count, MPI_BYTE, others, count, MPI_BYTE, MPI_COMM_WORLD) != MPI_SUCCESS;
      };
      must(peer_group::create(rank_, exchange, map_, made), "host memory for XYLEM_P2P=0");
      windows = std::move(made);
    }
    const bool windows_of_hosts = windows != nullptr;
    reaches_memory_ = !windows_of_hosts;
    must(side_->connect(all, rank_, std::move(windows)), "connect");
    sync_choice sync;
    sync.packet_overlap = sync.flag_overlap =
        p.overlap == launch_overlap::automatic ? launch_overlap::late : p.overlap;
    // XYLEM_SYNC: a flag's name is the order of flags.
    if (p.forced_sync && is_flag(*p.forced_sync)) sync.flags = order_of(*p.forced_sync);
    side_->use(sync);
    has_wide_packets_ = !windows_of_hosts && p.forced_sync == sync_path::wide_packet;
    has_line_packets_ =
        ranks_ == 2 && side_->has_line_kernels() && (windows_of_hosts || p.forced_sync == sync_path::line_packet);
    int on_this_gpu = 0;
    int blocks = static_cast<int>(s.blocks);
    for (const device_handle& h : all) {
      on_this_gpu += std::equal(h.uuid, h.uuid + 16, side_->handle().uuid);
      blocks = std::min(blocks, h.max_blocks);
    }
    MPI_Allreduce(MPI_IN_PLACE, &on_this_gpu, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    has_wide_packets_ = has_wide_packets_ || (!windows_of_hosts && on_this_gpu == ranks_ && !has_line_packets_);
    for (const device_handle& h : all) blocks = std::min(blocks, h.max_blocks / (2 * on_this_gpu));
    most_blocks_ = static_cast<unsigned>(std::max(blocks, 1));
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ~device_rank() {
    must(side_->drain(), "drain");
    MPI_Barrier(MPI_COMM_WORLD);
    side_->disconnect();
    MPI_Barrier(MPI_COMM_WORLD);
    side_.reset();
    ::munmap(control_, page_bytes);
  }
  device_rank(const device_rank&) = delete;
  device_rank& operator=(const device_rank&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  unsigned most_blocks() const { return most_blocks_; }
  // Whether lines of 128 bytes are seen whole: on one GPU; elsewhere XYLEM_SYNC=ll128 says so.
  bool has_wide_packets() const { return has_wide_packets_; }
  // Whether there are lines of 16 bytes instead, for sums between two ranks: in host memory; elsewhere XYLEM_SYNC=ll16
  // says so.
  bool has_line_packets() const { return has_line_packets_; }
  // What an allreduce of that kind can go by, in the end.
  bool can(algorithm how, xylDataType_t type, xylRedOp_t op) const {
    if (uses_wide_packets(how)) return has_wide_packets_ && has_all_ways(type);
    if (uses_line_packets(how)) return has_line_packets_ && has_all_ways(type) && op == xylSum;
    return true;
  }
  // Of both kinds of lines the one that there is.
  std::optional<algorithm> lines() const {
    if (has_wide_packets_) return algorithm::wide_packet;
    return has_line_packets_ ? std::optional(algorithm::line_packet) : std::nullopt;
  }
  device_side& side() { return *side_; }
  control_block& control() { return *control_; }
  const layout& map() const { return map_; }
  std::uint64_t poisoned() const {
    return std::atomic_ref<std::uint64_t>(control_->poisoned.word).load(std::memory_order_acquire);
  }
  bool has_record() const {
    return std::atomic_ref<std::uint32_t>(control_->gave_up.record.state).load(std::memory_order_acquire) == 2;
  }

  // The most bytes of one launch.
  std::uint64_t capacity(algorithm how) const {
    const std::uint64_t n = static_cast<std::uint64_t>(ranks_);
    switch (how) {
      case algorithm::packet:
        return map_.packet_capacity();
      case algorithm::one_shot:
        return map_.one_shot_capacity();
      case algorithm::two_shot:
        return map_.bulk_stride / 32 * 16 * n;
      case algorithm::two_shot_packet:
        return map_.packet_capacity() / 16 * 8 * n;
      case algorithm::wide_packet:
        return map_.wide_packs() * wide_pack::units * 16;
      case algorithm::line_packet:
        return map_.line_sheets() * line_sheet::units * 16;
      case algorithm::ring:
        return n < 2 ? map_.bulk_stride : n * map_.bulk_stride / (2 * n - 2) / 16 * 16 * n;
    }
    return 0;
  }

  // Launches a whole call in chunks of at most chunk_bytes (0: what fits).
  void all_reduce(algorithm how, unsigned blocks, const void* send, void* recv, std::uint64_t count,
                  std::uint64_t element_bytes, xylDataType_t type, xylRedOp_t op, cudaStream_t stream,
                  std::uint64_t chunk_bytes = 0) {
    call_record record;
    record.what = collective::all_reduce;
    record.type = static_cast<std::uint8_t>(type);
    record.operation = static_cast<std::uint8_t>(op);
    record.device = 1;
    record.count = count;
    const std::uint64_t bytes = std::min(chunk_bytes ? chunk_bytes : UINT64_MAX, capacity(how));
    const std::uint64_t most = std::max<std::uint64_t>(bytes / element_bytes / 16 * 16, 1);
    for (std::uint64_t done = 0; done < count; done += most) {
      const std::uint64_t part = std::min(most, count - done);
      device_launch shape{how, blocks};
      if (how == algorithm::two_shot) {
        shape.step_units = two_shot_step(part * element_bytes, map_, blocks);
        shape.pulls = reaches_memory_ && mix64(part) % 2;  // alike on all ranks
      }
      must(side_->all_reduce(shape, static_cast<const std::byte*>(send) + done * element_bytes,
                             static_cast<std::byte*>(recv) + done * element_bytes, part, record, stream),
           "all_reduce");
    }
  }

  // The same, moved by copy engines.
  void all_reduce_by_copies(const void* send, void* recv, std::uint64_t count, xylDataType_t type, xylRedOp_t op,
                            cudaStream_t stream) {
    call_record record;
    record.what = collective::all_reduce;
    record.type = static_cast<std::uint8_t>(type);
    record.operation = static_cast<std::uint8_t>(op);
    record.device = 1;
    record.count = count;
    must(side_->all_reduce_by_copies(send, recv, count, record, stream), "all_reduce_by_copies");
  }

 private:
  static constexpr std::size_t page_bytes = 4096;
  int rank_ = 0, ranks_ = 0;
  unsigned most_blocks_ = 1;
  bool reaches_memory_ = true, has_wide_packets_ = false, has_line_packets_ = false;
  layout map_;
  control_block* control_ = nullptr;
  std::unique_ptr<device_side> side_;
};

}  // namespace xyl::gpu_test
