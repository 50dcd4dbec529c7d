// SPDX-License-Identifier: BSD-3-Clause
//
// The probe through the ABI, with helpers that measure host memory: real processes, real steps, planted faults. A
// probe that goes wrong in any way costs measurements and never the communicator.
#include <dirent.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "abi/ranks.hpp"

namespace xyl::test {
namespace {

using nlohmann::json;

json described(xylComm_t comm) {
  std::size_t length = 0;
  EXPECT_EQ(xylCommDescribe(comm, nullptr, &length), xylSuccess);
  std::string text(length, 'x');
  EXPECT_EQ(xylCommDescribe(comm, text.data(), &length), xylSuccess);
  return json::parse(text.c_str(), nullptr, false);
}

// Built beside the tests, which run at the top of the build.
std::string program(const char* name) { return std::filesystem::current_path().string() + "/" + name; }

void expect_sum(xylComm_t comm, int ranks, int rank) {
  std::vector<float> in(1000, static_cast<float>(rank + 1)), out(1000);
  ASSERT_EQ(xylAllReduce(in.data(), out.data(), in.size(), xylFloat32, xylSum, comm, nullptr), xylSuccess);
  for (float x : out) ASSERT_EQ(x, static_cast<float>(ranks * (ranks + 1) / 2));
}

int children_of(pid_t process) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    if (std::FILE* const file = std::fopen((entry.path() / "stat").c_str(), "r")) {
      int parent = 0;
      if (std::fscanf(file, "%*d (%*[^)]) %*c %d", &parent) == 1 && parent == process) ++count;
      std::fclose(file);
    }
  }
  return count;
}

class probe : public testing::Test {
 protected:
  probe() {
    ::setenv("XYLEM_PROBE", "always", 1);
    ::setenv("XYLEM_GPU", "never", 1);
    use("xylem-probe");
  }
  ~probe() override {
    for (const char* name : {"XYLEM_PROBE", "XYLEM_GPU", "XYLEM_PROBE_HELPER", "FAULTY_PROBE"}) ::unsetenv(name);
  }
  static void use(const char* helper) { ::setenv("XYLEM_PROBE_HELPER", program(helper).c_str(), 1); }
  // What rank 0 tells of a probe with this fault, after the communicator has proven to work.
  static void with_fault(const char* fault, const std::function<void(const json&)>& look) {
    use("tests/faulty_probe");
    ::setenv("FAULTY_PROBE", fault, 1);
    with_ranks(3, [&](int rank, test_communicator& comm) {
      expect_sum(comm, 3, rank);
      const json d = described(comm);
      ASSERT_TRUE(d["probe"].is_object());
      look(d["probe"]);
    });
  }
  static json pair(const json& probe, int from, int to) {
    for (const json& p : probe["pairs"])
      if (p["from"] == from && p["to"] == to) return p;
    return nullptr;
  }
};

TEST_F(probe, proves_and_measures_every_pair_of_ranks_and_leaves_nothing_behind) {
  with_ranks(3, [](int rank, test_communicator& comm) {
    const json d = described(comm);
    const json& p = d["probe"];
    ASSERT_TRUE(p.is_object()) << d.dump();
    EXPECT_EQ(p["gpus"], json({"rank 0", "rank 1", "rank 2"}));
    ASSERT_EQ(p["pairs"].size(), 6u);
    for (const json& one : p["pairs"]) {
      EXPECT_EQ(one["writes"], "good");
      EXPECT_EQ(one["reads"], "good");
      for (const char* number : {"push", "pull", "flag_us"}) EXPECT_GT(one.value(number, 0.0), 0.0) << one.dump();
    }
    EXPECT_TRUE(p["problems"].empty()) << p["problems"].dump();
    EXPECT_TRUE(p["findings"].empty()) << p["findings"].dump();
    EXPECT_FALSE(p["kept_from_earlier"]);
    EXPECT_GT(p["seconds"], 0.0);
    EXPECT_LT(p["seconds"], 30.0);
    expect_sum(comm, 3, rank);
    EXPECT_EQ(children_of(getpid()), 0) << "a helper was left";
  });
}

TEST_F(probe, is_not_done_where_nobody_asks_for_it) {
  ::unsetenv("XYLEM_PROBE");
  with_ranks(2, [](int, test_communicator& comm) { EXPECT_TRUE(described(comm)["probe"].is_null()); });
  ::setenv("XYLEM_PROBE", "never", 1);
  with_ranks(2, [](int, test_communicator& comm) { EXPECT_TRUE(described(comm)["probe"].is_null()); });
}

TEST_F(probe, rank_0_decides) {
  const auto ends = forked_ranks(3, [](int rank, meeting& m) {
    ::setenv("XYLEM_PROBE", rank == 0 ? "always" : "never", 1);
    test_communicator comm(3, rank, m);
    ASSERT_EQ(comm.code(), xylSuccess) << comm.text();
    EXPECT_TRUE(described(comm)["probe"].is_object());
  });
  for (const process_end& e : ends) EXPECT_TRUE(e.good()) << e.text();
}

TEST_F(probe, finds_its_helper_in_a_tree_that_is_not_installed) {
  ::unsetenv("XYLEM_PROBE_HELPER");
  with_ranks(2, [](int, test_communicator& comm) {
    const json d = described(comm);
    EXPECT_TRUE(d["probe"]["problems"].empty()) << d["probe"]["problems"].dump();
    EXPECT_EQ(pair(d["probe"], 1, 0)["writes"], "good");
  });
}

TEST_F(probe, a_missing_helper_is_said) {
  use("no-such-program");
  with_ranks(2, [](int rank, test_communicator& comm) {
    expect_sum(comm, 2, rank);
    const json d = described(comm);
    const std::string problems = d["probe"]["problems"].dump();
    EXPECT_TRUE(says(problems.c_str(), "no-such-program")) << problems;
    EXPECT_TRUE(says(d["probe"]["findings"].dump().c_str(), "could not be probed"));
  });
}

TEST_F(probe, a_program_that_is_something_else_is_said) {
  ::setenv("XYLEM_PROBE_HELPER", "/bin/true", 1);
  with_ranks(2, [](int rank, test_communicator& comm) {
    expect_sum(comm, 2, rank);
    EXPECT_EQ(described(comm)["probe"]["problems"].size(), 2u);
    EXPECT_EQ(children_of(getpid()), 0);
  });
}

TEST_F(probe, writes_that_do_not_arrive_are_found) {
  with_fault("dropped:0:2", [](const json& p) {
    EXPECT_EQ(pair(p, 0, 2)["writes"], "dropped");
    EXPECT_EQ(pair(p, 0, 1)["writes"], "good");
    EXPECT_EQ(pair(p, 2, 0)["writes"], "good");
    EXPECT_TRUE(says(p["findings"].dump().c_str(), "does not arrive")) << p["findings"].dump();
  });
}

TEST_F(probe, wrong_data_is_found) {
  with_fault("wrong:1", [](const json& p) {
    EXPECT_EQ(pair(p, 1, 0)["writes"], "wrong");
    EXPECT_EQ(pair(p, 1, 2)["reads"], "wrong");
    EXPECT_EQ(pair(p, 0, 2)["writes"], "good");
  });
}

TEST_F(probe, an_access_that_never_ends_is_found) {
  with_fault("silent:2:0", [](const json& p) {
    EXPECT_EQ(pair(p, 2, 0)["writes"], "silent");
    EXPECT_EQ(pair(p, 0, 1)["writes"], "good");
    EXPECT_TRUE(says(p["findings"].dump().c_str(), "never end")) << p["findings"].dump();
  });
}

TEST_F(probe, a_helper_that_hangs_is_ended) {
  with_fault("stuck:1", [](const json& p) {
    EXPECT_EQ(pair(p, 1, 0)["writes"], "untested");
    EXPECT_EQ(pair(p, 0, 2)["writes"], "good");
    EXPECT_GT(pair(p, 0, 2).value("push", 0.0), 0.0);
    EXPECT_TRUE(says(p["problems"].dump().c_str(), "rank 1")) << p["problems"].dump();
  });
}

TEST_F(probe, a_helper_that_dies_is_said) {
  with_fault("dies:0", [](const json& p) {
    EXPECT_EQ(pair(p, 0, 1)["writes"], "untested");
    EXPECT_TRUE(says(p["problems"].dump().c_str(), "has ended")) << p["problems"].dump();
  });
}

TEST_F(probe, a_device_that_is_taken_is_said) {
  with_fault("refused:1", [](const json& p) {
    EXPECT_TRUE(says(p["problems"].dump().c_str(), "exclusive compute mode")) << p["problems"].dump();
    EXPECT_TRUE(says(p["findings"].dump().c_str(), "nvidia-smi -c DEFAULT"));
    EXPECT_EQ(pair(p, 0, 2)["writes"], "good");
  });
}

TEST_F(probe, a_slow_rank_is_found) {
  with_fault("slow:0:1", [](const json& p) {
    EXPECT_LT(pair(p, 0, 1)["push"].get<double>(), 0.2 * pair(p, 1, 0)["push"].get<double>());
  });
}

// Thresholds measured at the start: in use, shown beside the sizes, and the same on all ranks.
TEST(tune, measured_thresholds_are_used_kept_and_shown) {
  const std::string folder = testing::TempDir() + "tune_test." + std::to_string(getpid());
  ::setenv("XDG_CACHE_HOME", folder.c_str(), 1);
  const auto hash_of = [](const json& d) { return std::hash<std::string>()(d["host_memory"].dump()); };
  for (const char* use : {"missing", "cached", "never", "always"}) {
    ::setenv("XYLEM_TUNE", use, 1);
    with_ranks(2, [&](int rank, test_communicator& comm) {
      expect_sum(comm, 2, rank);
      const json d = described(comm);
      const bool is_used = std::string(use) != "never";
      EXPECT_EQ(d["host_memory"]["from"] == "measured on this machine", is_used) << use;
      const json& times = d["measured_times"]["allreduce"];
      ASSERT_EQ(times.is_array(), is_used) << use;
      if (is_used) {
        EXPECT_GE(times.size(), 5u);
        for (const json& t : times) EXPECT_GT(t["measured_us"], 0.0);
      }
      std::uint64_t all[2] = {}, mine = hash_of(d);
      ASSERT_EQ(xylAllGather(&mine, all, 1, xylUint64, comm, nullptr), xylSuccess);
      EXPECT_EQ(all[0], all[1]);
    });
    EXPECT_FALSE(std::filesystem::is_empty(folder + "/xylem")) << use;
  }
  ::unsetenv("XYLEM_TUNE");
  ::unsetenv("XDG_CACHE_HOME");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace xyl::test
