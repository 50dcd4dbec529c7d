// SPDX-License-Identifier: BSD-3-Clause
//
// Lines for people on stderr: `xylem INFO [host:pid rank 3] text`. A line is one write(2) of at most PIPE_BUF
// bytes, so lines of several ranks that share a pipe do not mix. Never fails, never allocates, keeps errno. Usable
// from any thread. Arguments of a call are evaluated even if the line is not wanted; a hot path asks first:
//   if (log_enabled(log_level::trace)) log_line(log_level::trace, rank, "chunk %d", chunk);
#pragma once

#include <atomic>
#include <cstdint>

namespace xyl {

// In order of verbosity. The names are the values of XYLEM_DEBUG.
enum class log_level : std::uint8_t { warn, info, trace };

constexpr const char* name_of(log_level level) {
  switch (level) {
    case log_level::warn:
      return "WARN";
    case log_level::info:
      return "INFO";
    case log_level::trace:
      return "TRACE";
  }
  return "?";
}

namespace detail {
inline std::atomic<log_level> log_threshold{log_level::warn};
}

// Relaxed: the threshold orders nothing; a thread that sees a change a little later prints or omits a line.
inline void set_log_level(log_level level) { detail::log_threshold.store(level, std::memory_order_relaxed); }
inline bool log_enabled(log_level level) { return level <= detail::log_threshold.load(std::memory_order_relaxed); }

// What a line says about a rank where there is none (yet).
inline constexpr int no_rank = -1;

// Writes a line if `level` is enabled. Line breaks in the text become spaces; an over-long text ends in "...".
[[gnu::format(printf, 3, 4)]] void log_line(log_level level, int rank, const char* format, ...);

}  // namespace xyl
