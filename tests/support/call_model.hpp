// SPDX-License-Identifier: BSD-3-Clause
//
// Random collective calls and what they must do, on plain bytes: every rank has an arena, a call reads and writes
// places in it, and the model does the same to the arenas of all ranks. Reductions are of integers, which are exact
// and wrap. What was done twice, not at all, too early or too late stays visible in all that follows.
#pragma once

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "proto/call.hpp"
#include "tests/support/combine.hpp"
#include "xylem/xylem.h"

namespace xyl::test {

// f(T{}) for the types of modelled reductions.
template <class F>
auto with_modelled_type(xylDataType_t type, F f) {
  switch (type) {
    case xylUint8:
      return f(std::uint8_t{});
    case xylInt16:
      return f(std::int16_t{});
    case xylInt64:
      return f(std::int64_t{});
    default:
      return f(std::int32_t{});
  }
}

// Equal on all ranks. What is a send goes around the ring: everyone sends to the rank `distance` further.
struct modelled_call {
  collective what = collective::all_reduce;
  int root = 0, distance = 1;
  xylDataType_t type = xylInt32;
  xylRedOp_t op = xylSum;
  std::size_t count = 0;  // of a piece
  std::size_t in = 0, out = 0;
  bool in_place = false;

  std::size_t piece() const {
    return count * with_modelled_type(type, [](auto t) { return sizeof t; });
  }
  bool has_root() const {
    return what == collective::reduce || what == collective::broadcast || what == collective::gather ||
           what == collective::scatter;
  }
  bool many_in() const {
    return what == collective::all_to_all || what == collective::scatter || what == collective::reduce_scatter;
  }
  bool many_out() const {
    return what == collective::all_to_all || what == collective::all_gather || what == collective::gather;
  }
  bool sends(int rank) const {
    return (what != collective::broadcast && what != collective::scatter) || rank == root;
  }
  bool receives(int rank) const {
    return (what != collective::reduce && what != collective::gather) || rank == root;
  }
  // Where in this rank's arena: as the collective defines "in place", where both buffers are used.
  std::size_t in_of(int rank) const {
    const bool is_inside = in_place && what != collective::send && receives(rank) && many_out() && !many_in();
    if (is_inside) return out + static_cast<unsigned>(rank) * piece();
    return in;
  }
  std::size_t out_of(int rank) const {
    if (!in_place || what == collective::send || !sends(rank)) return out;
    if (many_out() && !many_in()) return out;
    return in + (many_in() && !many_out() ? static_cast<unsigned>(rank) * piece() : 0);
  }
  std::string text() const {
    return "collective " + std::to_string(static_cast<int>(what)) + ", " + std::to_string(count) + " of type " +
           std::to_string(static_cast<int>(type)) + ", op " + std::to_string(static_cast<int>(op)) + ", root " +
           std::to_string(root) + (in_place ? ", in place" : "") + ", in " + std::to_string(in) + ", out " +
           std::to_string(out);
  }
};

class call_model {
 public:
  call_model(int ranks, std::size_t bytes, std::uint64_t seed) : arenas(static_cast<std::size_t>(ranks)) {
    for (std::size_t r = 0; r < arenas.size(); ++r) {
      arenas[r].resize(bytes);
      for (std::size_t i = 0; i < bytes; ++i)
        arenas[r][i] = static_cast<std::uint8_t>(mix64(mix64(seed * 257 + r + 1) + i));
    }
  }
  int ranks() const { return static_cast<int>(arenas.size()); }

  void run(const modelled_call& c) {
    const std::size_t piece = c.piece();
    // All inputs are read before anything is written.
    std::vector<std::vector<std::uint8_t>> inputs;
    for (int r = 0; r < ranks(); ++r) {
      const std::uint8_t* const from = arenas[static_cast<std::size_t>(r)].data() + c.in_of(r);
      const std::size_t bytes = c.sends(r) ? piece * (c.many_in() ? arenas.size() : 1) : 0;
      inputs.emplace_back(from, from + bytes);
    }
    const auto input = [&](int of, int to_whom) {
      return inputs[static_cast<std::size_t>(of)].data() +
             (c.many_in() ? static_cast<unsigned>(to_whom) * piece : 0);
    };
    for (int q = 0; q < ranks(); ++q) {
      if (!c.receives(q)) continue;
      std::uint8_t* const to = arenas[static_cast<std::size_t>(q)].data() + c.out_of(q);
      if (c.what == collective::all_reduce || c.what == collective::reduce || c.what == collective::reduce_scatter)
        with_modelled_type(c.type, [&](auto t) { reduce<decltype(t)>(c, to, [&](int p) { return input(p, q); }); });
      else if (c.what == collective::send)
        std::memcpy(to, input((q + ranks() - c.distance) % ranks(), q), piece);
      else
        for (int p = 0; p < ranks(); ++p)
          if (c.sends(p))
            std::memcpy(to + (c.many_out() ? static_cast<unsigned>(p) * piece : 0), input(p, q), piece);
    }
  }

  std::vector<std::vector<std::uint8_t>> arenas;  // by rank

 private:
  template <class T, class Input>
  void reduce(const modelled_call& c, std::uint8_t* to, Input input) const {
    for (std::size_t i = 0; i < c.count; ++i) {
      T all{};
      for (int p = 0; p < ranks(); ++p) {
        T one;
        std::memcpy(&one, input(p) + i * sizeof one, sizeof one);
        all = p == 0 ? one : combine(c.op, all, one);
      }
      std::memcpy(to + i * sizeof all, &all, sizeof all);
    }
  }
};

// A call that touches [begin, begin + bytes) of the arenas, of pieces up to most_bytes.
inline modelled_call random_call(std::mt19937_64& random, int ranks, std::size_t begin, std::size_t bytes,
                                 std::size_t most_bytes) {
  constexpr collective whats[] = {collective::all_reduce,     collective::reduce,     collective::broadcast,
                                  collective::reduce_scatter, collective::all_gather, collective::all_to_all,
                                  collective::gather,         collective::scatter,    collective::send,
                                  collective::all_reduce};
  constexpr xylDataType_t types[] = {xylUint8, xylInt16, xylInt32, xylInt64};
  constexpr xylRedOp_t ops[] = {xylSum, xylSum, xylProd, xylMax, xylMin, xylBitXor};
  const auto below = [&](std::uint64_t n) { return static_cast<std::size_t>(random() % n); };
  modelled_call c;
  c.what = whats[below(std::size(whats))];
  c.root = static_cast<int>(below(static_cast<unsigned>(ranks)));
  c.distance = ranks == 1 ? 0 : 1 + static_cast<int>(below(static_cast<unsigned>(ranks - 1)));
  c.type = types[below(std::size(types))];
  c.op = ops[below(std::size(ops))];
  c.in_place = below(2) == 0;
  const std::size_t element = with_modelled_type(c.type, [](auto t) { return sizeof t; });
  // Sizes of all magnitudes; both buffers hold a piece for every rank, with room for odd beginnings.
  const std::size_t room = (bytes / 2 - 64) / static_cast<unsigned>(ranks) / element;
  const std::size_t most = std::min(room, most_bytes / element);
  c.count = 1 + below(std::max<std::size_t>(1, most >> below(12)));
  c.in = begin + below(4) * element;
  c.out = begin + bytes / 2 + below(4) * element;
  return c;
}

// This rank's part of the call; sends and receives are a group.
inline xylResult_t issue(const modelled_call& c, void* arena, int rank, int ranks, xylComm_t comm,
                         xylStream_t stream) {
  const void* const in = c.sends(rank) ? static_cast<std::byte*>(arena) + c.in_of(rank) : nullptr;
  void* const out = c.receives(rank) ? static_cast<std::byte*>(arena) + c.out_of(rank) : nullptr;
  switch (c.what) {
    case collective::all_reduce:
      return xylAllReduce(in, out, c.count, c.type, c.op, comm, stream);
    case collective::reduce:
      return xylReduce(in, out, c.count, c.type, c.op, c.root, comm, stream);
    case collective::broadcast:
      return xylBroadcast(in, out, c.count, c.type, c.root, comm, stream);
    case collective::reduce_scatter:
      return xylReduceScatter(in, out, c.count, c.type, c.op, comm, stream);
    case collective::all_gather:
      return xylAllGather(in, out, c.count, c.type, comm, stream);
    case collective::all_to_all:
      return xylAlltoAll(in, out, c.count, c.type, comm, stream);
    case collective::gather:
      return xylGather(in, out, c.count, c.type, c.root, comm, stream);
    case collective::scatter:
      return xylScatter(in, out, c.count, c.type, c.root, comm, stream);
    default: {
      if (const xylResult_t code = xylGroupStart(); code != xylSuccess) return code;
      const xylResult_t sent = xylSend(in, c.count, c.type, (rank + c.distance) % ranks, comm, stream);
      const xylResult_t received = xylRecv(out, c.count, c.type, (rank + ranks - c.distance) % ranks, comm, stream);
      const xylResult_t ended = xylGroupEnd();
      return sent != xylSuccess ? sent : received != xylSuccess ? received : ended;
    }
  }
}

}  // namespace xyl::test
