// SPDX-License-Identifier: BSD-3-Clause
//
// xylem-probe: measures and proves links in a process of its own, since a bad access to a peer's memory can leave
// errors that nothing but the end of a process removes.
#include <unistd.h>

#include <cstdio>

#include "probe/helper.hpp"

// Without the destructors of the CUDA runtime, which would wait for a kernel that hangs.
int main(int argc, char** argv) {
  const int code = xyl::probe::helper_main(argc, argv, xyl::probe::make_link);
  std::fflush(nullptr);
  ::_exit(code);
}
