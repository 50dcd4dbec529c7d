// SPDX-License-Identifier: BSD-3-Clause
// The build without libpci: nothing is known of access control services.
#include "topo/acs.hpp"

namespace xyl::topo {

struct acs_reader::access {};

acs_reader::acs_reader(const std::string&) {}
acs_reader::~acs_reader() = default;
std::optional<bool> acs_reader::redirects(const pci_address&) { return std::nullopt; }
bool acs_reader::available() { return false; }

}  // namespace xyl::topo
