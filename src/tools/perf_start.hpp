// SPDX-License-Identifier: BSD-3-Clause
//
// How a run begins: MPI, the devices, the communicators, and the ways to leave. Every process has the same number
// of threads, every thread the same number of ranks; ranks are numbered in that order.
#pragma once

#include <mpi.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tools/perf_rank.hpp"
#include "tools/perf_report.hpp"

namespace xyl {

struct process {
  int rank = 0;  // of the process in MPI_COMM_WORLD
  int processes = 1;
  int local_rank = 0;
  int own_ranks = 1;  // that it drives
  int ranks() const { return processes * own_ranks; }
  bool speaks() const { return rank == 0; }
};

// Before MPI_Init: by what launchers say of the rank, so that a wrong command line is complained about once.
bool speaks_before_mpi();

process start_mpi(int* argc, char*** argv, const perf_options& options);

// The smallest value of all processes. For the main thread, before others run.
int smallest(int value);

// For what all processes know: the first says it, all leave.
int leave(const process& self, int exit_code, const std::string& why);
// For what one rank alone may know; rank < 0: the process. Ends all.
[[noreturn]] void abort_all(int rank, const std::string& why);
// A thread that cannot be started ends all, too.
void start_or_abort(std::function<void()> body, std::thread& out);

// The number of devices to use, 0 for host memory. All processes get the same verdict in `why` ("": go on).
int choose_devices(const perf_options& options, std::string& why);

// The own ranks' communicators, in order. All processes return the same verdict, and of ranks that failed the one
// with a cause of its own has said so. devices as above.
bool create_communicators(const process& self, int devices, std::vector<xylComm_t>& out);
// The device of the process's i-th rank, -1 without devices.
int device_of(const process& self, int devices, int i);

// In rank order, of all processes.
std::vector<rank_place> gather_places(const process& self, int devices);

}  // namespace xyl
