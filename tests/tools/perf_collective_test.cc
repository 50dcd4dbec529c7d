// SPDX-License-Identifier: BSD-3-Clause
//
// The table of collectives: sizes and bus factors as nccl-tests defines them, where buffers lie in place, and what
// recv must hold, against the definitions written out as loops.
#include "tools/perf_collective.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "tools/perf_mpi.hpp"

namespace xyl {
namespace {

const perf_collective& named(const std::string& name) {
  for (const perf_collective& c : perf_collectives())
    if (name == c.name) return c;
  ADD_FAILURE() << "no " << name;
  return perf_collectives().front();
}

TEST(perf_collective, names_are_all_there_once) {
  std::vector<std::string> names;
  for (const perf_collective& c : perf_collectives()) names.push_back(c.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"allgather", "allreduce", "alltoall", "barrier", "broadcast", "gather",
                                             "reduce", "reducescatter", "scatter", "sendrecv"}));
}

TEST(perf_collective, bus_factors) {
  for (int n : {1, 2, 3, 8}) {
    EXPECT_DOUBLE_EQ(named("allreduce").bus_factor(n), 2.0 * (n - 1) / n);
    for (const char* name : {"reducescatter", "allgather", "alltoall", "gather", "scatter"})
      EXPECT_DOUBLE_EQ(named(name).bus_factor(n), double(n - 1) / n) << name;
    for (const char* name : {"reduce", "broadcast", "sendrecv"}) EXPECT_EQ(named(name).bus_factor(n), 1) << name;
  }
}

TEST(perf_collective, the_size_is_that_of_the_larger_buffer) {
  for (const char* name : {"allreduce", "reduce", "broadcast", "sendrecv"}) {
    EXPECT_EQ(count_for(named(name), 1200, 4, 3), 300u) << name;
    EXPECT_EQ(message_bytes(named(name), 300, 4, 3), 1200u) << name;
  }
  for (const char* name : {"reducescatter", "allgather", "alltoall", "gather", "scatter"}) {
    EXPECT_EQ(count_for(named(name), 1200, 4, 3), 100u) << name;
    EXPECT_EQ(message_bytes(named(name), 100, 4, 3), 1200u) << name;
    EXPECT_EQ(count_for(named(name), 1211, 4, 3), 100u) << name << " rounds down";
    EXPECT_EQ(count_for(named(name), 1, 4, 3), 1u) << name << " has one element at least";
  }
  EXPECT_EQ(count_for(named("barrier"), 1200, 4, 3), 0u);
  EXPECT_EQ(message_bytes(named("barrier"), 0, 4, 3), 0u);
}

struct memory {
  std::byte send[64];
  std::byte recv[64];
};

TEST(perf_collective, in_place_the_smaller_buffer_lies_within_the_larger_one) {
  memory m;
  for (const perf_collective& c : perf_collectives()) {
    collective_call call{nullptr, nullptr, 3, xylInt16, xylSum, 0, 2, 4, false};
    place_buffers(c, 2, m.send, m.recv, call);
    EXPECT_EQ(call.send, m.send) << c.name;
    EXPECT_EQ(call.recv, m.recv) << c.name;
    call.in_place = true;
    place_buffers(c, 2, m.send, m.recv, call);
    // Rank 2's share of three elements of two bytes begins at byte 12.
    const std::string name = c.name;
    EXPECT_EQ(call.send, m.recv + (name == "allgather" || name == "gather" ? 12 : 0)) << name;
    EXPECT_EQ(call.recv, m.recv + (name == "reducescatter" || name == "scatter" ? 12 : 0)) << name;
  }
}

// An element of the input of `rank`, and of the reduced input: numbers that tell where they come from.
int input(int rank, std::size_t at) { return 1000 * (rank + 1) + static_cast<int>(at); }
int reduced(std::size_t at) { return -1 - static_cast<int>(at); }
constexpr int unwritten = 0;

std::vector<int> expected(const perf_collective& c, const collective_call& call) {
  std::vector<int> out;
  for (const expected_part& part : c.expected(call))
    for (std::size_t i = 0; i < part.count; ++i)
      out.push_back(part.source == expected_part::unwritten ? unwritten
                    : part.source == expected_part::reduced ? reduced(part.offset + i)
                                                            : input(part.source, part.offset + i));
  return out;
}

// The definitions; `before` is what recv held.
using definition = int (*)(const collective_call& c, std::size_t i, int before);
const std::map<std::string, definition> definitions = {
    {"allreduce", [](const collective_call&, std::size_t i, int) { return reduced(i); }},
    {"reduce",
     [](const collective_call& c, std::size_t i, int before) { return c.rank == c.root ? reduced(i) : before; }},
    {"broadcast", [](const collective_call& c, std::size_t i, int) { return input(c.root, i); }},
    {"reducescatter",
     [](const collective_call& c, std::size_t i, int) { return reduced(std::size_t(c.rank) * c.count + i); }},
    {"allgather",
     [](const collective_call& c, std::size_t i, int) { return input(int(i / c.count), i % c.count); }},
    {"alltoall", [](const collective_call& c, std::size_t i,
                    int) { return input(int(i / c.count), std::size_t(c.rank) * c.count + i % c.count); }},
    {"gather", [](const collective_call& c, std::size_t i,
                  int before) { return c.rank == c.root ? input(int(i / c.count), i % c.count) : before; }},
    {"scatter",
     [](const collective_call& c, std::size_t i, int) { return input(c.root, std::size_t(c.rank) * c.count + i); }},
    {"sendrecv",
     [](const collective_call& c, std::size_t i, int) { return input((c.rank + c.ranks - 1) % c.ranks, i); }},
};

TEST(perf_collective, what_recv_must_hold) {
  for (const auto& [name, define] : definitions)
    for (int ranks : {1, 2, 3, 5})
      for (int rank = 0; rank < ranks; ++rank)
        for (int root = 0; root < ranks; ++root)
          for (bool in_place : {false, true}) {
            const perf_collective& c = named(name);
            const collective_call call{nullptr, nullptr, 3, xylInt32, xylSum, root, rank, ranks, in_place};
            // In place the own input is in recv, at its start or in this rank's place.
            const std::size_t begin = c.recv == extent::per_rank ? std::size_t(rank) * 3 : 0;
            std::vector<int> wanted;
            for (std::size_t i = 0; i < elements_of(c.recv, 3, ranks); ++i) {
              const bool is_own = in_place && i >= begin && i < begin + 3;
              wanted.push_back(define(call, i, is_own ? input(rank, i - begin) : unwritten));
            }
            EXPECT_EQ(expected(c, call), wanted) << name << ", rank " << rank << " of " << ranks << ", root "
                                                 << root << (in_place ? ", in place" : "");
          }
  EXPECT_EQ(definitions.size() + 1, perf_collectives().size()) << "all but the barrier";
}

TEST(perf_collective, what_mpi_can) {
  collective_call call{nullptr, nullptr, 10, xylBfloat16, xylSum, 0, 0, 2, false};
  EXPECT_FALSE(mpi_can(named("allreduce"), call)) << "no such number in MPI";
  EXPECT_TRUE(mpi_can(named("allgather"), call)) << "only moved";
  call.type = xylInt8;
  EXPECT_TRUE(mpi_can(named("reduce"), call));
  call.operation = xylAvg;
  EXPECT_FALSE(mpi_can(named("reduce"), call));
  call.operation = xylSum;
  call.count = std::size_t{1} << 31;
  EXPECT_FALSE(mpi_can(named("reduce"), call)) << "its counts are int";
  EXPECT_TRUE(mpi_can(named("allreduce"), call)) << "in pieces";
}

}  // namespace
}  // namespace xyl
