// SPDX-License-Identifier: BSD-3-Clause
// Reading XML that may be hostile: expat's events, with limits on depth, elements, attributes, bytes and time, and
// with every error naming its line. DOCTYPE declarations with an internal subset (and so every entity declaration),
// encodings other than UTF-8 and NUL bytes are refused, and no external file is ever opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace xyl::topo {

// Real machines: 20 deep, 20,000 elements, 3 MB.
struct xml_limits {
  std::size_t bytes = std::size_t{8} << 20;
  unsigned depth = 64;
  std::size_t elements = 60'000;
  std::size_t tag_bytes = std::size_t{1} << 18;        // from one "<" to the next
  std::size_t attribute_bytes = std::size_t{1} << 16;  // name and value of one attribute
  std::size_t attributes = 64;                         // of one element
  std::int64_t milliseconds = 2'000;
};

struct xml_attribute {
  std::string_view name;
  std::string_view value;
};

struct xml_element {
  std::string_view name;
  std::span<const xml_attribute> attributes;
  unsigned depth = 0;  // of the root: 0
  unsigned long line = 0;

  [[nodiscard]] std::optional<std::string_view> find(std::string_view attribute) const;
};

// Views are valid during the call only. An error stops the reading and is returned with its line in front.
class xml_handler {
 public:
  virtual ~xml_handler() = default;
  virtual result open(const xml_element& element) = 0;
  virtual result close(std::string_view name) = 0;
  virtual result text(std::string_view characters) = 0;
};

[[nodiscard]] result read_xml(std::string_view text, const xml_limits& limits, xml_handler& handler);

// The whole of a regular file, if it has at most limit bytes; not a pipe or a device, on which reading could hang.
[[nodiscard]] result read_small_file(const char* path, std::size_t limit, std::string& out);

// What may come from anywhere, made printable and short, for error texts.
[[nodiscard]] std::string shown(std::string_view text);

}  // namespace xyl::topo
