// SPDX-License-Identifier: BSD-3-Clause
#include "os/sealed_memory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>

#include "tests/support/forked_ranks.hpp"

namespace xyl {
namespace {

constexpr int fixed_size = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

unique_fd file_of(std::size_t bytes, int seals) {
  unique_fd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_TRUE(fd);
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  if (seals) {
    EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  }
  return fd;
}

TEST(sealed_memory, is_zeroed_sealed_and_close_on_exec) {
  sealed_memory memory;
  ASSERT_TRUE(sealed_memory::create(1 << 20, memory).ok());
  ASSERT_EQ(memory.size(), 1u << 20);
  EXPECT_TRUE(
      std::all_of(memory.data(), memory.data() + memory.size(), [](std::byte b) { return b == std::byte{0}; }));
  const int seals = ::fcntl(memory.fd(), F_GET_SEALS);
  EXPECT_EQ(seals & fixed_size, fixed_size);
  EXPECT_EQ(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE), 0);
  EXPECT_NE(::fcntl(memory.fd(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(::ftruncate(memory.fd(), 0), 0) << "the size can be changed, so that touching the memory raises SIGBUS";
}

TEST(sealed_memory, adopted_memory_is_the_same_memory_and_outlives_its_maker) {
  sealed_memory theirs;
  {
    sealed_memory mine;
    ASSERT_TRUE(sealed_memory::create(8192, mine).ok());
    ASSERT_TRUE(sealed_memory::adopt(unique_fd(::dup(mine.fd())), 8192, theirs).ok());
    theirs.data()[1] = std::byte{2};
    EXPECT_EQ(mine.data()[1], std::byte{2});
    mine.data()[8191] = std::byte{3};
  }
  theirs.close_fd();
  EXPECT_EQ(theirs.data()[8191], std::byte{3});
}

TEST(sealed_memory, moves) {
  sealed_memory first, second;
  ASSERT_TRUE(sealed_memory::create(4096, first).ok());
  std::byte* const at = first.data();
  second = std::move(first);
  EXPECT_EQ(second.data(), at);
  sealed_memory third(std::move(second));
  EXPECT_EQ(third.data(), at);
  EXPECT_EQ(second.data(), nullptr);
  third.data()[0] = std::byte{1};
}

TEST(sealed_memory, refuses_what_could_shrink) {
  sealed_memory out;
  for (int seals : {0, F_SEAL_SHRINK | F_SEAL_GROW, F_SEAL_GROW | F_SEAL_SEAL, F_SEAL_SHRINK | F_SEAL_SEAL}) {
    const result r = sealed_memory::adopt(file_of(4096, seals), 4096, out);
    EXPECT_EQ(r.code(), xylSystemError) << seals;
    EXPECT_EQ(out.data(), nullptr);
  }
}

TEST(sealed_memory, refuses_what_cannot_be_written) {
  sealed_memory out;
  for (int seals : {F_SEAL_WRITE, F_SEAL_FUTURE_WRITE})
    EXPECT_EQ(sealed_memory::adopt(file_of(4096, fixed_size | seals), 4096, out).code(), xylSystemError);
}

TEST(sealed_memory, refuses_another_size) {
  sealed_memory out;
  EXPECT_EQ(sealed_memory::adopt(file_of(4096, fixed_size), 8192, out).code(), xylSystemError);
  EXPECT_EQ(sealed_memory::adopt(file_of(8192, fixed_size), 4096, out).code(), xylSystemError);
  EXPECT_TRUE(sealed_memory::adopt(file_of(8192, fixed_size), 8192, out).ok());
}

TEST(sealed_memory, refuses_what_is_no_memory_and_closes_it) {
  const int before = test::open_descriptors();
  sealed_memory out;
  EXPECT_EQ(sealed_memory::adopt(unique_fd(::open("/dev/zero", O_RDWR | O_CLOEXEC)), 4096, out).code(),
            xylSystemError);
  EXPECT_EQ(sealed_memory::adopt(unique_fd(), 4096, out).code(), xylSystemError);
  EXPECT_EQ(test::open_descriptors(), before);
}

TEST(sealed_memory, more_than_the_machine_has_is_an_error) {
  const int before = test::open_descriptors();
  sealed_memory out;
  EXPECT_EQ(sealed_memory::create(std::size_t{1} << 50, out).code(), xylSystemError);
  EXPECT_EQ(test::open_descriptors(), before);
}

TEST(sealed_memory, a_limit_on_file_sizes_is_an_error_not_a_signal) {
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1 << 16;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  sealed_memory out;
  const result r = sealed_memory::create(1 << 20, out);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(r.code(), xylSystemError);
  EXPECT_NE(r.text().find("ulimit -f"), std::string::npos) << r.text();
}

}  // namespace
}  // namespace xyl
