// SPDX-License-Identifier: BSD-3-Clause
//
// xylCommDescribe, and what it promises of the plan that all ranks follow, with ranks as processes on host memory.
#include <nlohmann/json.hpp>
#include <vector>

#include "abi/ranks.hpp"
#include "comm/planning.hpp"

namespace xyl::test {
namespace {

using nlohmann::json;

std::string description(xylComm_t comm) {
  std::size_t length = 0;
  EXPECT_EQ(xylCommDescribe(comm, nullptr, &length), xylSuccess);
  std::string text(length, 'x');
  EXPECT_EQ(xylCommDescribe(comm, text.data(), &length), xylSuccess);
  EXPECT_EQ(length, text.size());
  EXPECT_EQ(text.back(), '\0');
  text.pop_back();
  EXPECT_EQ(text.find('\0'), std::string::npos);
  return text;
}

json parsed(xylComm_t comm) { return json::parse(description(comm), nullptr, false); }

// Everything but what is a rank's own.
std::uint64_t hash_of_common(json d) {
  d.erase("this_rank");
  d.erase("notes");
  return std::hash<std::string>()(d.dump());
}

TEST(describe, is_json_and_the_same_on_all_ranks) {
  with_ranks(3, [](int rank, test_communicator& comm) {
    const json d = parsed(comm);
    ASSERT_TRUE(d.is_object());
    EXPECT_EQ(d["this_rank"]["rank"], rank);
    ASSERT_EQ(d["ranks"].size(), 3u);
    EXPECT_EQ(d["ranks"][static_cast<std::size_t>(rank)]["process"], getpid());
    std::vector<int> ring = d["plan"]["rings"][0];
    std::sort(ring.begin(), ring.end());
    EXPECT_EQ(ring, (std::vector<int>{0, 1, 2}));
    EXPECT_FALSE(d["host_memory"]["allreduce"].empty());
    EXPECT_TRUE(d["machine"].is_object());
    std::uint64_t all[3] = {}, mine = hash_of_common(d);
    ASSERT_EQ(xylAllGather(&mine, all, 1, xylUint64, comm, nullptr), xylSuccess);
    for (std::uint64_t other : all) EXPECT_EQ(other, mine);
  });
}

TEST(describe, host_memory_has_links_and_predicted_times_as_devices_have) {
  ::setenv("XYLEM_GPU", "never", 1);
  for (const bool probed : {false, true}) {
    ::setenv("XYLEM_PROBE", probed ? "always" : "never", 1);
    with_ranks(2, [&](int, test_communicator& comm) {
      const json d = parsed(comm);
      ASSERT_EQ(d["links"].size(), 2u);
      for (const json& link : d["links"])
        for (const char* what : {"write_gigabytes_per_second", "read_gigabytes_per_second", "flag_us"}) {
          EXPECT_GT(link[what]["value"].get<double>(), 0);
          EXPECT_EQ(link[what]["source"], probed ? "measured" : "nominal");
          EXPECT_EQ(link[what]["confidence"], probed ? "high" : "low");
        }
      const json& considered = d["plan"]["considered"]["allreduce"];
      EXPECT_EQ(considered.size(), 7u);
      for (const json& c : considered) EXPECT_GT(c["predicted_us"]["1M"].get<double>(), 0) << c["name"];
      EXPECT_FALSE(d["planned_if_every_algorithm_ran"].empty());
      // What was measured where the library is made is not overruled.
      EXPECT_EQ(d["host_memory"]["from"], "measured defaults of the library");
    });
  }
  ::unsetenv("XYLEM_PROBE");
  ::unsetenv("XYLEM_GPU");
}

TEST(describe, without_devices_it_says_why) {
  ::setenv("XYLEM_GPU", "never", 1);
  with_ranks(2, [](int, test_communicator& comm) {
    const json d = parsed(comm);
    EXPECT_TRUE(d["device_memory"].is_null());
    EXPECT_TRUE(says(d["notes"].dump().c_str(), "XYLEM_GPU=never")) << d["notes"].dump();
  });
  ::unsetenv("XYLEM_GPU");
}

TEST(describe, a_short_buffer_is_refused_and_the_length_told) {
  with_ranks(1, [](int, test_communicator& comm) {
    std::size_t whole = 12345;
    ASSERT_EQ(xylCommDescribe(comm, nullptr, &whole), xylSuccess);
    std::vector<char> buffer(whole, 'x');
    std::size_t length = whole - 1;
    EXPECT_EQ(xylCommDescribe(comm, buffer.data(), &length), xylInvalidArgument);
    EXPECT_TRUE(says(xylGetLastError(comm), "xylCommDescribe"));
    EXPECT_EQ(length, whole);
    EXPECT_EQ(buffer[0], '\0');
    buffer[0] = 'x';
    length = 0;
    EXPECT_EQ(xylCommDescribe(comm, buffer.data(), &length), xylInvalidArgument);
    EXPECT_EQ(buffer[0], 'x');
    EXPECT_EQ(xylCommDescribe(comm, buffer.data(), nullptr), xylInvalidArgument);
    EXPECT_EQ(xylCommDescribe(nullptr, buffer.data(), &length), xylInvalidArgument);
  });
}

TEST(describe, a_prescribed_ring_is_followed_with_equal_results_on_all_ranks) {
  const std::string path = testing::TempDir() + "describe_test_plan." + std::to_string(getpid());
  FILE* const file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fputs(R"({"rings": [[2, 0, 3, 1]], "thresholds": {"allreduce": [{"algorithm": "ring"}]}})", file);
  std::fclose(file);
  ::setenv("XYLEM_PLAN", path.c_str(), 1);
  with_ranks(4, [](int rank, test_communicator& comm) {
    const json d = parsed(comm);
    EXPECT_EQ(d["plan"]["rings"][0], json({2, 0, 3, 1}));
    EXPECT_EQ(d["host_memory"]["allreduce"], json::parse(R"([{"algorithm": "ring"}])"));
    EXPECT_EQ(d["host_memory"]["from"], "XYLEM_PLAN");
    constexpr std::size_t count = 100'003;
    std::vector<float> in(count), out(count);
    const auto value = [](int r, std::size_t i) { return 0.1f * static_cast<float>((i * 7 + 13u * r) % 1009); };
    for (std::size_t i = 0; i < count; ++i) in[i] = value(rank, i);
    ASSERT_EQ(xylAllReduce(in.data(), out.data(), count, xylFloat32, xylSum, comm, nullptr), xylSuccess);
    std::size_t near = 0;
    for (std::size_t i = 0; i < count; ++i)
      near += std::abs(out[i] - (value(0, i) + value(1, i) + value(2, i) + value(3, i))) < 1e-3f;
    EXPECT_EQ(near, count);
    std::vector<float> all(4 * count);
    ASSERT_EQ(xylAllGather(out.data(), all.data(), count, xylFloat32, comm, nullptr), xylSuccess);
    for (std::size_t r = 0; r < 4; ++r)
      EXPECT_EQ(std::memcmp(&all[r * count], out.data(), count * sizeof(float)), 0) << r;
  });
  ::unsetenv("XYLEM_PLAN");
  std::remove(path.c_str());
}

// The same bytes for everybody, but not what rank 0 sent.
TEST(describe, a_garbled_plan_is_refused_by_all) {
  const auto ends = forked_ranks(3, [&](int rank, meeting& m) {
    auto honest = m.allgather(rank);
    struct garbling {
      decltype(honest)& gather;
      int times = 0;
    } g{honest};
    xylComm_t comm = nullptr;
    const xylResult_t code = xylCommInitOob(
        &comm, 3, rank,
        [](void* context, const void* send, void* recv, std::size_t bytes) {
          auto& g = *static_cast<garbling*>(context);
          const int status = g.gather(send, recv, bytes);
          if (bytes != sizeof(agreed_choice)) return status;
          ++g.times;
          auto* const choice = static_cast<agreed_choice*>(recv);
          std::swap(choice->table.ring[0][0], choice->table.ring[0][1]);
          return status;
        },
        &g);
    EXPECT_EQ(g.times, 1);
    EXPECT_EQ(code, xylInvalidUsage);
    EXPECT_TRUE(says(xylGetLastError(nullptr), "rank 0's choice")) << xylGetLastError(nullptr);
    EXPECT_EQ(comm, nullptr);
  });
  for (const process_end& end : ends) EXPECT_TRUE(end.good()) << end.text();
}

TEST(describe, a_plan_file_that_does_not_fit_fails_all_ranks_with_the_reason) {
  ::setenv("XYLEM_PLAN", "/nonexistent/plan.json", 1);
  const auto ends = forked_ranks(2, [&](int rank, meeting& m) {
    test_communicator comm(2, rank, m);
    EXPECT_EQ(comm.code(), rank == 0 ? xylInvalidUsage : xylRemoteError);
    EXPECT_TRUE(says(comm.text().c_str(), "XYLEM_PLAN")) << comm.text();
  });
  ::unsetenv("XYLEM_PLAN");
  for (const process_end& end : ends) EXPECT_TRUE(end.good()) << end.text();
}

}  // namespace
}  // namespace xyl::test
