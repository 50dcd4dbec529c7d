// SPDX-License-Identifier: BSD-3-Clause
//
// One rank's view of the ranks of a communicator, on the host: where each rank's workspace is mapped here, and
// whether the rank is still alive. Every rank calls create() at the same time; each then has all workspaces mapped
// until its own peer_group ends, whatever becomes of the others. Relies on the caller's allgather during
// initialisation (which can ask whether the others still live: caller_wait), on sealed memory, and on the service
// thread, which poisons this rank's control block within milliseconds of a peer's death, from the first exchange on.
#pragma once

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "os/sealed_memory.hpp"
#include "peer/caller_wait.hpp"
#include "peer/introduction.hpp"
#include "peer/neighbours.hpp"
#include "peer/service.hpp"
#include "proto/layout.hpp"

namespace xyl {

// Collects `bytes` bytes of every rank in rank order; 0 is success.
using allgather_function = std::function<int(const void* mine, void* all, std::size_t bytes)>;

// Which ways to a peer may be tried (tests close some), and how long one handshake, and one call of the caller's
// allgather that asks (caller_wait), may take.
struct peer_ways {
  bool sockets = true;
  bool proc = true;
  int handshake_ms = 10'000;
  caller_limits allgather = {};
};

class peer_group final : private service_client {
 public:
  // Collective. map is the same on all ranks, with map.ranks ranks. An error of one rank is an error of all.
  static result create(int rank, allgather_function allgather, const layout& map, std::unique_ptr<peer_group>& out,
                       const peer_ways& ways = {});

  // Tells the peers that this rank departs. Waits for nobody. In a forked child it does nothing.
  ~peer_group();

  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(introductions_.size()); }

  // Mapped here until this object ends. For ranks of this process it is their very own mapping.
  std::byte* workspace(int rank) const { return memory_[rank]->data(); }
  bool same_process(int rank) const;
  // The rank's process as this process calls it; 0 where the two number processes differently.
  std::int64_t process_number(int rank) const;
  bool departed(int rank) const;
  // True at the latest when this rank's control block is poisoned for it.
  bool dead(int rank) const;

  // "rank 5 (process 4711)", or "rank 5 (process 4711, which is gone)", "..., which aborted", "..., which has
  // left".
  std::string describe(int rank) const;

  // During initialisation only, in the same order on all ranks. exchange: an allgather. agree: success if every
  // rank came with success; a rank that failed gets its own error back, the others xylRemoteError with the first
  // one's text.
  result exchange(const void* mine, void* all, std::size_t bytes) const;
  result agree(result mine) const;
  // Whether the first exchange is over, in which the ranks say who they are.
  bool introduced() const { return introductions_[rank_].process_number != 0; }
  // Success, or xylRemoteError with the name of the rank that died, the first if there are several.
  result all_live() const;

  // Says that this rank takes part in nothing any more and has let go of the peers' device memory; the destructor
  // says it too. Peers that have departed or died no longer need this rank's device memory.
  void depart();
  bool needed() const;

  // Poisons every rank with (code, this rank). From any thread, any number of times; needs no help of the peers.
  void abort(int code);

 private:
  struct peer_state {
    std::atomic<bool> dead{false};
    bool watched = false;    // its process is
    bool connected = false;  // shook hands; guarded by guard_, as memory is
    unique_fd memory;        // arrived, not mapped yet
  };

  peer_group(int rank, allgather_function allgather, const layout& map, const peer_ways& ways);
  result meet();
  result prepare(introduction& mine);
  result enrol();
  void watch_process(int peer);
  bool ends(int peer);
  result connect(std::vector<std::uint8_t>& reached);
  result connect_to(int peer, std::uint8_t& reached);
  result map_all(const std::vector<std::uint8_t>& reached);
  result map_remote(int peer, bool by_socket);
  result memory_by_socket(int peer, unique_fd& fd);
  result memory_by_proc(int peer, unique_fd& fd) const;
  control_block& control(int rank) const { return *reinterpret_cast<control_block*>(workspace(rank)); }

  bool welcome(const message& hello, message& answer, int& memory) override;
  bool received(int peer, const message& m, unique_fd memory) override;
  void ended(int peer) noexcept override;

  const int rank_;
  const pid_t process_ = ::getpid();  // differs in a forked child, which must keep its hands off
  const layout map_;
  const peer_ways ways_;
  const allgather_function allgather_;
  std::vector<introduction> introductions_;
  mutable std::vector<report> reports_;  // room for agree(), so that a lack of memory cannot keep a rank from it
  secret_bytes secret_{};
  listed_workspace listed_;
  std::shared_ptr<service> service_;  // none if this is the only rank

  mutable std::mutex guard_;  // of memory_ during create(), and of peers_ where said
  std::condition_variable changed_;
  std::vector<std::shared_ptr<sealed_memory>> memory_;
  std::unique_ptr<peer_state[]> peers_;
};

}  // namespace xyl
