// SPDX-License-Identifier: BSD-3-Clause
#include "comm/joint_pieces.hpp"

#include <map>
#include <utility>

#include "comm/explain.hpp"
#include "exec/dispatch.hpp"

namespace xyl {

namespace {

// What a rank's piece for another is in its input, and where the other wants it.
const std::byte* piece_in(const request& r, const movement& m, std::size_t to) {
  return static_cast<const std::byte*>(r.send) + m.input_stride * to;
}
std::byte* piece_out(const request& r, const movement& m, std::size_t from) {
  return static_cast<std::byte*>(r.recv) + m.output_stride * from;
}

call_record as_record(const request& r) {
  call_record record;
  record.what = r.what;
  record.type = static_cast<std::uint8_t>(r.type);
  record.device = 1;
  record.root = static_cast<std::uint32_t>(r.root);
  record.count = r.count;
  return record;
}

}  // namespace

std::vector<joint_piece> joint_pieces_of(std::span<const request> of_rank) {
  const request& any = of_rank.front();
  const movement m = movement_of(any, any.count * facts_of(any.type)->bytes);
  const bool may_be_in_place = any.what == collective::all_to_all;
  std::vector<joint_piece> all;
  for (std::size_t q = 0; q < of_rank.size(); ++q)
    for (std::size_t p = 0; p < of_rank.size(); ++p) {
      if (!m.goes(static_cast<int>(p), static_cast<int>(q))) continue;
      // There two ranks' pieces for each other go together.
      if (may_be_in_place && p > q) continue;
      joint_piece one;
      one.bytes = m.bytes;
      one.from[0] = piece_in(of_rank[p], m, q);
      one.to[0] = piece_out(of_rank[q], m, p);
      if (may_be_in_place && p < q) {
        one.from[1] = piece_in(of_rank[q], m, p);
        one.to[1] = piece_out(of_rank[p], m, q);
      } else if (one.from[0] == one.to[0]) {
        continue;
      }
      all.push_back(one);
    }
  return all;
}

result match_transfers(std::span<const std::span<const request>> of_rank, bool& is_complete,
                       std::vector<joint_piece>& out) {
  struct ends {
    std::vector<const request*> sends, receives;
  };
  std::map<std::pair<int, int>, ends> pairs;  // by sender and receiver
  for (std::size_t at = 0; at < of_rank.size(); ++at) {
    const int rank = static_cast<int>(at);
    for (const request& r : of_rank[at]) {
      const bool sends = r.what == collective::send;
      ends& both = pairs[sends ? std::pair(rank, r.root) : std::pair(r.root, rank)];
      (sends ? both.sends : both.receives).push_back(&r);
    }
  }
  is_complete = true;
  for (const auto& [pair, both] : pairs) is_complete = is_complete && both.sends.size() == both.receives.size();
  if (!is_complete) return {};
  for (const auto& [pair, both] : pairs)
    for (std::size_t i = 0; i < both.sends.size(); ++i) {
      const request &s = *both.sends[i], &r = *both.receives[i];
      if (s.count != r.count || s.type != r.type)
        return error(xylInvalidUsage,
                     "the %s of rank %d meets the %s of rank %d: both must be of as many elements of one type",
                     describe_call(as_record(s)).c_str(), pair.first, describe_call(as_record(r)).c_str(),
                     pair.second);
      if (s.send == r.recv) continue;
      joint_piece one;
      one.from[0] = static_cast<const std::byte*>(s.send);
      one.to[0] = static_cast<std::byte*>(r.recv);
      one.bytes = s.count * facts_of(s.type)->bytes;
      out.push_back(one);
    }
  return {};
}

}  // namespace xyl
