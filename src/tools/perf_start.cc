// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perf_start.hpp"

#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "os/quiet_thread.hpp"
#include "xylem/xylem_mpi.h"

namespace xyl {
namespace {

struct outcome {
  xylResult_t code = xylSuccess;
  std::string text;
};

// One seat of the meeting of all ranks that are initialised at the same time.
int allgather_at_seat(void* context, const void* send, void* recv, std::size_t bytes) {
  return static_cast<seat*>(context)->allgather(send, recv, bytes);
}

// Initialisation is collective, so every rank of the process needs a thread for it, whoever drives it later.
std::vector<outcome> create_in_threads(const process& self, int devices, std::vector<xylComm_t>& out) {
  std::vector<outcome> outcomes(out.size());
  crew meeting(self.own_ranks, MPI_COMM_WORLD);
  std::vector<std::thread> threads(out.size());
  for (int i = 0; i < self.own_ranks; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto create = [&, i, at] {
      if (devices > 0)
        if (const result used = use_device(device_of(self, devices, i)); !used.ok()) abort_all(-1, used.text());
      seat place(meeting, i);
      outcomes[at].code =
          xylCommInitOob(&out[at], self.ranks(), self.rank * self.own_ranks + i, allgather_at_seat, &place);
      outcomes[at].text = xylGetLastError(nullptr);
    };
    start_or_abort(create, threads[at]);
  }
  for (std::thread& t : threads) t.join();
  return outcomes;
}

}  // namespace

bool speaks_before_mpi() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* rank = std::getenv(name)) return std::strcmp(rank, "0") == 0;
  return true;
}

process start_mpi(int* argc, char*** argv, const perf_options& options) {
  process out;
  out.own_ranks = options.threads * options.ranks_per_thread;
  int provided = 0;
  // Threads take turns; what MPI does for that would slow down a comparison, which has one thread.
  MPI_Init_thread(argc, argv, out.own_ranks > 1 ? MPI_THREAD_SERIALIZED : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &out.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &out.processes);
  if (out.own_ranks > 1 && provided < MPI_THREAD_SERIALIZED)
    abort_all(-1, "this MPI library serves one thread only; leave --nthreads and --ngpus out");
  MPI_Comm node;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &out.local_rank);
  MPI_Comm_free(&node);
  return out;
}

int smallest(int value) {
  int out = 0;
  MPI_Allreduce(&value, &out, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return out;
}

int leave(const process& self, int exit_code, const std::string& why) {
  if (self.speaks()) std::fprintf(stderr, "xylem-perf: %s\n", why.c_str());
  MPI_Finalize();
  return exit_code;
}

void abort_all(int rank, const std::string& why) {
  const std::string who = rank < 0 ? "" : format_text("rank %d: ", rank);
  std::fprintf(stderr, "xylem-perf: %s%s\n", who.c_str(), why.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, exit_failure);
  std::_Exit(exit_failure);
}

void start_or_abort(std::function<void()> body, std::thread& out) {
  if (const result started = start_quiet_thread(std::move(body), out); !started.ok()) abort_all(-1, started.text());
}

int choose_devices(const perf_options& options, std::string& why) {
  const int devices = options.memory == memory_choice::host ? 0 : device_count();
  if (smallest(devices) > 0) return devices;
  if (options.memory == memory_choice::device)
    why =
        "--memory device, but not every rank sees a CUDA device (no GPU, no driver, CUDA_VISIBLE_DEVICES, or a "
        "build without CUDA); leave --memory out to use host memory";
  else if (options.graph_launches > 0)
    why = "--cudagraph needs device memory, and not every rank sees a CUDA device";
  return 0;
}

int device_of(const process& self, int devices, int i) {
  return devices > 0 ? (self.local_rank * self.own_ranks + i) % devices : -1;
}

bool create_communicators(const process& self, int devices, std::vector<xylComm_t>& out) {
  out.assign(static_cast<std::size_t>(self.own_ranks), nullptr);
  std::vector<outcome> outcomes(1);
  if (self.own_ranks > 1) {
    outcomes = create_in_threads(self, devices, out);
  } else {
    outcomes[0].code = xylCommInitMPI(&out[0], MPI_COMM_WORLD);
    // Where the text is "", xylem_mpi.h itself has said what did not reach the library.
    outcomes[0].text = xylGetLastError(nullptr);
  }
  int own = INT_MAX;
  const outcome* cause = nullptr;
  for (int i = 0; i < self.own_ranks; ++i) {
    const outcome& o = outcomes[static_cast<std::size_t>(i)];
    if (o.code == xylSuccess) continue;
    const int weight = self.rank * self.own_ranks + i + (o.code == xylRemoteError ? self.ranks() : 0);
    if (weight >= own) continue;
    own = weight;
    cause = &o;
  }
  const int first = smallest(own);
  if (cause && first == own && !cause->text.empty())
    std::fprintf(stderr, "xylem-perf: rank %d: initialisation: %s: %s\n", own % self.ranks(),
                 xylGetErrorString(cause->code), cause->text.c_str());
  return first == INT_MAX;
}

std::vector<rank_place> gather_places(const process& self, int devices) {
  struct plain {
    char host[65];
    char device_text[127];
    int process;
    int device;
  };
  const std::size_t own_count = static_cast<std::size_t>(self.own_ranks);
  std::vector<plain> own(own_count);
  for (int i = 0; i < self.own_ranks; ++i) {
    plain& p = own[static_cast<std::size_t>(i)];
    p.device = device_of(self, devices, i);
    p.process = static_cast<int>(getpid());
    gethostname(p.host, sizeof p.host - 1);
    if (p.device >= 0) std::snprintf(p.device_text, sizeof p.device_text, "%s", device_text(p.device).c_str());
  }
  std::vector<plain> all(static_cast<std::size_t>(self.ranks()));
  const int bytes = static_cast<int>(own_count * sizeof(plain));
  MPI_Allgather(own.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, MPI_COMM_WORLD);
  std::vector<rank_place> places;
  for (const plain& p : all) places.push_back({p.host, p.process, p.device, p.device_text});
  return places;
}

}  // namespace xyl
