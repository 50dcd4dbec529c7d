// SPDX-License-Identifier: BSD-3-Clause
//
// Running several functions at the same time: each may wait for any other, so none ever waits for a thread. The
// first runs on the calling thread, the others on helper threads, which are kept for the next time and end with the
// process. A forked child starts helpers of its own.
#pragma once

#include <functional>
#include <span>

#include "base/result.hpp"

namespace xyl {

// Returns when all have returned; none may throw. Fails, having run none, if there are not enough threads.
result run_together(std::span<const std::function<void()>> all);

}  // namespace xyl
