// SPDX-License-Identifier: BSD-3-Clause
// NVML, opened at run time: its functions are looked up by name where they are called, with the signatures of its
// documentation, so that its header is not needed to build and every function may be missing for itself. For the
// files that read NVML, nobody else.
#pragma once

#include <dlfcn.h>

#include <cstring>
#include <optional>
#include <string>

#include "topo/pci_link.hpp"

namespace xyl::topo::nvml_api {

using device_handle = struct nvml_opaque*;
inline constexpr int success = 0;

struct pci_info {
  char legacy_address[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char address[32];
};

inline std::optional<pci_address> address_of(const pci_info& info) {
  return parse_pci_address(std::string(info.address, strnlen(info.address, sizeof info.address)));
}

class library {
 public:
  explicit library(const char* name) : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}
  ~library() {
    if (started_) call<int()>("nvmlShutdown");
    if (handle_) dlclose(handle_);
  }
  library(const library&) = delete;
  library& operator=(const library&) = delete;

  explicit operator bool() const { return handle_ != nullptr; }
  int start() {
    const int status = call<int()>("nvmlInit_v2");
    started_ = status == success;
    return status;
  }

  // NVML's status; -1 if this driver does not have the function.
  template <typename Signature, typename... Arguments>
  int call(const char* name, Arguments... arguments) const {
    const auto function = reinterpret_cast<Signature*>(dlsym(handle_, name));
    return function ? function(arguments...) : -1;
  }

 private:
  void* handle_;
  bool started_ = false;
};

}  // namespace xyl::topo::nvml_api
