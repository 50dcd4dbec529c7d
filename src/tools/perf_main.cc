// SPDX-License-Identifier: BSD-3-Clause
//
// xylem-perf: MPI starts the processes; each drives one rank, or several (--nthreads, --ngpus). Rank 0 prints. Exit
// codes: 0, exit_wrong_result, exit_usage (a sentence says why), exit_failure (an operation failed; MPI_Abort ends
// the other ranks).
#include <mpi.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "exec/host_reduction.hpp"
#include "tools/perf_collective.hpp"
#include "tools/perf_start.hpp"
#include "tools/perf_task.hpp"

namespace xyl {
namespace {

std::string version_text() {
  int version = 0;
  xylGetVersion(&version);
  return format_text("%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

std::string mpi_version_text() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  return std::string(text).substr(0, std::strcspn(text, ",\r\n"));
}

std::string description_of(xylComm_t comm) {
  std::size_t length = 0;
  xylResult_t status = xylCommDescribe(comm, nullptr, &length);
  std::string text(length, '\0');
  if (status == xylSuccess) status = xylCommDescribe(comm, text.data(), &length);
  if (status != xylSuccess) abort_all(-1, xylGetLastError(comm));
  text.pop_back();
  return text;
}

// One thread's share of the run, which ends with its communicators. Failures end all processes.
void run_team(const process& self, crew& threads, int thread, int devices, const perf_options& options,
              const std::vector<xylComm_t>& comms, perf_task& task, std::ofstream& csv) {
  perf_team team{options, seat(threads, thread), self.ranks(), thread == 0, thread == 0 && self.speaks(), {}};
  for (int k = 0; k < options.ranks_per_thread; ++k) {
    const int i = thread * options.ranks_per_thread + k;
    perf_rank own;
    own.rank = self.rank * self.own_ranks + i;
    own.device = device_of(self, devices, i);
    own.comm = comms[static_cast<std::size_t>(i)];
    own.memory = make_host_memory();
    if (own.device >= 0)
      if (const result made = make_device_memory(own.device, own.memory); !made.ok())
        abort_all(own.rank, made.text());
    team.own.push_back(std::move(own));
  }
  if (const result done = task.run(team, csv); !done.ok()) abort_all(team.own.front().rank, done.text());
  // Before their streams are gone.
  for (perf_rank& own : team.own) xylCommDestroy(own.comm);
}

int run(int argc, char** argv) {
  std::vector<subcommand> subcommands;
  for (const perf_collective& c : perf_collectives()) subcommands.push_back({c.name, c.help});
  subcommands.push_back(
      {"decode", "The allreduces of a model's decode step, fused and not", subcommand_kind::decode});
  subcommands.push_back({"fused", "xylAllReduceRMSNorm, pattern by pattern", subcommand_kind::fused});
  const std::string version = version_text();
  perf_options read;
  const command_line_outcome outcome =
      read_command_line(argc, argv, subcommands, "xylem-perf (Xylem " + version + ")", read);
  if (outcome.exit_code >= 0) {
    if (speaks_before_mpi()) std::fputs(outcome.output.c_str(), stdout);
    if (speaks_before_mpi()) std::fputs(outcome.error.c_str(), stderr);
    // mpirun ends all ranks when one leaves with an error: the rank that speaks must be the first to leave.
    if (outcome.exit_code != 0 && !speaks_before_mpi()) ::sleep(2);
    return outcome.exit_code;
  }
  const std::unique_ptr<perf_task> task =
      read.collective == "decode" || read.collective == "fused" ? make_layer_task() : make_sweep_task();
  run_facts& facts = task->facts();
  facts.version = version;
  facts.options = read;
  const perf_options& options = facts.options;

  // Before CUDA is there. Ranks of one process that share a GPU wait for each other there: none of their streams
  // may share a hardware queue with another's. The user's own setting wins.
  if (options.threads * options.ranks_per_thread > 1) ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  const process self = start_mpi(&argc, &argv, options);
  // Before a thread for each is started.
  if (self.ranks() > host_capacity)
    return leave(self, exit_usage,
                 format_text("%d ranks (processes x --nthreads x --ngpus), but a communicator has at most %d",
                             self.ranks(), host_capacity));
  std::string why = options.collective.empty() ? "" : task->objection(self.ranks());
  if (!why.empty()) return leave(self, exit_usage, why);
  std::ofstream csv;
  std::ofstream json;
  if (self.speaks() && !options.csv_file.empty()) csv.open(options.csv_file);
  if (self.speaks() && !options.json_file.empty()) json.open(options.json_file);
  if (smallest(!csv.fail()) == 0) return leave(self, exit_usage, "cannot write to --csv " + options.csv_file);
  if (smallest(!json.fail()) == 0) return leave(self, exit_usage, "cannot write to --json " + options.json_file);

  int devices = choose_devices(options, why);
  if (!why.empty()) return leave(self, exit_usage, why);
  if (devices > 0)
    if (const result used = use_device(device_of(self, devices, 0)); !used.ok()) abort_all(-1, used.text());
  // Measuring host memory needs no device workspace. The user's own setting wins.
  if (devices == 0) ::setenv("XYLEM_GPU", "never", 0);

  std::vector<xylComm_t> comms;
  const bool created = create_communicators(self, devices, comms);
  const auto destroy_unused = [&] {
    for (xylComm_t comm : comms) xylCommDestroy(comm);
  };
  if (!created) {
    destroy_unused();
    MPI_Finalize();
    return exit_failure;
  }
  int communicator_device = -1;
  xylCommDevice(comms.front(), &communicator_device);
  if (devices > 0 && smallest(communicator_device) < 0) {
    if (options.memory == memory_choice::device || options.graph_launches > 0) {
      destroy_unused();
      return leave(
          self, exit_usage,
          "the communicator has no CUDA device (XYLEM_GPU=never, or a library without CUDA); use --memory host");
    }
    devices = 0;
  }

  if (options.describe && self.speaks()) std::fputs(description_of(comms.front()).c_str(), stdout);
  if (options.collective.empty()) {
    destroy_unused();
    MPI_Finalize();
    return 0;
  }
  facts.device_memory = devices > 0;
  facts.mpi_version = mpi_version_text();
  facts.places = gather_places(self, devices);
  crew threads(options.threads, MPI_COMM_WORLD);
  const auto team_of = [&](int thread) { run_team(self, threads, thread, devices, options, comms, *task, csv); };
  std::vector<std::thread> others(static_cast<std::size_t>(options.threads - 1));
  for (int thread = 1; thread < options.threads; ++thread)
    start_or_abort([&team_of, thread] { team_of(thread); }, others[static_cast<std::size_t>(thread - 1)]);
  team_of(0);
  for (std::thread& t : others) t.join();
  if (json.is_open()) json << task->json() << std::flush;
  if (csv.is_open()) csv.close();
  const bool files_are_whole = smallest(!csv.fail() && !json.fail()) == 1;
  // An error of an earlier line stays with the stream.
  const bool table_is_whole = smallest(std::fflush(stdout) == 0 && std::ferror(stdout) == 0) == 1;

  if (!table_is_whole) return leave(self, exit_failure, "standard output could not be written to its end");
  if (!files_are_whole) return leave(self, exit_failure, "a file could not be written to its end (disk full?)");
  MPI_Finalize();
  return task->wrong() > 0 ? exit_wrong_result : 0;
}

}  // namespace
}  // namespace xyl

int main(int argc, char** argv) { return xyl::run(argc, argv); }
