// SPDX-License-Identifier: BSD-3-Clause
#include "os/sealed_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

#include <cerrno>
#include <utility>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // Linux 6.3
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010  // Linux 5.1
#endif

namespace xyl {
namespace {

constexpr int fixed_size = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// What the kernel would answer with a signal is refused here: a file-size limit (SIGXFSZ), and more than the whole
// machine has (the out-of-memory killer).
result check_limits(std::size_t bytes) {
  rlimit limit;
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur)
    return error(xylSystemError,
                 "%zu bytes of shared memory exceed the limit on file sizes (ulimit -f), %llu bytes", bytes,
                 static_cast<unsigned long long>(limit.rlim_cur));
  struct sysinfo machine;
  if (::sysinfo(&machine) == 0) {
    const unsigned long long all =
        (static_cast<unsigned long long>(machine.totalram) + machine.totalswap) * machine.mem_unit;
    if (bytes > all) return error(xylSystemError, "%zu bytes of shared memory: this machine has %llu", bytes, all);
  }
  return {};
}

unique_fd anonymous_file() {
  constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  unique_fd fd(::memfd_create("xylem", flags | MFD_NOEXEC_SEAL));
  // Kernels before 6.3 do not know the flag.
  if (!fd && errno == EINVAL) fd.reset(::memfd_create("xylem", flags));
  return fd;
}

}  // namespace

sealed_memory::sealed_memory(sealed_memory&& other) noexcept
    : fd_(std::move(other.fd_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

sealed_memory& sealed_memory::operator=(sealed_memory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

sealed_memory::~sealed_memory() {
  if (data_) ::munmap(data_, size_);
}

result sealed_memory::map(unique_fd fd, std::size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) return system_error("cannot map %zu bytes of shared memory", bytes);
  fd_ = std::move(fd);
  data_ = static_cast<std::byte*>(at);
  size_ = bytes;
  return {};
}

result sealed_memory::create(std::size_t bytes, sealed_memory& out) {
  XYL_TRY(check_limits(bytes));
  unique_fd fd = anonymous_file();
  if (!fd) return system_error("cannot create shared memory");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return system_error("cannot give shared memory %zu bytes", bytes);
  int failed;
  do failed = ::fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes));
  while (failed != 0 && errno == EINTR);
  if (failed != 0) return system_error("no memory for %zu bytes of shared memory", bytes);
  if (::fcntl(fd.get(), F_ADD_SEALS, fixed_size) != 0) return system_error("cannot seal shared memory");
  sealed_memory made;
  XYL_TRY(made.map(std::move(fd), bytes));
  out = std::move(made);
  return {};
}

result sealed_memory::adopt(unique_fd fd, std::size_t bytes, sealed_memory& out) {
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0) return system_error("a peer's descriptor is not sealed memory");
  if ((seals & fixed_size) != fixed_size)
    return error(xylSystemError, "a peer's memory could still change its size (seals %#x)", seals);
  if (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
    return error(xylSystemError, "a peer's memory is sealed against writing (seals %#x)", seals);
  // After the seals: what is measured now stays so.
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) return system_error("cannot measure a peer's memory");
  if (static_cast<std::size_t>(status.st_size) != bytes)
    return error(xylSystemError, "a peer's memory has %lld bytes, expected are %zu",
                 static_cast<long long>(status.st_size), bytes);
  sealed_memory made;
  XYL_TRY(made.map(std::move(fd), bytes));
  out = std::move(made);
  return {};
}

void sealed_memory::bring_in([[maybe_unused]] std::byte* pages, [[maybe_unused]] std::size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  // Older kernels refuse it, which changes nothing.
  (void)::madvise(pages, bytes, MADV_POPULATE_WRITE);
#endif
}

}  // namespace xyl
