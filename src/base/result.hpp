// SPDX-License-Identifier: BSD-3-Clause
//
// What an internal function returns: a code of the public ABI and, when it is not success, one sentence for a
// person. Success carries no allocation. Nothing below the ABI throws on purpose; abi.cc turns what the standard
// library throws into codes.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "xylem/xylem.h"

namespace xyl {

class [[nodiscard]] result {
 public:
  result() = default;
  result(xylResult_t code, std::string text) : code_(code), text_(std::make_unique<std::string>(std::move(text))) {}

  bool ok() const { return code_ == xylSuccess; }
  xylResult_t code() const { return code_; }
  const std::string& text() const {
    static const std::string none;
    return text_ ? *text_ : none;
  }

 private:
  xylResult_t code_ = xylSuccess;
  std::unique_ptr<std::string> text_;
};

// printf-style construction: error(xylSystemError, "mmap of %zu bytes: %s", n, strerror(errno))
[[gnu::format(printf, 2, 3)]] result error(xylResult_t code, const char* format, ...);

// The same with ": <strerror(errno)>" appended; code is xylSystemError.
[[gnu::format(printf, 1, 2)]] result system_error(const char* format, ...);

[[gnu::format(printf, 1, 2)]] std::string format_text(const char* format, ...);

}  // namespace xyl

// Returns early from a function that returns xyl::result.
#define XYL_TRY(expression)                                                                       \
  do {                                                                                            \
    if (::xyl::result xyl_try_result = (expression); !xyl_try_result.ok()) return xyl_try_result; \
  } while (0)
