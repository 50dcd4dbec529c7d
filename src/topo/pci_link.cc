// SPDX-License-Identifier: BSD-3-Clause
// Parsing with from_chars, which neither throws nor knows locales.
#include "topo/pci_link.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "base/result.hpp"

namespace xyl::topo {
namespace {

// Takes a hexadecimal number of at most `digits` digits and the character behind it off the front of text.
bool take(std::string_view& text, std::size_t digits, std::uint32_t& out, char behind) {
  const std::size_t window = std::min(text.size(), digits);
  const auto [end, status] = std::from_chars(text.data(), text.data() + window, out, 16);
  if (status != std::errc{} || end == text.data()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (behind == '\0') return text.empty();
  if (!text.starts_with(behind)) return false;
  text.remove_prefix(1);
  return true;
}

// The rate of 2.5 GT/s on one lane, with room for how it is rounded when printed.
constexpr double gen1_lane = 0.25;
bool is_gen1_x1(double gigabytes_per_second) { return gigabytes_per_second <= gen1_lane * 1.01; }

std::optional<double> lesser(const std::optional<double>& a, const std::optional<double>& b) {
  if (!a) return b;
  if (!b) return a;
  return std::min(*a, *b);
}

}  // namespace

std::optional<pci_address> parse_pci_address(std::string_view text) {
  std::uint32_t domain = 0, bus = 0, device = 0, function = 0;
  if (std::count(text.begin(), text.end(), ':') == 2 && !take(text, 8, domain, ':')) return std::nullopt;
  if (!take(text, 2, bus, ':') || !take(text, 2, device, '.') || !take(text, 1, function, '\0'))
    return std::nullopt;
  if (device > 0x1f || function > 7) return std::nullopt;
  return pci_address{domain, static_cast<std::uint8_t>(bus), static_cast<std::uint8_t>(device),
                     static_cast<std::uint8_t>(function)};
}

std::string name_of(const pci_address& address) {
  return format_text("%04x:%02x:%02x.%x", address.domain, address.bus, address.device, address.function);
}

std::optional<double> parse_transfer_rate(std::string_view text) {
  double rate = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), rate);
  if (status != std::errc{} || !std::isfinite(rate) || rate <= 0 || rate > 1024) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (!unit.empty() && !unit.starts_with(" GT/s") && !unit.starts_with("GT/s")) return std::nullopt;
  return rate;
}

double link_capacity(double gigatransfers, unsigned lanes) {
  // Gen1 and Gen2 code 8 bits in 10, Gen3 to Gen5 128 in 130; Gen6 sends flits of 256 bytes of which 242 carry.
  const double coding = gigatransfers <= 5 ? 8.0 / 10 : gigatransfers <= 32 ? 128.0 / 130 : 242.0 / 256;
  return gigatransfers * coding / 8 * lanes;
}

std::optional<double> believable_link(double gigatransfers, unsigned lanes, bool bridge) {
  if (lanes == 0 || lanes > 32 || !(gigatransfers > 0)) return std::nullopt;
  return believable_link(link_capacity(gigatransfers, lanes), bridge);
}

std::optional<double> believable_link(double gigabytes_per_second, bool bridge) {
  if (!std::isfinite(gigabytes_per_second) || gigabytes_per_second <= 0 || gigabytes_per_second > 1e4)
    return std::nullopt;
  if (bridge && is_gen1_x1(gigabytes_per_second)) return std::nullopt;
  return gigabytes_per_second;
}

std::uint32_t connect(graph& g, vertex_id parent, vertex_id child, const link_end& port, const link_end& device,
                      confidence trust) {
  const std::optional<double> most = lesser(port.most, device.most);
  const std::optional<double> now = lesser(port.now, device.now);
  figure capacity, current;
  if (most)
    capacity = {*most, source::nominal, trust};
  else if (now)
    capacity = {*now, source::nominal, confidence::low};
  if (now) current = {*now, source::nominal, std::min(trust, confidence::medium)};
  const std::uint32_t there = g.link(parent, child, edge_kind::pcie, capacity, {});
  g.edges[there].current = g.edges[there + 1].current = current;
  return there;
}

}  // namespace xyl::topo
