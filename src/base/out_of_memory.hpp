// SPDX-License-Identifier: BSD-3-Clause
//
// What the standard library throws, as a result: where a rank has to go on after a step of its own that failed,
// because others wait for what it says about that.
#pragma once

#include <exception>
#include <new>

#include "base/result.hpp"

namespace xyl {

// step() returns a result.
template <class F>
result or_out_of_memory(F&& step) {
  try {
    return step();
  } catch (const std::bad_alloc&) {
    return error(xylSystemError, "out of memory");
  }
}

// The same on a thread of our own, from which nothing may come out.
template <class F>
result without_exceptions(F&& step) {
  try {
    return or_out_of_memory(step);
  } catch (const std::exception& e) {
    return error(xylInternalError, "unexpected: %s", e.what());
  }
}

}  // namespace xyl
