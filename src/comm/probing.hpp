// SPDX-License-Identifier: BSD-3-Clause
//
// One rank's part in a probe: it starts its helper, passes on what helpers tell each other, and after every step
// meets the other ranks. A helper that is missing, fails, hangs or dies costs this rank's measurements and never
// the start of the program: everybody comes to every exchange, and learns who has nothing to say.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "os/child_process.hpp"
#include "topo/probe_messages.hpp"
#include "topo/probe_order.hpp"

namespace xyl {

using probe_answers = std::vector<std::vector<topo::probe_answer>>;  // [step][rank]
// Collects `bytes` bytes of every rank.
using probe_exchange = std::function<result(const void* mine, void* all, std::size_t bytes)>;

class probe_run {
 public:
  // All room for the exchanges is made here: nothing keeps a rank from one of them later. device: UUID of this
  // rank's GPU; all zero on the host. helper: the program.
  probe_run(const topo::probe_order& order, int rank, std::span<const std::uint8_t, 16> device, std::string helper);

  // Collective over the order's ranks. Errors: those of the exchange.
  result run(const probe_exchange& exchange);
  const probe_answers& answers() const { return answers_; }

 private:
  topo::probe_hello start();
  void meet();
  topo::probe_answer part(const topo::probe_step& step, std::uint32_t number);
  template <class Question, class Answer>
  result ask(const Question& question, Answer& answer, std::uint32_t ms);
  void give_up(const std::string& why);

  const topo::probe_order order_;
  const int rank_;
  std::uint8_t device_[16];
  const std::string program_;
  const std::vector<topo::probe_step> steps_;
  std::vector<topo::probe_hello> hellos_;
  std::vector<std::uint8_t> gone_;  // by rank: its helper does nothing more
  probe_answers answers_;
  child_process child_;
  std::string why_;      // there is no helper any more
  std::string refusal_;  // whose memory it could not open
};

// Without what a launcher or a preload would do to a helper.
std::vector<std::string> helper_environment(const char* const* environment);

// Where xylem-probe is: what a person wants, else where it was configured to be installed, else where it is in a
// tree of the same shape, or beside what was built.
std::string helper_path(const std::string& wanted);

}  // namespace xyl
