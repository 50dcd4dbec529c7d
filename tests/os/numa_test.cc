// SPDX-License-Identifier: BSD-3-Clause
#include "os/numa.hpp"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace xyl {
namespace {

cpu_set_t set_of(const char* list) {
  cpu_set_t set{};
  EXPECT_TRUE(parse_processors(list, set)) << list;
  return set;
}

TEST(numa, lists_of_the_kernel_are_read) {
  const cpu_set_t set = set_of("0-2,5,7-8\n");
  EXPECT_EQ(CPU_COUNT(&set), 6);
  for (int p : {0, 1, 2, 5, 7, 8}) EXPECT_TRUE(CPU_ISSET(p, &set)) << p;
  const cpu_set_t none = set_of("\n");
  EXPECT_EQ(CPU_COUNT(&none), 0);
}

TEST(numa, anything_else_is_refused_and_leaves_the_set_alone) {
  for (const char* list : {"a", "3-1", "1,", ",1", "1-", "-1", "0-100000", "4294967296", "1;2"}) {
    cpu_set_t set = set_of("3");
    EXPECT_FALSE(parse_processors(list, set)) << list;
    EXPECT_TRUE(CPU_ISSET(3, &set)) << list;
  }
}

TEST(numa, a_process_is_placed_only_if_all_its_processors_are_of_one_node) {
  const std::string root = testing::TempDir() + "numa_test." + std::to_string(getpid());
  const std::string nodes = root + "/sys/devices/system/node/";
  for (const auto& [name, list] : {std::pair{"node1", "4-7"}, {"node0", "0-3"}, {"node2", ""}, {"nodes", "0-7"}}) {
    std::filesystem::create_directories(nodes + name);
    std::ofstream(nodes + name + "/cpulist") << list << "\n";
  }
  const std::vector<numa_node> found = list_numa_nodes(root);
  std::filesystem::remove_all(root);
  ASSERT_EQ(found.size(), 2u) << "a node without processors is memory alone";
  EXPECT_EQ(found[0].number, 0);
  EXPECT_EQ(numa_node_of(set_of("1-2"), found), 0);
  EXPECT_EQ(numa_node_of(set_of("4-7"), found), 1);
  EXPECT_EQ(numa_node_of(set_of("3-4"), found), -1);
  EXPECT_EQ(numa_node_of(set_of("9"), found), -1);
  EXPECT_EQ(numa_node_of(set_of(""), found), -1);
  EXPECT_TRUE(list_numa_nodes(root).empty());
}

TEST(numa, a_device_is_at_the_node_that_the_kernel_names) {
  const std::string root = testing::TempDir() + "numa_pci_test." + std::to_string(getpid());
  const std::string devices = root + "/sys/bus/pci/devices/";
  for (const auto& [name, node] :
       {std::pair{"0000:3b:00.0", "1\n"}, {"0000:3c:00.0", "-1\n"}, {"0000:3d:00.0", "x"}}) {
    std::filesystem::create_directories(devices + name);
    std::ofstream(devices + name + "/numa_node") << node;
  }
  EXPECT_EQ(numa_node_of_pci(root, "0000:3b:00.0"), 1);
  EXPECT_EQ(numa_node_of_pci(root, "0000:3c:00.0"), -1);
  EXPECT_EQ(numa_node_of_pci(root, "0000:3d:00.0"), -1);
  EXPECT_EQ(numa_node_of_pci(root, "0000:3e:00.0"), -1);
  std::filesystem::remove_all(root);
}

TEST(numa, the_policy_of_before_comes_back) {
  const auto policy = [] {
    int mode = -1;
    EXPECT_EQ(::syscall(SYS_get_mempolicy, &mode, nullptr, 0, nullptr, 0), 0);
    return mode;
  };
  { EXPECT_FALSE(preferred_numa_node(-1).is_set()); }
  int mode = 0;
  if (::syscall(SYS_get_mempolicy, &mode, nullptr, 0, nullptr, 0) != 0) GTEST_SKIP() << "no policies here";
  const int before = policy();
  {
    const preferred_numa_node node(0);
    if (!node.is_set()) GTEST_SKIP() << "policies cannot be set here";
    EXPECT_EQ(policy(), MPOL_PREFERRED);
  }
  EXPECT_EQ(policy(), before);
}

}  // namespace
}  // namespace xyl
