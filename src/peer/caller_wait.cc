// SPDX-License-Identifier: BSD-3-Clause
#include "peer/caller_wait.hpp"

#include <sched.h>
#include <time.h>

#include <string>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "peer/peer_group.hpp"

namespace xyl {
namespace {

constexpr std::int64_t yielding_ns = 1'000'000;
constexpr timespec nap = {0, 50'000};
// What a rank has given to the program's allgather before it left may still be on its way.
constexpr std::int64_t on_its_way_ns = 1'000'000'000;

thread_local caller_wait* innermost = nullptr;

std::string who(const peer_group& group, int missing) {
  return missing < 0 ? "the other ranks" : group.describe(missing);
}

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

caller_wait::caller_wait(const peer_group& group, const caller_limits& limits)
    : group_(group), limits_(limits), began_ns_(now_ns()), warned_(limits.warning_ns == 0), outer_(innermost) {
  innermost = this;
}

caller_wait::~caller_wait() { innermost = outer_; }

result caller_wait::moment(int missing) {
  caller_wait* const w = innermost;
  if (w == nullptr)
    return error(xylInvalidUsage,
                 "xylCommInitWait: this thread is in no allgather that a Xylem initialisation has called");
  if (missing < -1 || missing >= w->group_.ranks())
    return error(xylInvalidArgument, "xylCommInitWait: rank %d of %d; or -1 for an unknown one", missing,
                 w->group_.ranks());
  const std::int64_t waited = now_ns() - w->began_ns_;
  if (w->verdict_.ok()) w->verdict_ = w->look(missing, waited);
  if (!w->verdict_.ok()) return result(w->verdict_.code(), w->verdict_.text());
  if (waited < yielding_ns)
    ::sched_yield();
  else
    ::nanosleep(&nap, nullptr);
  return {};
}

result caller_wait::look(int missing, std::int64_t waited_ns) {
  XYL_TRY(group_.all_live());
  if (missing >= 0 && missing != group_.rank() && group_.departed(missing)) {
    if (left_since_ns_ == 0) left_since_ns_ = now_ns();
    if (now_ns() - left_since_ns_ > on_its_way_ns)
      return error(xylRemoteError, "%s during the initialisation", group_.describe(missing).c_str());
  } else {
    left_since_ns_ = 0;
  }
  if (waited_ns >= limits_.deadline_ns)
    return error(
        xylTimeout, "rank %d waited %.1f s for %s to come to the initialisation%s", group_.rank(),
        seconds(waited_ns), who(group_, missing).c_str(),
        group_.introduced() ? "" : ": it has not begun, or its process ended before it had told who it is");
  if (!warned_ && waited_ns >= limits_.warning_ns) {
    warned_ = true;
    log_line(log_level::warn, group_.rank(),
             "rank %d has waited %.0f s for %s to come to the initialisation; giving up after %.0f s "
             "(XYLEM_TIMEOUT)",
             group_.rank(), seconds(waited_ns), who(group_, missing).c_str(), seconds(limits_.deadline_ns));
  }
  return {};
}

}  // namespace xyl
