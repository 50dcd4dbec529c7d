// SPDX-License-Identifier: BSD-3-Clause
//
// Whether GPUs write into each other's memory or meet in host memory, decided by all ranks together, on made-up
// devices: this program has its own device_side, which reaches peers, fails or computes wrongly as a test wants it.
// Ranks are processes. Not for builds with CUDA, which bring a device_side.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "comm/communicator.hpp"
#include "exec/device_check.hpp"
#include "exec/device_memory.hpp"
#include "support/forked_ranks.hpp"
#include "support/idle_device.hpp"
#include "topo/json_read.hpp"

namespace xyl {
namespace {

// Of this process's rank.
struct behaviour {
  bool reaches_peers = true;
  bool reaches_host_memory = true;
  bool computes_right_straight = true;
  bool computes_right_staged = true;
};
behaviour acts;
// The GPU that this process's rank has; without one all have the same.
int own_gpu = -1;

struct history {
  int straight = 0, staged = 0, resets = 0, checks = 0, kernels = 0, copies = 0, opened = 0;
  bool allocated_copies = false;
};
history seen;

class made_up_device final : public test::idle_device {
 public:
  explicit made_up_device(const layout& map) : idle_device(map) {
    if (own_gpu < 0) return;
    handle_.uuid[0] = static_cast<std::uint8_t>(own_gpu + 1);
    handle_.pci_bus = own_gpu + 1;
  }
  result connect(std::span<const device_handle> all, int rank, std::shared_ptr<const peer_group> windows) override {
    (windows ? seen.staged : seen.straight)++;
    if (!(windows ? acts.reaches_host_memory : acts.reaches_peers))
      return error(xylUnhandledCudaError, "device %d of rank %d does not reach its peers", handle_.ordinal, rank);
    windows_ = std::move(windows);
    ranks_ = static_cast<int>(all.size());
    rank_ = rank;
    return {};
  }
  result reset() override {
    ++seen.resets;
    return {};
  }
  // Where the others are to find what this rank has to say: the last byte of its part of everyone's memory.
  bool is_staged() const { return windows_ != nullptr; }
  void greet() const {
    for (int p = 0; p < ranks_; ++p) *place(p, rank_) = std::byte(rank_ + 1);
  }
  bool was_greeted_by(int p) const { return *place(rank_, p) == std::byte(p + 1); }

  result all_reduce(device_launch, const void*, void*, std::uint64_t, const call_record&, xylStream_t) override {
    ++seen.kernels;
    return {};
  }
  result all_reduce_by_copies(const void*, void*, std::uint64_t, const call_record&, xylStream_t) override {
    ++seen.copies;
    return {};
  }
  result move_by_copies(const movement&, bool, const void*, void*, const call_record&, xylStream_t) override {
    ++seen.copies;
    return {};
  }
  result open_memory(const exported_memory&, int, bool, std::byte*& out, void*& opened) override {
    ++seen.opened;
    out = nullptr;
    opened = nullptr;
    return {};
  }
  void disconnect() override { windows_.reset(); }

 private:
  std::byte* place(int at, int from) const { return windows_->workspace(at) + map_.bytes - 1 - from; }

  std::shared_ptr<const peer_group> windows_;
  int rank_ = 0, ranks_ = 0;
};

class made_up_check final : public kernel_check {
 public:
  explicit made_up_check(made_up_device& side) : side_(side) {}
  result run(std::span<const unsigned, device_fused_forms>, bool, bool) override {
    ++seen.checks;
    if (!(side_.is_staged() ? acts.computes_right_staged : acts.computes_right_straight))
      return error(xylInternalError, "wrong sums");
    if (side_.is_staged()) side_.greet();
    return {};
  }

 private:
  made_up_device& side_;
};

made_up_device* made;

}  // namespace

int device_side::current_device() { return 0; }
int device_side::count() { return 1; }
result device_side::create(int, const layout& map, std::byte*, std::size_t, std::int64_t, bool copies,
                           std::unique_ptr<device_side>& out) {
  seen.allocated_copies = copies;
  auto side = std::make_unique<made_up_device>(map);
  made = side.get();
  out = std::move(side);
  return {};
}
bool has_current_device() { return true; }
result allocate_device_memory(std::size_t, void*&) { return error(xylSystemError, "there is no memory"); }
result free_device_memory(void*) { return {}; }
result kernel_check::create(device_side& side, int, int, std::unique_ptr<kernel_check>& out) {
  out = std::make_unique<made_up_check>(static_cast<made_up_device&>(side));
  return {};
}

namespace test {
namespace {

constexpr int ranks = 3;

// A communicator of three made-up devices; each rank's behaviour is set before.
void with_made_up_devices(const std::function<void(int)>& before,
                          const std::function<void(int, communicator&)>& body) {
  const auto ends = forked_ranks(ranks, [&](int rank, meeting& m) {
    for (const char* name : {"XYLEM_P2P", "XYLEM_COPY_ENGINE_BYTES", "XYLEM_TOPO_FILE", "XYLEM_TOPO_OVERRIDE"})
      ::unsetenv(name);
    before(rank);
    std::unique_ptr<communicator> comm;
    const result r = communicator::create(ranks, rank, m.allgather(rank), comm);
    ASSERT_TRUE(r.ok()) << r.text();
    body(rank, *comm);
    m.wait();
  });
  for (int r = 0; r < ranks; ++r)
    EXPECT_TRUE(ends[static_cast<unsigned>(r)].good())
        << "rank " << r << ": " << ends[static_cast<unsigned>(r)].text();
}

topo::json description_of(const communicator& comm) {
  std::string text;
  EXPECT_TRUE(comm.describe(text).ok());
  return topo::json::parse(text, nullptr, false);
}

void expect_staged(communicator& comm, const char* because) {
  EXPECT_EQ(comm.device(), 0);
  const topo::json paths = description_of(comm)["device_paths"];
  EXPECT_EQ(paths["workspaces"], "host memory");
  EXPECT_NE(paths["because"].get<std::string>().find(because), std::string::npos) << paths["because"];
  // The ranks have met in memory that all of them map.
  for (int p = 0; p < ranks; ++p) EXPECT_TRUE(made->was_greeted_by(p)) << p;
}

TEST(staging, devices_that_reach_each_other_do_not_meet_in_host_memory) {
  with_made_up_devices([](int) {},
                       [](int, communicator& comm) {
                         EXPECT_EQ(comm.device(), 0);
                         EXPECT_EQ(description_of(comm)["device_paths"]["workspaces"], "device memory");
                         EXPECT_EQ(seen.straight, 1);
                         EXPECT_EQ(seen.staged, 0);
                         EXPECT_FALSE(seen.allocated_copies);
                       });
}

TEST(staging, one_device_that_does_not_reach_its_peers_leads_all_to_host_memory) {
  with_made_up_devices([](int rank) { acts.reaches_peers = rank != 1; },
                       [](int, communicator& comm) {
                         expect_staged(comm, "device 0 of rank 1 does not reach its peers");
                         EXPECT_EQ(seen.resets, 1);
                         EXPECT_EQ(seen.checks, 1) << "kernels were run over links that are not there";
                       });
}

TEST(staging, links_over_which_sums_are_wrong_are_not_used) {
  with_made_up_devices([](int rank) { acts.computes_right_straight = rank != 2; },
                       [](int, communicator& comm) {
                         expect_staged(comm, "wrong sums");
                         EXPECT_EQ(seen.resets, 1);
                         EXPECT_EQ(seen.checks, 2);
                       });
}

TEST(staging, rank_0_can_say_that_all_meet_in_host_memory) {
  with_made_up_devices([](int rank) { ::setenv("XYLEM_P2P", rank == 0 ? "0" : "1", 1); },
                       [](int, communicator& comm) {
                         expect_staged(comm, "XYLEM_P2P=0");
                         EXPECT_EQ(seen.straight, 0);
                       });
}

// A machine of three GPUs whose links all work, as far as anybody can tell.
std::string three_gpus() {
  std::string text = "<system><cpu numaid=\"0\">";
  for (int gpu = 1; gpu <= ranks; ++gpu)
    text += format_text("<pci busid=\"0000:0%d:00.0\" class=\"0x030200\"><gpu sm=\"90\"/></pci>", gpu);
  return text + "</cpu></system>";
}

TEST(staging, a_person_who_forbids_one_link_is_believed_without_a_trial) {
  const std::string folder = testing::TempDir() + "staging_test." + std::to_string(getpid());
  const std::string machine = folder + ".xml", wish = folder + ".json";
  std::ofstream(machine) << three_gpus();
  const auto forbid = [&](const char* wishes) {
    std::ofstream(wish, std::ios::trunc) << wishes;
    return [&](int rank) {
      own_gpu = rank;
      ::setenv("XYLEM_PROBE", "never", 1);
      // The others' environment does not count.
      if (rank != 0) return;
      ::setenv("XYLEM_TOPO_FILE", machine.c_str(), 1);
      ::setenv("XYLEM_TOPO_OVERRIDE", wish.c_str(), 1);
    };
  };
  with_made_up_devices(
      forbid(R"({"pairs": [{"from": "GPU 0", "to": "GPU 2", "peer_to_peer": false},
                                            {"from": "GPU 2", "to": "GPU 0", "peer_to_peer": false}]})"),
      [&](int, communicator& comm) {
        expect_staged(comm, "says that there is no peer-to-peer from GPU 0 to GPU 2, nor between 1");
        expect_staged(comm, wish.c_str());
        EXPECT_EQ(seen.straight, 0) << "a forbidden link was tried";
        const topo::json d = description_of(comm);
        EXPECT_TRUE(d["plan"]["host_staged"]);
        for (const topo::json& link : d["links"])
          EXPECT_EQ(link["class"] == "HOST", link["from"] != "GPU 1" && link["to"] != "GPU 1") << link;
      });
  with_made_up_devices(forbid(R"({"pairs": [{"from": "*", "to": "*", "peer_to_peer": true, "write": 20}]})"),
                       [](int, communicator& comm) {
                         EXPECT_EQ(description_of(comm)["device_paths"]["workspaces"], "device memory");
                         EXPECT_EQ(seen.straight, 1);
                         EXPECT_EQ(seen.staged, 0);
                       });
  std::remove(machine.c_str());
  std::remove(wish.c_str());
}

TEST(staging, peers_are_not_led_to_buffers_that_they_do_not_reach) {
  for (const char* use : {"auto", "0"})
    with_made_up_devices([&](int) { ::setenv("XYLEM_P2P", use, 1); },
                         [&](int, communicator& comm) {
                           std::byte buffer[4096];
                           std::uint64_t handle = 0;
                           const result registered = comm.register_window(buffer, sizeof buffer, handle);
                           EXPECT_TRUE(registered.ok()) << registered.text();
                           EXPECT_EQ(seen.opened, *use == '0' ? 0 : ranks);
                         });
}

TEST(staging, or_that_none_may) {
  with_made_up_devices(
      [](int rank) {
        ::setenv("XYLEM_P2P", rank == 0 ? "1" : "0", 1);
        acts.reaches_peers = rank != 1;
      },
      [](int, communicator& comm) {
        EXPECT_EQ(comm.device(), -1);
        EXPECT_EQ(seen.staged, 0);
      });
}

TEST(staging, where_neither_way_works_host_memory_still_does) {
  with_made_up_devices(
      [](int rank) {
        acts.reaches_peers = rank != 1;
        acts.computes_right_staged = rank != 2;
      },
      [](int rank, communicator& comm) {
        EXPECT_EQ(comm.device(), -1);
        EXPECT_TRUE(description_of(comm)["device_paths"].is_null());
        request r;
        r.what = collective::all_reduce;
        r.type = xylInt32;
        r.op = xylSum;
        std::int32_t value = rank + 1;
        r.send = r.recv = &value;
        r.count = 1;
        const result done = comm.collect(r);
        EXPECT_TRUE(done.ok()) << done.text();
        EXPECT_EQ(value, 6);
      });
}

// What a call comes to, and that its fingerprint is everybody's: the table is rank 0's.
TEST(staging, copy_engines_move_what_is_longer_than_rank_0_says) {
  const auto call = [](communicator& comm, std::uint64_t bytes, collective what = collective::all_reduce) {
    request r;
    r.what = what;
    r.type = xylUint8;
    r.op = xylSum;
    std::byte somewhere{};
    r.send = r.recv = &somewhere;  // nobody reads it
    r.count = bytes;
    EXPECT_TRUE(comm.collect(r).ok());
  };
  with_made_up_devices(
      [](int rank) { ::setenv("XYLEM_COPY_ENGINE_BYTES", rank == 0 ? "64K" : "1", 1); },
      [&](int, communicator& comm) {
        EXPECT_TRUE(seen.allocated_copies);
        call(comm, 65'535);
        EXPECT_EQ(seen.copies, 0);
        EXPECT_EQ(seen.kernels, 1);
        call(comm, 65'536);
        EXPECT_EQ(seen.copies, 1);
        EXPECT_EQ(seen.kernels, 1);
        // A piece goes to two others.
        for (const collective what : {collective::all_gather, collective::reduce_scatter, collective::all_to_all})
          for (const std::uint64_t piece : {32'767, 32'768}) call(comm, piece, what);
        EXPECT_EQ(seen.copies, 4);
        for (const collective what : {collective::broadcast, collective::reduce}) call(comm, 1 << 20, what);
        EXPECT_EQ(seen.copies, 4);
      });
  with_made_up_devices([](int) { ::setenv("XYLEM_P2P", "0", 1); },
                       [&](int, communicator& comm) {
                         EXPECT_FALSE(seen.allocated_copies) << "what is taken to the device is taken elsewhere";
                         call(comm, 64 << 20);
                         EXPECT_EQ(seen.copies, 1);
                       });
}

}  // namespace
}  // namespace test
}  // namespace xyl
