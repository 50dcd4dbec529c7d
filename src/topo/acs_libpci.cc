// SPDX-License-Identifier: BSD-3-Clause
// libpci ends the process on errors unless it is given a function that does not come back. Ours jumps out of the
// call; no object with a destructor lives between setjmp and the call.
#include <csetjmp>
#include <cstdarg>

extern "C" {
#include <pci/pci.h>
}

#include <unistd.h>

#include "topo/acs.hpp"
#include "topo/pci_link.hpp"

namespace xyl::topo {
namespace {

thread_local std::jmp_buf* way_out = nullptr;

[[noreturn]] void fail(char*, ...) { std::longjmp(*way_out, 1); }
void ignore(char*, ...) {}

bool begin(pci_access* access) {
  std::jmp_buf out;
  way_out = &out;
  if (setjmp(out)) return false;
  pci_init(access);
  return true;
}

constexpr int redirecting = PCI_ACS_CTRL_REQ_RED | PCI_ACS_CTRL_CMPLT_RED;

// -1: not readable; else the redirecting bits of the port's control word.
int control_of(pci_access* access, const pci_address& port) {
  std::jmp_buf out;
  way_out = &out;
  if (setjmp(out)) return -1;
  pci_dev* device = pci_get_dev(access, static_cast<int>(port.domain), port.bus, port.device, port.function);
  if (!device) return -1;
  int control = -1;
  u8 extended[4] = {};
  // What cannot be read comes back as ones or not at all; an empty extended space is zeros.
  if (pci_read_block(device, 0x100, extended, sizeof extended) && extended[0] != 0xff) {
    const pci_cap* capability = pci_find_cap(device, PCI_EXT_CAP_ID_ACS, PCI_CAP_EXTENDED);
    control = 0;
    if (capability)
      control = pci_read_word(device, static_cast<int>(capability->addr) + PCI_ACS_CTRL) & redirecting;
  }
  pci_free_dev(device);
  return control;
}

}  // namespace

struct acs_reader::access {
  pci_access* handle = nullptr;
};

acs_reader::acs_reader(const std::string& sys) : access_(std::make_unique<access>()) {
  std::string folder = sys + "/bus/pci";
  if (::access((folder + "/devices").c_str(), R_OK | X_OK) != 0) return;
  pci_access* handle = pci_alloc();
  handle->method = PCI_ACCESS_SYS_BUS_PCI;
  handle->error = fail;
  handle->warning = ignore;
  handle->debug = ignore;
  char name[] = "sysfs.path";
  pci_set_param(handle, name, folder.data());
  if (begin(handle)) access_->handle = handle;
}

acs_reader::~acs_reader() {
  if (access_->handle) pci_cleanup(access_->handle);
}

std::optional<bool> acs_reader::redirects(const pci_address& port) {
  if (!access_->handle) return std::nullopt;
  const int control = control_of(access_->handle, port);
  if (control < 0) return std::nullopt;
  return control != 0;
}

bool acs_reader::available() { return true; }

}  // namespace xyl::topo
