// SPDX-License-Identifier: BSD-3-Clause
#include "topo/cache_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/unique_fd.hpp"

namespace xyl::topo {
namespace {

constexpr std::size_t largest_file = std::size_t{1} << 20;

result write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = write(fd, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return system_error("writing a file of the cache");
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

}  // namespace

result read_own_file(const std::string& path, std::string& out) {
  // Without O_NONBLOCK the opening of a named pipe would wait.
  const unique_fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.get() < 0) return system_error("cannot be opened");
  struct stat about;
  if (fstat(fd.get(), &about) != 0) return system_error("cannot be looked at");
  if (!S_ISREG(about.st_mode)) return error(xylSystemError, "is not a regular file");
  if (about.st_uid != geteuid() && about.st_uid != 0) return error(xylSystemError, "belongs to another user");
  if ((about.st_mode & S_IWOTH) != 0) return error(xylSystemError, "can be written by everybody");
  if (static_cast<std::uint64_t>(about.st_size) > largest_file) return error(xylSystemError, "is too large");
  out.resize(static_cast<std::size_t>(about.st_size));
  std::size_t have = 0;
  while (have < out.size()) {
    const ssize_t got = read(fd.get(), out.data() + have, out.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("cannot be read");
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  out.resize(have);
  return {};
}

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0 || errno != ENOENT; }

result replace_file(const std::string& path, const std::string& text) {
  // A name of its own beside the file, so that two processes never write the same one and rename stays on one disk.
  std::string temporary = path + ".XXXXXX";
  unique_fd fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (fd.get() < 0) return system_error("creating %s", temporary.c_str());
  result r = write_all(fd.get(), text);
  // The data has to be on the disk before the name is: a crash must not leave an empty file under it.
  if (r.ok() && (fchmod(fd.get(), 0644) != 0 || fsync(fd.get()) != 0))
    r = system_error("writing %s", temporary.c_str());
  if (r.ok() && rename(temporary.c_str(), path.c_str()) != 0) r = system_error("replacing %s", path.c_str());
  if (!r.ok()) unlink(temporary.c_str());
  return r;
}

result make_folder(const std::string& path) {
  for (std::size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    const std::string part = path.substr(0, at);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST)
      return system_error("creating the folder %s", part.c_str());
    if (at == path.npos) return {};
  }
}

}  // namespace xyl::topo
