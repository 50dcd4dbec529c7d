// SPDX-License-Identifier: BSD-3-Clause
// PCI addresses and PCIe link rates as text and as numbers. Text may come from anywhere: what does not parse is
// "nothing", never a guess. The rates are those of the PCIe base specifications, one direction, after line coding.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "topo/graph.hpp"

namespace xyl::topo {

// "0000:14:00.0", hexadecimal, with a domain of up to eight digits; also without the domain.
[[nodiscard]] std::optional<pci_address> parse_pci_address(std::string_view text);
[[nodiscard]] std::string name_of(const pci_address& address);

// "32.0 GT/s PCIe", "16 GT/s", "2.5 GT/s": the number in front.
[[nodiscard]] std::optional<double> parse_transfer_rate(std::string_view text);

// GB/s that one direction of `lanes` lanes carries at this many GT/s.
[[nodiscard]] double link_capacity(double gigatransfers, unsigned lanes);

// What is known of the link above a port or device: GB/s; empty where it carries no information.
struct link_end {
  std::optional<double> most;  // the most that this end can do
  std::optional<double> now;   // as trained
};

// A width of 0 or an unreadable rate is no information; so is a bridge that claims Gen1 x1, because virtual bridges
// do and no GPU is behind a real one.
[[nodiscard]] std::optional<double> believable_link(double gigatransfers, unsigned lanes, bool bridge);
[[nodiscard]] std::optional<double> believable_link(double gigabytes_per_second, bool bridge);

// Both directions of the link between a port and what is plugged into it: as much as both ends can do, else as much
// as it is trained to, trusted less. Returns the index of parent -> child.
std::uint32_t connect(graph& g, vertex_id parent, vertex_id child, const link_end& port, const link_end& device,
                      confidence trust);

}  // namespace xyl::topo
