// SPDX-License-Identifier: BSD-3-Clause
#include "base/result.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace xyl {

static std::string format_list(const char* format, va_list list) {
  va_list again;
  va_copy(again, list);
  const int length = std::vsnprintf(nullptr, 0, format, list);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  if (length > 0) std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

std::string format_text(const char* format, ...) {
  va_list list;
  va_start(list, format);
  std::string text = format_list(format, list);
  va_end(list);
  return text;
}

result error(xylResult_t code, const char* format, ...) {
  va_list list;
  va_start(list, format);
  std::string text = format_list(format, list);
  va_end(list);
  return {code, std::move(text)};
}

result system_error(const char* format, ...) {
  const int number = errno;
  va_list list;
  va_start(list, format);
  std::string text = format_list(format, list);
  va_end(list);
  return {xylSystemError, text + ": " + std::strerror(number)};
}

}  // namespace xyl
