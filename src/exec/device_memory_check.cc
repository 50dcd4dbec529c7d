// SPDX-License-Identifier: BSD-3-Clause
//
// Numbers from the CUDA driver API (cuda.h), which is stable: a build without CUDA can ask too.
#include "exec/device_memory_check.hpp"

#include <dlfcn.h>

namespace xyl {

namespace {

constexpr int attribute_memory_type = 2;  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr int attribute_is_managed = 8;   // CU_POINTER_ATTRIBUTE_IS_MANAGED
constexpr unsigned memory_type_device = 2;

}  // namespace

device_memory_check::device_memory_check() {
  // Only what is there already; the reference is given back, the driver is never unloaded.
  if (void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) {
    get_attribute_ = reinterpret_cast<decltype(get_attribute_)>(::dlsym(driver, "cuPointerGetAttribute"));
    ::dlclose(driver);
  }
}

bool device_memory_check::holds(const void* pointer) const {
  if (get_attribute_ == nullptr || pointer == nullptr) return false;
  const auto address = reinterpret_cast<unsigned long long>(pointer);
  unsigned type = 0, managed = 0;
  // An error means that the driver does not know the pointer: plain host memory.
  if (get_attribute_(&type, attribute_memory_type, address) != 0 || type != memory_type_device) return false;
  return get_attribute_(&managed, attribute_is_managed, address) != 0 || managed == 0;
}

}  // namespace xyl
