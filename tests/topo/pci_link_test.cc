// SPDX-License-Identifier: BSD-3-Clause
#include "topo/pci_link.hpp"

#include <gtest/gtest.h>

namespace xyl::topo {
namespace {

TEST(pci_link, addresses) {
  EXPECT_EQ(parse_pci_address("0000:14:00.0"), (pci_address{0, 0x14, 0, 0}));
  EXPECT_EQ(parse_pci_address("14:1f.7"), (pci_address{0, 0x14, 0x1f, 7}));
  EXPECT_EQ(parse_pci_address("FFFFFFF:ff:1f.0"), (pci_address{0xfffffff, 0xff, 0x1f, 0}));
  EXPECT_EQ(parse_pci_address("00000001:0A:00.0"), (pci_address{1, 0x0a, 0, 0}));
  EXPECT_EQ(name_of(pci_address{0x10000, 2, 3, 4}), "10000:02:03.4");
  for (const char* bad :
       {"", ":", "::.", "0000:14:00", "0000:14:20.0", "0000:14:00.8", "0000:14:00.0 ", "0000:114:00.0", "g:14:00.0",
        "-1:14:00.0", "fffffff:ff:ff.0", "1:0000:14:00.0", "000000001:14:00.0"})
    EXPECT_FALSE(parse_pci_address(bad)) << bad;
}

TEST(pci_link, rates) {
  EXPECT_EQ(parse_transfer_rate("32.0 GT/s PCIe"), 32);
  EXPECT_EQ(parse_transfer_rate("16 GT/s"), 16);
  EXPECT_EQ(parse_transfer_rate("2.5"), 2.5);
  for (const char* bad : {"", "Unknown", "-1 GT/s", "0 GT/s", "nan", "inf", "1e9 GT/s", "16 MB/s"})
    EXPECT_FALSE(parse_transfer_rate(bad)) << bad;
}

// PCIe base specification: Gen1 to Gen6 on 16 lanes.
TEST(pci_link, capacities) {
  EXPECT_NEAR(link_capacity(2.5, 16), 4.0, 0.01);
  EXPECT_NEAR(link_capacity(5, 16), 8.0, 0.01);
  EXPECT_NEAR(link_capacity(8, 16), 15.75, 0.01);
  EXPECT_NEAR(link_capacity(16, 16), 31.51, 0.01);
  EXPECT_NEAR(link_capacity(32, 16), 63.02, 0.01);
  EXPECT_NEAR(link_capacity(64, 16), 121.0, 0.1);
}

TEST(pci_link, what_carries_no_information) {
  EXPECT_FALSE(believable_link(2.5, 1, true));
  EXPECT_TRUE(believable_link(2.5, 1, false));  // a network card may be like that
  EXPECT_TRUE(believable_link(2.5, 16, true));  // an idle link
  EXPECT_FALSE(believable_link(32, 0, false));
  EXPECT_FALSE(believable_link(32, 33, false));
  EXPECT_FALSE(believable_link(0.25, true));
  EXPECT_FALSE(believable_link(0.0, false));
}

TEST(pci_link, a_link_is_as_good_as_its_lesser_end) {
  graph g;
  const vertex_id port = g.add({}), card = g.add({});
  const std::uint32_t there =
      connect(g, port, card, {.most = 63, .now = 63}, {.most = 15.75, .now = 4}, confidence::medium);
  for (std::uint32_t e : {there, there + 1}) {
    EXPECT_EQ(g.edges[e].write, (figure{15.75, source::nominal, confidence::medium}));
    EXPECT_EQ(g.edges[e].current.value, 4);
  }
  const std::uint32_t trained = connect(g, port, card, {}, {.most = {}, .now = 31.5}, confidence::medium);
  EXPECT_EQ(g.edges[trained].read, (figure{31.5, source::nominal, confidence::low}));
  EXPECT_FALSE(g.edges[connect(g, port, card, {}, {}, confidence::medium)].write.known());
}

}  // namespace
}  // namespace xyl::topo
