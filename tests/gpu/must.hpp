// SPDX-License-Identifier: BSD-3-Clause
//
// Checks of the GPU test programs. must(): the scaffolding, whose failure ends the process and with it, under
// mpirun, the job. expect(): what is tested; failures are counted, and the first few printed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/result.hpp"
#include "xylem/xylem.h"

namespace xyl::gpu_test {

inline int failures = 0, checks = 0;
// Begins every line that is printed: which rank, and what is being tried.
inline std::string scene;

[[noreturn]] inline void give_up(const char* what, const char* why) {
  std::fprintf(stderr, "%s: %s: %s\n", scene.c_str(), what, why);
  std::fflush(nullptr);
  std::abort();
}
inline void must(bool good, const char* what, const char* why = "failed") {
  if (!good) give_up(what, why);
}
inline void must(cudaError_t status, const char* what) {
  if (status != cudaSuccess) give_up(what, cudaGetErrorString(status));
}
inline void must(const result& r, const char* what) {
  if (!r.ok()) give_up(what, r.text().c_str());
}

[[gnu::format(printf, 2, 3)]] inline bool expect(bool good, const char* format, ...) {
  ++checks;
  if (good) return true;
  if (++failures > 20) return false;
  va_list list;
  va_start(list, format);
  std::fprintf(stderr, "FAILED: %s: ", scene.c_str());
  std::vfprintf(stderr, format, list);
  std::fprintf(stderr, "\n");
  va_end(list);
  return false;
}

}  // namespace xyl::gpu_test
