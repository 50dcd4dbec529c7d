// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perf_check.hpp"

#include <algorithm>
#include <cstring>

#include "tools/perf_types.hpp"

namespace xyl {
namespace {

constexpr int poison = 0xff;  // NaN in the floating-point types

}  // namespace

// Data that are only moved need no exact sums: the key of one rank has any values that the type holds.
pattern_book::pattern_book(const perf_collective& collective, const collective_call& call, std::uint64_t salt)
    : key_{call.type, collective.reduces ? call.operation : xylSum, collective.reduces ? call.ranks : 1, salt},
      element_size_(info_of(call.type).size),
      pattern_count_(std::min(pattern_length, std::max(elements_of(collective.send, call.count, call.ranks),
                                                       elements_of(collective.recv, call.count, call.ranks)))) {}

const std::vector<std::byte>& pattern_book::of(int source) {
  const auto [at, is_new] = patterns_.try_emplace(source);
  if (is_new)
    at->second = source == expected_part::reduced ? make_reduced(key_, pattern_count_)
                                                  : make_input(key_, source, pattern_count_);
  return at->second;
}

std::byte* buffer_check::poisoned() const {
  if (!call_.in_place) return static_cast<std::byte*>(call_.recv);
  // The larger buffer starts first.
  return static_cast<std::byte*>(const_cast<void*>(std::min<const void*>(call_.send, call_.recv)));
}

std::size_t buffer_check::poisoned_count() const {
  return call_.in_place ? std::max(input_count(), output_count()) : output_count();
}

result buffer_check::prepare() {
  XYL_TRY(memory_.fill(poisoned(), poison, poisoned_count() * book_.element_size() + guard_bytes));
  if (input_count() == 0) return {};
  const std::vector<std::byte>& pattern = book_.of(call_.rank);
  std::byte* const to = static_cast<std::byte*>(const_cast<void*>(call_.send));
  const std::size_t bytes = input_count() * book_.element_size();
  for (std::size_t done = 0; done < bytes; done += pattern.size())
    XYL_TRY(memory_.write(to + done, pattern.data(), std::min(pattern.size(), bytes - done)));
  return {};
}

// In steps that end where the pattern of the part's source ends.
result buffer_check::compare(const char* what, const std::byte* buffer, const std::vector<expected_part>& parts,
                             fault_count& faults) {
  const std::size_t size = book_.element_size();
  const std::vector<std::byte> unwritten(book_.pattern_count() * size, std::byte{poison});
  std::vector<std::byte> got(book_.pattern_count() * size);
  std::size_t begin = 0;
  for (const expected_part& part : parts) {
    const std::vector<std::byte>& pattern =
        part.source == expected_part::unwritten ? unwritten : book_.of(part.source);
    for (std::size_t done = 0; done < part.count;) {
      const std::size_t from = (part.offset + done) % book_.pattern_count();
      const std::size_t here = std::min(part.count - done, book_.pattern_count() - from);
      const std::byte* const expected = pattern.data() + from * size;
      XYL_TRY(memory_.read(got.data(), buffer + (begin + done) * size, here * size));
      const bool is_equal = std::memcmp(got.data(), expected, here * size) == 0;
      for (std::size_t i = 0; !is_equal && i < here; ++i) {
        if (std::memcmp(&got[i * size], expected + i * size, size) == 0) continue;
        faults.add(call_.rank, [&] {
          return format_text("%s %zu is %s, expected %s", what, begin + done + i,
                             element_text(call_.type, &got[i * size]).c_str(),
                             element_text(call_.type, expected + i * size).c_str());
        });
      }
      done += here;
    }
    begin += part.count;
  }
  return {};
}

result buffer_check::find_wrong(fault_count& faults) {
  XYL_TRY(compare("element", static_cast<const std::byte*>(call_.recv), collective_.expected(call_), faults));
  if (!call_.in_place)
    XYL_TRY(compare("element of the input", static_cast<const std::byte*>(call_.send),
                    {{call_.rank, 0, input_count()}}, faults));
  std::vector<std::byte> guard(guard_bytes);
  XYL_TRY(memory_.read(guard.data(), poisoned() + poisoned_count() * book_.element_size(), guard_bytes));
  for (std::size_t i = 0; i < guard_bytes; ++i) {
    if (guard[i] == std::byte{poison}) continue;
    faults.add(call_.rank, [&] { return format_text("byte %zu behind the last element was written", i); });
    break;
  }
  return {};
}

}  // namespace xyl
