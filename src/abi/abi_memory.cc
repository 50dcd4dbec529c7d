// SPDX-License-Identifier: BSD-3-Clause
//
// The entry points of xylem.h for memory that peers use in place.

// What this header declares is what the library exports.
#pragma GCC visibility push(default)
#include "xylem/xylem.h"
#pragma GCC visibility pop

#include "abi/grouped.hpp"
#include "base/enumeration.hpp"
#include "exec/allocation.hpp"

using namespace xyl;

namespace {

// Runs a collective step of one communicator now, or with the others' when the group ends: one thread may drive
// several ranks.
template <class Step>
result now_or_in_group(xylComm_t comm, const char* function, Step step) {
  communicator* c = nullptr;
  XYL_TRY(find_communicator(comm, function, c));
  XYL_TRY(check_in_use(comm, function));
  if (!group::is_open()) return step(*c);
  group::record_making(resolve_handle(comm), [=] { return run_recorded(comm, function, step); });
  return {};
}

}  // namespace

xylResult_t xylMemAlloc(void** ptr, size_t size, xylMemKind_t kind) {
  return guarded(nullptr, [&]() -> result {
    if (ptr == nullptr) return error(xylInvalidArgument, "xylMemAlloc: ptr is NULL");
    *ptr = nullptr;
    return allocate(size, number_of(kind), *ptr);
  });
}

xylResult_t xylMemFree(void* ptr) {
  return guarded(nullptr, [&] { return release(ptr); });
}

xylResult_t xylCommRegister(xylComm_t comm, void* buff, size_t size, void** handle) {
  return guarded_in_group(comm, [&]() -> result {
    if (handle == nullptr) return error(xylInvalidArgument, "xylCommRegister: handle is NULL");
    *handle = nullptr;
    if (buff == nullptr || size == 0)
      return error(xylInvalidArgument, "xylCommRegister: %s", buff == nullptr ? "buff is NULL" : "size is 0");
    return now_or_in_group(comm, "xylCommRegister", [=](communicator& c) -> result {
      std::uint64_t number = 0;
      XYL_TRY(c.register_window(buff, size, number));
      *handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(number));
      return {};
    });
  });
}

xylResult_t xylCommDeregister(xylComm_t comm, void* handle) {
  return guarded_in_group(comm, [&] {
    const auto number = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(handle));
    return now_or_in_group(comm, "xylCommDeregister", [=](communicator& c) { return c.deregister_window(number); });
  });
}
