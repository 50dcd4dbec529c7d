// SPDX-License-Identifier: BSD-3-Clause
//
// xylem-perf: every rank is an MPI process. Rank 0 prints. Exit codes: 0, exit_wrong_result, exit_usage (a sentence
// says why), exit_failure (an operation failed; MPI_Abort ends the other ranks).
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "tools/perf_progress.hpp"
#include "tools/perf_run.hpp"
#include "tools/perf_types.hpp"
#include "xylem/xylem_mpi.h"

namespace xyl {
namespace {

struct process {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;
};

// Before MPI_Init: by what launchers say of the rank, so that a wrong command line is complained about once.
bool speaks_before_mpi() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* rank = std::getenv(name)) return std::strcmp(rank, "0") == 0;
  return true;
}

process start_mpi(int* argc, char*** argv) {
  process out;
  MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &out.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &out.ranks);
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

// For what all ranks know: rank 0 says it, all leave.
int leave(const process& self, int exit_code, const std::string& why) {
  if (self.rank == 0) std::fprintf(stderr, "xylem-perf: %s\n", why.c_str());
  MPI_Finalize();
  return exit_code;
}

// For what one rank alone may know.
[[noreturn]] void abort_all(const process& self, const std::string& why) {
  std::fprintf(stderr, "xylem-perf: rank %d: %s\n", self.rank, why.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, exit_failure);
  std::_Exit(exit_failure);
}

void demand(const process& self, const result& r) {
  if (!r.ok()) abort_all(self, r.text());
}

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

// The communicator. Every rank returns the same verdict; of ranks that failed the one with a cause of its own
// speaks.
bool create_communicator(const process& self, xylComm_t& comm) {
  const xylResult_t code = xylCommInitMPI(&comm, MPI_COMM_WORLD);
  const int weight = code == xylSuccess ? INT_MAX : self.rank + (code == xylRemoteError ? self.ranks : 0);
  const int first = smallest(weight);
  // xylem_mpi.h itself has said what did not reach the library.
  if (first == weight && code != xylSuccess && *xylGetLastError(nullptr))
    std::fprintf(stderr, "xylem-perf: rank %d: xylCommInitMPI: %s: %s\n", self.rank, xylGetErrorString(code),
                 xylGetLastError(nullptr));
  return first == INT_MAX;
}

std::vector<rank_place> gather_places(const process& self, int device) {
  struct plain {
    char host[65];
    char device_text[127];
    int process;
    int device;
  };
  plain own{};
  gethostname(own.host, sizeof own.host - 1);
  if (device >= 0) std::snprintf(own.device_text, sizeof own.device_text, "%s", device_text(device).c_str());
  own.process = static_cast<int>(getpid());
  own.device = device;
  std::vector<plain> all(static_cast<std::size_t>(self.ranks));
  MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, MPI_COMM_WORLD);
  std::vector<rank_place> places;
  for (const plain& p : all) places.push_back({p.host, p.process, p.device, p.device_text});
  return places;
}

struct line {
  xylDataType_t type;
  xylRedOp_t operation;
  std::size_t count;
};

// Whole elements, at least one; sizes that come to the same count make one line.
std::vector<line> plan_lines(const perf_options& options) {
  std::vector<line> lines;
  for (xylDataType_t type : options.types)
    for (xylRedOp_t operation : options.operations) {
      if (!go_together(info_of(type), info_of(operation))) continue;
      std::size_t last = 0;
      for (std::uint64_t bytes : sizes_of(options)) {
        const std::size_t count = std::max<std::size_t>(bytes / info_of(type).size, 1);
        if (count != last) lines.push_back({type, operation, count});
        last = count;
      }
    }
  return lines;
}

void sweep(const process& self, xylComm_t comm, const perf_collective& collective, perf_memory& memory,
           perf_report& report, std::ofstream& csv) {
  measurement measuring(report.options, collective, comm, MPI_COMM_WORLD, memory);
  demand(self, measuring.allocate(std::max<std::size_t>(report.options.most_bytes, 8)));
  const std::vector<line> lines = plan_lines(report.options);
  const bool speaks = self.rank == 0;
  progress_line progress(lines.size(), speaks);
  const auto print = [&](const std::string& text) {
    progress.clear();
    if (speaks) std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  };
  print(header_text(report));
  if (csv.is_open()) csv << csv_header(report);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const line& l = lines[i];
    progress.begin(i, format_text("%zu %s, %s", l.count, info_of(l.type).name, info_of(l.operation).name));
    perf_row row;
    const result measured = measuring.measure(l.type, l.operation, l.count, row);
    if (!measured.ok()) progress.clear();
    demand(self, measured);
    report.rows.push_back(row);
    print(row_text(report, row));
    if (csv.is_open()) csv << csv_row(report, row) << std::flush;
  }
  print(footer_text(report));
}

// The device of this rank, or -1 for host memory. Every rank gets the same verdict in `why` ("": go on).
int choose_device(const process& self, const perf_options& options, std::string& why) {
  const int devices = options.memory == memory_choice::host ? 0 : device_count();
  if (smallest(devices) > 0) return self.local_rank % devices;
  if (options.memory == memory_choice::device)
    why =
        "--memory device, but not every rank sees a CUDA device (no GPU, no driver, CUDA_VISIBLE_DEVICES, or a "
        "build without CUDA); leave --memory out to use host memory";
  else if (options.graph_launches > 0)
    why = "--cudagraph needs device memory, and not every rank sees a CUDA device";
  return -1;
}

int run(int argc, char** argv) {
  std::vector<subcommand> subcommands;
  for (const perf_collective& c : perf_collectives()) subcommands.push_back({c.name, c.help});
  perf_report report;
  report.version = version_text();
  const command_line_outcome outcome =
      read_command_line(argc, argv, subcommands, "xylem-perf (Xylem " + report.version + ")", report.options);
  if (outcome.exit_code >= 0) {
    if (speaks_before_mpi()) std::fputs(outcome.output.c_str(), stdout);
    if (speaks_before_mpi()) std::fputs(outcome.error.c_str(), stderr);
    // mpirun ends all ranks when one leaves with an error: the rank that speaks must be the first to leave.
    if (outcome.exit_code != 0 && !speaks_before_mpi()) ::sleep(2);
    return outcome.exit_code;
  }
  const perf_options& options = report.options;
  const perf_collective& collective =
      *std::find_if(perf_collectives().begin(), perf_collectives().end(),
                    [&](const perf_collective& c) { return options.collective == c.name; });

  const process self = start_mpi(&argc, &argv);
  std::ofstream csv;
  std::ofstream json;
  if (self.rank == 0 && !options.csv_file.empty()) csv.open(options.csv_file);
  if (self.rank == 0 && !options.json_file.empty()) json.open(options.json_file);
  if (smallest(!csv.fail()) == 0) return leave(self, exit_usage, "cannot write to --csv " + options.csv_file);
  if (smallest(!json.fail()) == 0) return leave(self, exit_usage, "cannot write to --json " + options.json_file);

  std::string why;
  int device = choose_device(self, options, why);
  if (!why.empty()) return leave(self, exit_usage, why);
  if (device >= 0) demand(self, use_device(device));
  // Measuring host memory needs no device workspace. The user's own setting wins.
  if (device < 0) ::setenv("XYLEM_GPU", "never", 0);

  xylComm_t comm = nullptr;
  if (!create_communicator(self, comm)) {
    xylCommDestroy(comm);
    MPI_Finalize();
    return exit_failure;
  }
  int communicator_device = -1;
  xylCommDevice(comm, &communicator_device);
  if (device >= 0 && smallest(communicator_device) < 0) {
    if (options.memory == memory_choice::device || options.graph_launches > 0) {
      xylCommDestroy(comm);
      return leave(
          self, exit_usage,
          "the communicator has no CUDA device (XYLEM_GPU=never, or a library without CUDA); use --memory host");
    }
    device = -1;
  }

  report.device_memory = device >= 0;
  report.mpi_version = mpi_version_text();
  report.bus_factor = collective.bus_factor(self.ranks);
  report.places = gather_places(self, device);
  std::unique_ptr<perf_memory> memory = make_host_memory();
  if (device >= 0) demand(self, make_device_memory(device, memory));
  sweep(self, comm, collective, *memory, report, csv);
  if (json.is_open()) json << json_text(report) << std::flush;
  if (csv.is_open()) csv.close();
  const bool files_are_whole = smallest(!csv.fail() && !json.fail()) == 1;

  xylCommDestroy(comm);
  memory.reset();
  if (!files_are_whole) return leave(self, exit_failure, "a file could not be written to its end (disk full?)");
  MPI_Finalize();
  return wrong_elements(report) > 0 ? exit_wrong_result : 0;
}

}  // namespace
}  // namespace xyl

int main(int argc, char** argv) { return xyl::run(argc, argv); }
