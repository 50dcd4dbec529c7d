// SPDX-License-Identifier: BSD-3-Clause
#include "peer/reading_proof.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace xyl {

reading_proof::reading_proof(int ranks)
    : processes_(static_cast<std::size_t>(ranks)),
      addresses_(static_cast<std::size_t>(ranks)),
      findings_(static_cast<std::size_t>(ranks)) {}

result reading_proof::attempt(const peer_group& group, process_reader read) {
  for (int r = 0; r < group.ranks(); ++r) processes_[static_cast<std::size_t>(r)] = group.process_number(r);
  const control_block& own = *reinterpret_cast<const control_block*>(group.workspace(group.rank()));
  const std::uint64_t address = reinterpret_cast<std::uintptr_t>(&own.identity.nonce);
  XYL_TRY(group.exchange(&address, addresses_.data(), sizeof address));
  const finding mine = try_all(group, read);
  return group.exchange(&mine, findings_.data(), sizeof mine);
}

reading_proof::finding reading_proof::try_all(const peer_group& group, process_reader read) const {
  for (int p = 0; p < group.ranks(); ++p) {
    if (p == group.rank()) continue;
    const auto at = static_cast<std::size_t>(p);
    const control_block& control = *reinterpret_cast<const control_block*>(group.workspace(p));
    std::uint8_t nonce[sizeof control.identity.nonce] = {};
    if (processes_[at] <= 0) return {p, ESRCH};
    const ssize_t got = read(processes_[at], nonce, addresses_[at], sizeof nonce);
    if (got < 0) return {p, errno};
    if (got != sizeof nonce || std::memcmp(nonce, control.identity.nonce, sizeof nonce) != 0)
      return {p, finding::other_memory};
  }
  return {-1, 0};
}

bool reading_proof::allowed() const {
  return std::all_of(findings_.begin(), findings_.end(), [](const finding& f) { return f.peer == -1; });
}

std::string reading_proof::why_not() const {
  for (std::size_t r = 0; r < findings_.size(); ++r)
    if (const finding& f = findings_[r]; f.peer != -1)
      return format_text(
          "rank %zu cannot read the memory of rank %d: %s", r, f.peer,
          f.error == finding::other_memory ? "it finds something else there" : std::strerror(f.error));
  return {};
}

}  // namespace xyl
