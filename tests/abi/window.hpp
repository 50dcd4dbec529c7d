// SPDX-License-Identifier: BSD-3-Clause
//
// What tests of registered buffers in host memory need.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "abi/ranks.hpp"

namespace xyl::test {

using nlohmann::json;

inline json registered(xylComm_t comm) {
  std::size_t length = 0;
  EXPECT_EQ(xylCommDescribe(comm, nullptr, &length), xylSuccess);
  std::string text(length, 'x');
  EXPECT_EQ(xylCommDescribe(comm, text.data(), &length), xylSuccess);
  text.pop_back();
  return json::parse(text, nullptr, false)["registered"];
}

// Memory that is freed, with a window of it.
class shared_buffer_of {
 public:
  shared_buffer_of(xylComm_t comm, std::size_t bytes) : comm_(comm) {
    EXPECT_EQ(xylMemAlloc(&memory_, bytes, xylMemHost), xylSuccess) << xylGetLastError(nullptr);
    EXPECT_EQ(xylCommRegister(comm, memory_, bytes, &handle_), xylSuccess) << xylGetLastError(comm);
    EXPECT_NE(handle_, nullptr);
  }
  ~shared_buffer_of() {
    EXPECT_EQ(xylCommDeregister(comm_, handle_), xylSuccess) << xylGetLastError(comm_);
    EXPECT_EQ(xylMemFree(memory_), xylSuccess) << xylGetLastError(nullptr);
  }
  template <class T>
  T* at(std::size_t element) {
    return static_cast<T*>(memory_) + element;
  }

 private:
  xylComm_t comm_;
  void *memory_ = nullptr, *handle_ = nullptr;
};

}  // namespace xyl::test
