// SPDX-License-Identifier: BSD-3-Clause
// Access control services of PCIe ports: whether a port sends peer-to-peer requests up to the root complex instead
// of straight to the neighbour. Read through libpci where the library was built with it; unprivileged readers see
// only the first 64 bytes of the configuration space, where it is not.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "topo/graph.hpp"

namespace xyl::topo {

class acs_reader {
 public:
  // sys: the folder that holds bus/pci.
  explicit acs_reader(const std::string& sys);
  ~acs_reader();
  acs_reader(const acs_reader&) = delete;
  acs_reader& operator=(const acs_reader&) = delete;

  // Nothing: not readable, or no such port. A port without the capability redirects nothing.
  [[nodiscard]] std::optional<bool> redirects(const pci_address& port);

  // Whether this build can read it at all.
  [[nodiscard]] static bool available();

 private:
  struct access;
  std::unique_ptr<access> access_;
};

}  // namespace xyl::topo
