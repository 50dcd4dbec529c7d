// SPDX-License-Identifier: BSD-3-Clause
//
// Host buffers: whole pages from mmap, so that large ones are returned at once and never share a page.
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "base/clock.hpp"
#include "tools/perf_memory.hpp"

namespace xyl {
namespace {

class host_memory final : public perf_memory {
 public:
  ~host_memory() override {
    for (const auto& [address, bytes] : allocations_) ::munmap(address, bytes);
  }
  result allocate(std::size_t bytes, std::byte*& out) override {
    void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) return system_error("no memory for a buffer of %zu bytes", bytes);
    allocations_.emplace_back(address, bytes);
    out = static_cast<std::byte*>(address);
    return {};
  }
  result fill(std::byte* to, int byte, std::size_t bytes) override {
    std::memset(to, byte, bytes);
    return {};
  }
  result write(std::byte* to, const std::byte* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
    return {};
  }
  result read(std::byte* to, const std::byte* from, std::size_t bytes) override { return write(to, from, bytes); }

  xylStream_t stream() const override { return nullptr; }
  result record(const work&, work&) override {
    return error(xylInvalidUsage, "a CUDA graph cannot hold calls on host memory");
  }
  result follow(perf_memory&) override { return {}; }
  result add_norm(const norm_call& call) override {
    add_norm_on_host(call);
    return {};
  }
  result wait() override { return {}; }
  result start_clock() override {
    start_ns_ = now_ns();
    return {};
  }
  result stop_clock(double& seconds) override {
    seconds = static_cast<double>(now_ns() - start_ns_) * 1e-9;
    return {};
  }

 private:
  std::vector<std::pair<void*, std::size_t>> allocations_;
  std::int64_t start_ns_ = 0;
};

}  // namespace

std::unique_ptr<perf_memory> make_host_memory() { return std::make_unique<host_memory>(); }

}  // namespace xyl
