// SPDX-License-Identifier: BSD-3-Clause
//
// The device half of a communicator: this rank's workspace, the peers' workspaces as this rank's device reaches
// them, and the launches. Workspaces lie in device memory, or, where devices cannot reach each other's, in host
// memory that all ranks map; then what a rank alone uses still lies in its device's memory. No CUDA type appears
// here; a build without CUDA, or a machine without a driver, has no device (current_device() is -1) and never
// creates one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/parameters.hpp"
#include "base/result.hpp"
#include "exec/device_memory.hpp"
#include "exec/device_trial.hpp"
#include "exec/host_scale.hpp"
#include "peer/peer_group.hpp"
#include "proto/algorithm.hpp"
#include "proto/call.hpp"
#include "proto/forms.hpp"
#include "proto/fused_work.hpp"
#include "proto/joint.hpp"
#include "proto/long_swap.hpp"
#include "proto/pull.hpp"
#include "proto/reduce_to.hpp"

namespace xyl {

// The most ranks a kernel's arguments have room for.
inline constexpr int device_capacity = 64;

// What a rank tells the others about its workspace. Plain bytes, exchanged over the control plane.
struct device_handle {
  std::uint8_t uuid[16];     // of the GPU: equal means the same GPU
  std::uint8_t process[16];  // token of the process: equal means that `address` can be used as it is
  std::uint64_t address;     // of the workspace in that process
  std::int32_t ordinal;      // CUDA device number in that process
  std::int32_t max_blocks;   // co-resident blocks of the most demanding kernel on the whole device
  std::int32_t max_fused_blocks[device_fused_forms];  // the same of the fused kernels, by form
  std::int32_t
      max_clustered_blocks[device_fused_forms];  // in clusters of the most that may share a row; 0: there are none
  std::int32_t max_pull_blocks;                  // and of kernels on registered buffers
  std::int32_t pci_domain, pci_bus, pci_device;
  std::int32_t sm;       // compute capability: 10 * major + minor
  std::uint8_t ipc[64];  // cudaIpcMemHandle_t
};

enum class memory_kind : std::uint8_t { host, device, other_device };

// What to launch for one chunk; equal on all ranks.
struct device_launch {
  algorithm how;
  unsigned blocks;
  ring_seat ring = {};
  // Not null: a sum, to which this is added in fp32 before it is rounded (see proto/addend.hpp). Only where
  // can_add() says so, and neither with a ring nor with one-shot packets.
  const void* addend = nullptr;
  bool is_sum = false;  // whatever the record says: it is that of a fused call
  // Two-shot: units of each share that a block deals with at a time; 0: all of them.
  std::uint32_t step_units = 0;
  bool pulls = false;  // two-shot: peers come for what is theirs
};

struct fused_launch {
  fused_form form;
  unsigned blocks;  // a multiple of work.split
  unsigned lanes;
  const std::byte* const* input_of = nullptr;  // every rank's, for the forms that pull
};

// The same for reduce and reduce-scatter, and for what only moves data.
struct device_reduce {
  reduce_form form;
  unsigned blocks;
  reduce_target target;
};
struct device_move {
  move_form form;
  unsigned blocks;
  movement what;
};
// What two ranks swap, see proto/long_swap.hpp: to be summed with the call's input, or moved, and this rank's own
// with it, as long as the peer's.
struct device_swap {
  swapped both;
  bool sums = false;
  const void* own = nullptr;
  void* own_to = nullptr;
};
// Pieces of input, `stride` bytes apart, to be multiplied.
struct device_scale {
  scaling by;
  std::uint64_t stride;
  int pieces;
  std::uint64_t elements;  // of a piece
};

class device_side {
 public:
  virtual ~device_side() = default;

  // The calling thread's current CUDA device; -1 if there is none.
  static int current_device();
  // How many there are; 0 without CUDA or a driver.
  static int count();

  // Allocates and clears the workspace. host_control is the first `host_bytes` (whole pages) of this rank's host
  // workspace, a control_block: kernels read its poison and write its give_up_record there. deadline_ns: how long a
  // wait may last. copies: whether the device's memory, too, has the part of the layout that copy engines write.
  static result create(int device, const layout& map, std::byte* host_control, std::size_t host_bytes,
                       std::int64_t deadline_ns, bool copies, std::unique_ptr<device_side>& out);

  virtual const device_handle& handle() const = 0;
  // Maps the workspaces of all ranks (handles in rank order). Fails, naming the peer, where memory cannot be
  // reached. windows: if set, the workspaces are this host memory (of map().bytes, zeroed), not that of the
  // devices.
  virtual result connect(std::span<const device_handle> all, int rank,
                         std::shared_ptr<const peer_group> windows = {}) = 0;
  // After disconnect() of all ranks: the workspace and what this rank counted is again as create() left it.
  virtual result reset() = 0;

  // Self-tests of sync paths, after connect(). All ranks prepare before any of them tries.
  virtual result prepare_trials() = 0;
  // Every rank does the same at the same time. What the test found is no error, out says it; the result is whether
  // it was run. Bounded by the plan's limits.
  virtual result try_path(const trial_plan& plan, trial_finding& out) = 0;
  virtual void end_trials() = 0;
  // What launches from now on do: how they post flags, and when they let the next one be scheduled (never
  // `automatic`; `none` where the device cannot). Equal on all ranks, as far as it concerns flags.
  virtual void use(const sync_choice& choice) = 0;
  // What it came to.
  virtual const sync_choice& in_use() const = 0;
  // Whether launches can overlap at all.
  virtual bool can_overlap() const = 0;
  // Whether there are kernels of lines of 16 bytes, which toolkits before CUDA 12.4 cannot make.
  virtual bool has_line_kernels() const = 0;

  virtual const layout& map() const = 0;
  virtual memory_kind classify(const void* pointer) const = 0;
  // Enqueues one chunk. record is the whole call's. Orders itself behind this communicator's last work if that was
  // enqueued on another stream.
  virtual result all_reduce(device_launch how, const void* send, void* recv, std::uint64_t count,
                            const call_record& record, xylStream_t stream) = 0;
  // A whole call in all its chunks, moved by copy engines, which leaves multiprocessors free. Only where the
  // workspaces have room for it (layout::copies): in host memory, or in the devices' if create() was told so.
  virtual result all_reduce_by_copies(const void* send, void* recv, std::uint64_t count, const call_record& record,
                                      xylStream_t stream) = 0;
  // The same for movements; and for reduce-scatter, whose pieces, one for each rank, are added up.
  virtual result move_by_copies(const movement& how, bool adds_up, const void* send, void* recv,
                                const call_record& record, xylStream_t stream) = 0;
  // The same as all_reduce() for other collectives; movements of 0 bytes are barriers.
  virtual result reduce(const device_reduce& how, const void* send, void* recv, std::uint64_t count,
                        const call_record& record, xylStream_t stream) = 0;
  virtual result move(const device_move& how, const void* send, void* recv, const call_record& record,
                      xylStream_t stream) = 0;
  // On registered buffers. what: buffers, count and record; the rest is filled in.
  virtual result pull_reduce(pull_form form, unsigned blocks, const pull_call<device_capacity>& what,
                             xylStream_t stream) = 0;
  virtual result pull_move(window_use use, unsigned blocks, const movement& how,
                           const pull_call<device_capacity>& what, xylStream_t stream) = 0;
  // device_side::scratch_bytes() of rank p's memory as this rank's device reaches it, which no peer looks at in a
  // call of the ABI; null where devices do not reach each other's memory.
  virtual std::byte* scratch_of(int p) const = 0;
  std::size_t scratch_bytes() const { return map().scratch_bytes(); }
  // Whether all_reduce_by_copies() and move_by_copies() have room and queues.
  virtual bool can_copy() const = 0;
  // What another rank needs to reach this memory of the device. Fails where other processes cannot (memory that is
  // not of cudaMalloc, pinned or managed memory).
  virtual result export_memory(const void* memory, exported_memory& out) const = 0;
  // The memory of rank p as this rank's device reaches it. `opened` is for close_memory(); null: nothing to close.
  virtual result open_memory(const exported_memory& of, int p, bool same_process, std::byte*& out,
                             void*& opened) = 0;
  virtual void close_memory(void* opened) = 0;
  // Enqueues sends and receives that go on together, at most `most_transfers`, of which no two have the same peer
  // and direction; each with so many blocks as it says, `blocks` in all.
  static constexpr std::size_t most_transfers = 64;
  virtual result run_transfers(std::span<const transfer> all, unsigned blocks, const call_record& record,
                               xylStream_t stream) = 0;
  // Enqueues the swap of long messages between two ranks, after a call in which all ranks have compared theirs.
  // input, output, count: of a sum. Only where can_swap() says so.
  virtual result swap(const device_swap& how, const void* input, void* output, std::uint64_t count,
                      const call_record& record, xylStream_t stream) = 0;
  virtual bool can_swap(xylDataType_t type, bool sums) const = 0;
  // Enqueues the scaling of this rank's input into scratch memory, where it lies piece behind piece.
  virtual result scale(const device_scale& how, const void* input, xylStream_t stream, const void*& scaled) = 0;
  // Enqueues a copy within this rank's memory.
  virtual result copy(void* to, const void* from, std::size_t bytes, xylStream_t stream) = 0;
  // What is enqueued on `stream` from now on comes after what was enqueued on `other` before.
  virtual result join(xylStream_t stream, xylStream_t other) = 0;
  // A stream that only this communicator's work is on.
  virtual xylStream_t own_stream() const = 0;
  // The same for one launch of a fused call. work: see fused_work; its split is a cluster if it says so.
  virtual result fused(const fused_launch& how, const fused_work& work, const call_record& record,
                       xylStream_t stream) = 0;
  // Whether all_reduce() can sum this type, and add to the sum.
  virtual bool can_add(xylDataType_t type) const = 0;
  // The second step of a fused call in two, for all of work.tokens: see proto/fused_rows.hpp.
  virtual result fused_rows(const fused_work& work, xylDataType_t type, xylStream_t stream) = 0;
  // What works for all ranks of a communicator, see proto/joint.hpp: all buffers are of this device. It is not
  // ordered behind anybody's earlier launches but by begin_joint() of each rank, with end_joint() behind it.
  virtual result reduce_jointly(const joint_reduction<device_capacity>& what, xylDataType_t type,
                                xylRedOp_t operation, std::uint32_t divisor, xylStream_t stream) = 0;
  virtual result move_jointly(std::span<const joint_piece> all, xylStream_t stream) = 0;
  virtual result begin_joint(xylStream_t stream) = 0;
  virtual result end_joint(xylStream_t stream) = 0;
  // Of launches from now on: the longest that a wait may last.
  virtual void wait_at_most(std::int64_t deadline_ns) = 0;
  // Waits until nothing that was enqueued outside graphs is running.
  virtual result drain() = 0;
  // Stops using the peers' memory. The own workspace may be freed once every peer has done this or is dead.
  virtual void disconnect() = 0;
};

}  // namespace xyl
