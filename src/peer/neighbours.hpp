// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks of one process find each other's workspace here, by the secret of their communicator, and share the very
// same mapping. A rank is listed while its communicator is being initialised only.
#pragma once

#include <memory>

#include "os/sealed_memory.hpp"
#include "peer/introduction.hpp"

namespace xyl {

class listed_workspace {
 public:
  listed_workspace() = default;
  listed_workspace(const listed_workspace&) = delete;
  ~listed_workspace() { remove(); }

  void add(const secret_bytes& secret, int rank, std::shared_ptr<sealed_memory> memory);
  void remove();
  // Empty if that rank is not listed by this process.
  static std::shared_ptr<sealed_memory> find(const secret_bytes& secret, int rank);

 private:
  secret_bytes secret_{};
  int rank_ = -1;  // not listed
};

}  // namespace xyl
