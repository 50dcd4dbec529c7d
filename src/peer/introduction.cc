// SPDX-License-Identifier: BSD-3-Clause
#include "peer/introduction.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace xyl {
namespace {

constexpr std::uint64_t introduction_magic = 0x6f6c6c65686c7978;  // "xylhello" in memory order

std::string version_text(const introduction& who) {
  return format_text("%u.%u.%u (wire version %u)", who.library / 10000, who.library / 100 % 100, who.library % 100,
                     who.wire);
}

// Does `other`, the introduction of rank r, fit to rank 0's?
result compare(const introduction& first, const introduction& other, int r) {
  if (other.magic != introduction_magic)
    return error(xylInvalidUsage, "the allgather delivered something else than Xylem's introduction for rank %d",
                 r);
  if (other.wire != first.wire || other.library != first.library)
    return error(xylInvalidUsage, "rank 0 runs Xylem %s and rank %d runs %s: all ranks need the same library",
                 version_text(first).c_str(), r, version_text(other).c_str());
  if (other.control_bytes != first.control_bytes || other.record_bytes != first.record_bytes)
    return error(
        xylInvalidUsage,
        "the libraries of ranks 0 and %d are built differently (control blocks of %u and %u bytes, records of "
        "%u and %u): all ranks need the same library",
        r, first.control_bytes, other.control_bytes, first.record_bytes, other.record_bytes);
  return {};
}

}  // namespace

report report::of(const result& r) {
  report made{};
  made.code = r.code();
  std::strncpy(made.text, r.text().c_str(), sizeof made.text - 1);
  return made;
}

result introduction::make(int rank, const layout& map, introduction& out) {
  out = {};
  out.magic = introduction_magic;
  out.wire = wire_version;
  out.library = XYL_VERSION_CODE;
  out.control_bytes = sizeof(control_block);
  out.record_bytes = sizeof(give_up_record);
  out.rank = rank;
  out.ranks = static_cast<int>(map.ranks);
  out.map = map;
  out.process_number = ::getpid();
  out.process_space = process_namespace();
  out.memory_fd = -1;
  XYL_TRY(current_boot(out.boot));
  XYL_TRY(current_process(out.process));
  XYL_TRY(fill_random(out.secret_part.data(), out.secret_part.size()));
  return fill_random(out.nonce, sizeof out.nonce);
}

std::string name_of(int rank, std::int64_t process_number) {
  return format_text("rank %d (process %lld)", rank, static_cast<long long>(process_number));
}

result check_introductions(std::span<const introduction> all, int rank) {
  const int ranks = static_cast<int>(all.size());
  // What can be read from any version, then what needs the same version, and so on: later checks rely on earlier
  // ones.
  for (int r = 0; r < ranks; ++r) XYL_TRY(compare(all[0], all[r], r));
  for (int r = 0; r < ranks; ++r)
    if (all[r].rank != r || all[r].ranks != ranks)
      return error(xylInvalidUsage,
                   "place %d of %d in the allgather holds rank %d of %d: every rank needs its own number, and the "
                   "allgather has to deliver in rank order",
                   r, ranks, all[r].rank, all[r].ranks);
  if (all[rank].state.code != xylSuccess)
    return error(static_cast<xylResult_t>(all[rank].state.code), "%.251s", all[rank].state.text);
  for (int r = 0; r < ranks; ++r)
    if (all[r].state.code != xylSuccess)
      return error(xylRemoteError, "%s failed: %.251s", name_of(r, all[r].process_number).c_str(),
                   all[r].state.text);
  for (int r = 1; r < ranks; ++r)
    if (all[0].map != all[r].map)
      return error(
          xylInvalidUsage,
          "ranks 0 and %d chose different workspaces (%llu and %llu bytes, %u and %u blocks): all ranks need "
          "the same XYLEM_ environment",
          r, static_cast<unsigned long long>(all[0].map.bytes), static_cast<unsigned long long>(all[r].map.bytes),
          all[0].map.blocks, all[r].map.blocks);
  for (int r = 1; r < ranks; ++r)
    if (all[r].boot != all[0].boot)
      return error(xylInvalidUsage,
                   "ranks 0 and %d are on different machines (or one of them was restarted): this version of Xylem "
                   "works inside one machine",
                   r);
  return {};
}

result verdict(result mine, std::span<const report> all, std::span<const introduction> names) {
  if (!mine.ok()) return mine;
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r].code != xylSuccess)
      return error(xylRemoteError, "%s failed: %.251s",
                   name_of(static_cast<int>(r), names[r].process_number).c_str(), all[r].text);
  return {};
}

secret_bytes common_secret(std::span<const introduction> all) {
  // Every part is uniformly random and none depends on another, so their exclusive or is as secret as the best of
  // them.
  secret_bytes secret{};
  for (const introduction& one : all)
    for (std::size_t i = 0; i < secret.size(); ++i) secret[i] ^= one.secret_part[i];
  return secret;
}

}  // namespace xyl
