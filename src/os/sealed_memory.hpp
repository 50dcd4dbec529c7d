// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that processes share, without a name anywhere: a sealed memfd. Its size can never change, so touching it
// never raises SIGBUS; it is gone when the last process that maps it is gone, however that process ended. It starts
// zeroed and is writable by everyone who has the descriptor (peers write into it, and the GPU driver pins it), so
// it is sealed against a change of size and of seals, never against writing.
#pragma once

#include <cstddef>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace xyl {

class sealed_memory {
 public:
  sealed_memory() = default;
  sealed_memory(sealed_memory&& other) noexcept;
  sealed_memory& operator=(sealed_memory&& other) noexcept;
  ~sealed_memory();

  // All pages exist when this returns: a lack of memory is an xylSystemError here, not a signal later.
  static result create(std::size_t bytes, sealed_memory& out);
  // Maps what another process created. Refuses what is not of exactly that size or could still change its size.
  static result adopt(unique_fd fd, std::size_t bytes, sealed_memory& out);

  // Brings whole pages of a mapping into this process's page table, where the system can: else each is brought in
  // by a fault when it is touched first, and 2 MB of them take as long as 2000 small messages.
  static void bring_in(std::byte* pages, std::size_t bytes);

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  int fd() const { return fd_.get(); }
  // The mapping stays. To be done once every peer has the memory: descriptors are scarce.
  void close_fd() { fd_.reset(); }

 private:
  result map(unique_fd fd, std::size_t bytes);

  unique_fd fd_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace xyl
