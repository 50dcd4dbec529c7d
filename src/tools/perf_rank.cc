// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perf_rank.hpp"

#include <climits>
#include <utility>

#include "tools/perf_check.hpp"

namespace xyl {

namespace {

// Of every own rank, in a group: each waits for all others.
template <class Call>
result together(std::vector<perf_rank>& own, const char* function, Call call) {
  xylResult_t code = xylGroupStart();
  for (perf_rank& r : own)
    if (code == xylSuccess) code = call(r);
  if (const xylResult_t end = xylGroupEnd(); code == xylSuccess) code = end;
  if (code == xylSuccess) return {};
  for (const perf_rank& r : own)
    if (*xylGetLastError(r.comm))
      return error(code, "%s on rank %d: %s", function, r.rank, xylGetLastError(r.comm));
  return error(code, "%s: %s", function, xylGetErrorString(code));
}

}  // namespace

result perf_team::allocate(std::size_t bytes) {
  bytes += guard_bytes;
  for (perf_rank& r : own)
    for (std::byte** const buffer : {&r.send, &r.recv}) {
      if (options.registration == 0) {
        XYL_TRY(r.memory->allocate(bytes, *buffer));
        continue;
      }
      if (r.device >= 0) XYL_TRY(use_device(r.device));
      void* given = nullptr;
      if (const xylResult_t code = xylMemAlloc(&given, bytes, r.device >= 0 ? xylMemDevice : xylMemHost);
          code != xylSuccess)
        return error(code, "xylMemAlloc on rank %d: %s", r.rank, xylGetLastError(nullptr));
      *buffer = static_cast<std::byte*>(given);
    }
  if (options.registration == 0) return {};
  return together(own, "xylCommRegister", [&](perf_rank& r) {
    const xylResult_t code = xylCommRegister(r.comm, r.send, bytes, &r.windows[0]);
    return code == xylSuccess ? xylCommRegister(r.comm, r.recv, bytes, &r.windows[1]) : code;
  });
}

result perf_team::release() {
  if (options.registration == 0) return {};
  XYL_TRY(together(own, "xylCommDeregister", [](perf_rank& r) {
    const xylResult_t code = xylCommDeregister(r.comm, r.windows[0]);
    return code == xylSuccess ? xylCommDeregister(r.comm, r.windows[1]) : code;
  }));
  for (perf_rank& r : own)
    for (std::byte** const buffer : {&r.send, &r.recv})
      if (const xylResult_t code = xylMemFree(std::exchange(*buffer, nullptr)); code != xylSuccess)
        return error(code, "xylMemFree on rank %d: %s", r.rank, xylGetLastError(nullptr));
  return {};
}

void perf_team::count_wrong(const std::string& what, const fault_count& here, std::int64_t& wrong) {
  const std::int64_t speaker = place.smallest(here.wrong > 0 ? here.rank : INT_MAX);
  const std::int64_t everywhere = place.sum(here.wrong);
  if (here.wrong > 0 && speaker == here.rank)
    std::fprintf(stderr, "xylem-perf: WRONG RESULT: %s: rank %d: %s (%lld wrong here, %lld on all ranks)\n",
                 what.c_str(), here.rank, here.first.c_str(), static_cast<long long>(here.wrong),
                 static_cast<long long>(everywhere));
  wrong += everywhere;
}

}  // namespace xyl
