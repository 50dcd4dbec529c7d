// SPDX-License-Identifier: BSD-3-Clause
//
// Host memory that every device of this process reaches: page-locked, and known by an address of the device's.
// Ranks that are threads of one process share mappings, and the driver takes a mapping once only, so the process
// counts who uses it. Relies on unified addressing: the address is the same for all devices of a process.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "exec/cuda_error.hpp"

namespace xyl {

class registered_memory {
 public:
  ~registered_memory() {
    const std::lock_guard guard(lock());
    if (device_) (void)cudaHostUnregister(host_);
    std::erase_if(all(), [this](const entry& e) { return e.host == host_ && e.memory.expired(); });
  }
  registered_memory(const registered_memory&) = delete;
  registered_memory& operator=(const registered_memory&) = delete;

  // As devices reach it.
  std::byte* device() const { return device_; }

  // On the calling thread's current device. `host` begins a page. Throws std::bad_alloc.
  static result acquire(std::byte* host, std::size_t bytes, std::shared_ptr<registered_memory>& out) {
    const std::lock_guard guard(lock());
    for (const entry& e : all())
      if (e.host == host)
        if (auto found = e.memory.lock()) {
          out = std::move(found);
          return {};
        }
    all().reserve(all().size() + 1);
    // Made last, so that nothing can fail between it and its owner.
    std::unique_ptr<registered_memory> made(new registered_memory(host));
    XYL_TRY(cuda_result(cudaHostRegister(host, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable),
                        "cudaHostRegister"));
    void* reached = nullptr;
    if (result r = cuda_result(cudaHostGetDevicePointer(&reached, host, 0), "cudaHostGetDevicePointer"); !r.ok()) {
      (void)cudaHostUnregister(host);
      return r;
    }
    made->device_ = static_cast<std::byte*>(reached);
    out = std::move(made);
    all().push_back({host, out});
    return {};
  }

 private:
  struct entry {
    std::byte* host;
    std::weak_ptr<registered_memory> memory;
  };
  explicit registered_memory(std::byte* host) : host_(host) {}

  // Destroyed never: the last communicator may outlive this file's other objects. Recursive: what acquire() makes
  // and does not keep ends inside it.
  static std::recursive_mutex& lock() {
    static auto* const mutex = new std::recursive_mutex;
    return *mutex;
  }
  static std::vector<entry>& all() {
    static auto* const entries = new std::vector<entry>;
    return *entries;
  }

  std::byte* const host_;
  std::byte* device_ = nullptr;
};

}  // namespace xyl
