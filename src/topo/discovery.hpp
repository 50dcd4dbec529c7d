// SPDX-License-Identifier: BSD-3-Clause
// Reading the machine beside other work, once per process, and never waiting for it longer than a start may take:
// a driver or a /sys that hangs costs a plan, not a program. The reading goes on in its own thread, which outlives
// whoever waited in vain.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "base/result.hpp"
#include "topo/machine.hpp"

namespace xyl::topo {

class discovery {
 public:
  using reader = std::function<result(machine_view&)>;

  // Begins to read.
  explicit discovery(reader read);

  // The machine; errors: those of the reader, and xylTimeout. out stays valid whatever becomes of this object.
  [[nodiscard]] result wait(std::chrono::milliseconds at_most, std::shared_ptr<const machine_view>& out) const;

 private:
  struct state;
  std::shared_ptr<state> state_;
};

// The same for this machine as it is: begun at the first call of the process, and kept.
[[nodiscard]] const discovery& this_machine();

// GPUs at these addresses, below one root complex, with nothing known of any link: what is planned for where the
// machine cannot be read. GPUs without an address have none either.
[[nodiscard]] graph flat_machine(const std::vector<std::optional<pci_address>>& gpus);

}  // namespace xyl::topo
