// SPDX-License-Identifier: BSD-3-Clause
//
// Every collective (but those of one_way.hpp) begins by putting its fingerprint into every peer's header line,
// whatever the algorithm, the grid or the count, and no block touches an output before it has seen the headers of
// all. Two things follow: calls that do not fit together are found before they do damage; and a rank in call e+2
// knows that every peer has finished call e (a rank puts its header of e+1 after all its blocks left e), so two
// slots are enough.
#pragma once

#include "proto/call.hpp"
#include "proto/space.hpp"

namespace xyl {

template <class T, class Call>
XYL_FN T* at(const Call& c, int rank, std::uint64_t offset) {
  return reinterpret_cast<T*>(c.workspace[rank] + offset);
}

// The same for what this rank alone uses.
template <class T, class Call>
XYL_FN T* at_own(const Call& c, std::uint64_t offset) {
  return reinterpret_cast<T*>((c.own != nullptr ? c.own : c.workspace[c.rank]) + offset);
}

// A space may split begin() in three: begin_early() waits for earlier launches, read_turn() knows the epoch, join()
// has the verdict. What a lane sends first it loads between the first two, so that there is one trip to memory and
// not two. What is put between the last two is harmless where the verdict is no: packets of a call that has failed,
// or of an epoch that was told from a word in disorder.
template <class S>
XYL_FN bool begin_early(S& s) {
  if constexpr (requires { s.begin_early(); }) {
    s.begin_early();
    return true;
  } else {
    return s.begin();
  }
}
template <class S>
XYL_FN void read_turn(S& s) {
  if constexpr (requires { s.read_turn(); }) s.read_turn();
}
template <class S>
XYL_FN bool join(S& s) {
  if constexpr (requires { s.join(); })
    return s.join();
  else
    return true;
}

// Block 0 speaks for the rank (or each block to those of its own number: then a peer with a smaller grid is refused
// by the first blocks, and the others end by their poison), by its last lanes: the first ones have data to see to.
// Ordered: whoever checks with order may also read what this rank wrote in earlier launches.
// The first in a call that asks for the epoch, which is known from here on.
template <bool Ordered = false, class S, class Call>
XYL_FN void put_headers(S& s, const Call& c) {
  read_turn(s);
  if (s.block() != 0 && !c.map.headers_by_block) return;
  const epoch_t e = s.epoch();
  const std::uint64_t mine = c.map.header_line(c.map.slot(e), static_cast<unsigned>(c.rank), s.block());
  for (int p = static_cast<int>(s.lanes() - 1 - s.lane()); p < c.ranks; p += static_cast<int>(s.lanes()))
    if (p == c.rank)
      continue;
    else if constexpr (Ordered)
      announce(s, at<line>(c, p, mine), c.fingerprint, packet_epoch(e));
    else {
      s.put(at<line>(c, p, mine), c.fingerprint, packet_epoch(e));
      has_written(s, at<line>(c, p, mine));
    }
}

// Most ranks whose lines a rank takes hold of ahead.
inline constexpr int most_hinted_ranks = 8;

// Hints of a rank that has written `bytes` to workspace offset `to` of every peer, or soon will.
template <class S, class Call>
XYL_FN void has_written_to_all(S& s, const Call& c, std::uint64_t to, std::uint64_t bytes) {
  if (c.ranks > most_hinted_ranks) return;
  for (int p = 0; p < c.ranks; ++p)
    if (p != c.rank) has_written_lines(s, at<std::byte>(c, p, to), bytes);
}
template <class S, class Call>
XYL_FN void will_write_to_all(S& s, const Call& c, std::uint64_t to, std::uint64_t bytes) {
  if (c.ranks > most_hinted_ranks) return;
  for (int p = 0; p < c.ranks; ++p)
    if (p != c.rank) will_write_lines(s, at<std::byte>(c, p, to), bytes);
}
// Hints that what every peer has written to workspace offset `from(p)` of this rank will be read.
template <class S, class Call, class From>
XYL_FN void will_read_from_all(S& s, const Call& c, From from, std::uint64_t bytes) {
  if (c.ranks > most_hinted_ranks) return;
  for (int p = 0; p < c.ranks; ++p)
    if (p != c.rank) will_read_lines(s, at<std::byte>(c, c.rank, from(p)), bytes);
}

// This lane's part of the check; the caller joins the lanes' verdicts with all(). The last lanes look first:
// launches leave them without data where they can, so that a header and a packet are waited for at the same time.
template <bool Ordered = false, class S, class Call>
XYL_FN bool check_headers(S& s, const Call& c) {
  const epoch_t e = s.epoch();
  for (int p = static_cast<int>(s.lanes() - 1 - s.lane()); p < c.ranks; p += static_cast<int>(s.lanes())) {
    if (p == c.rank) continue;
    const line* const theirs[1] = {
        at<const line>(c, c.rank, c.map.header_line(c.map.slot(e), static_cast<unsigned>(p), s.block()))};
    std::uint64_t seen[1] = {};
    const waiting w{p, phase::header};
    const auto here = [&] {
      if constexpr (Ordered)
        return hear<1>(s, theirs, packet_epoch(e), seen, w);
      else
        return s.template get_all<1>(theirs, packet_epoch(e), seen, w);
    };
    if (!here()) return false;
    if (seen[0] != c.fingerprint) {
      s.refuse(w, c.fingerprint, seen[0]);
      return false;
    }
  }
  return true;
}

// Headers can also be awaited beside the first packets of a call, where every lane looks at one: then no lane has
// a round of its own before, which all others of the block would wait for. Only where there are lanes enough; their
// verdicts make the block's.
template <class S, class Call>
XYL_FN bool can_share_headers(const S& s, const Call& c) {
  return s.lanes() >= static_cast<unsigned>(c.ranks) && c.ranks <= 32;
}

// Lines of packets (null: none), and the header of rank `source`, if that is a peer. The packets are the first
// N - 1; the last of both arrays is room for the header. Refuses a call that does not fit to this one.
template <int N, class S, class Call>
XYL_FN bool get_all_and_header(S& s, const Call& c, int source, const line* (&lines)[N], std::uint64_t (&data)[N],
                               waiting w) {
  const epoch_t e = s.epoch();
  lines[N - 1] =
      source < c.ranks && source != c.rank
          ? at<const line>(c, c.rank, c.map.header_line(c.map.slot(e), static_cast<unsigned>(source), s.block()))
          : nullptr;
  data[N - 1] = c.fingerprint;
  if constexpr (requires { s.template get_all_and_header<N>(lines, 0u, data, w, source, c.fingerprint); }) {
    return s.template get_all_and_header<N>(lines, packet_epoch(e), data, w, source, c.fingerprint);
  } else {
    const waiting for_header{source, phase::header};
    if (lines[N - 1] != nullptr) {
      const line* const header[1] = {lines[N - 1]};
      std::uint64_t seen[1] = {};
      if (!s.template get_all<1>(header, packet_epoch(e), seen, for_header)) return false;
      if (seen[0] != c.fingerprint) {
        s.refuse(for_header, c.fingerprint, seen[0]);
        return false;
      }
    }
    const line* packets[N - 1];
    std::uint64_t words[N - 1];
    for (int i = 0; i < N - 1; ++i) {
      packets[i] = lines[i];
      words[i] = data[i];
    }
    if (!s.template get_all<N - 1>(packets, packet_epoch(e), words, w)) return false;
    for (int i = 0; i < N - 1; ++i) data[i] = words[i];
    return true;
  }
}

// The headers of a call of a single lane, in which the ranks meet: `bytes` of data were written to offset
// data(epoch) of the peers, which may be beside the header. The next call is expected to be like this one.
template <class S, class Call, class Data>
XYL_FN bool meet(S& s, const Call& c, std::uint64_t bytes, Data data) {
  const epoch_t e = s.epoch(), next = next_epoch(e);
  const auto header = [&](epoch_t of, int p) {
    return c.map.header_offset(c.map.slot(of), static_cast<unsigned>(p));
  };
  // Data that lies in no line of the header's.
  const auto behind = [&](epoch_t of, std::uint64_t& left) {
    const std::uint64_t own_line = header(of, c.rank) + hinted_line, to = data(of);
    if (left > hinted_bytes) left = 0;  // a stream, of which processors take care themselves
    if (to >= own_line || to < header(of, c.rank)) return to;
    left = to + left > own_line ? to + left - own_line : 0;
    return own_line;
  };
  put_headers(s, c);
  std::uint64_t left = bytes;
  const std::uint64_t written = behind(e, left);
  has_written_to_all(s, c, written, left);
  let_go(s);
  const bool good = check_headers(s, c);
  // The lines behind the header's, if they are few. (An allreduce of 64 bytes between 2 ranks took 0.16 us with
  // this, 0.18 without; of 2 KB 0.62 and 0.44.)
  if (constexpr std::uint64_t with_header = hinted_line - sizeof(line);
      bytes > with_header && bytes <= c.map.inline_bytes())
    will_read_from_all(
        s, c, [&](int p) { return header(e, p) + hinted_line; }, bytes - with_header);
  left = bytes;
  const std::uint64_t soon = behind(next, left);
  will_write_to_all(s, c, header(next, c.rank), sizeof(line));
  will_write_to_all(s, c, soon, left);
  return good;
}

// Headers alone: returns when every rank has come.
template <class S, class Call>
XYL_FN bool barrier(S& s, const Call& c) {
  if (!s.begin()) {
    s.leave();
    return false;
  }
  bool good;
  if constexpr (is_single_lane<S>) {
    good = meet(s, c, 0, [](epoch_t) { return 0; });
  } else {
    put_headers(s, c);
    good = s.all(check_headers(s, c));
  }
  s.leave();
  return good;
}

}  // namespace xyl
