// SPDX-License-Identifier: BSD-3-Clause
#include "comm/probing.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "os/local_socket.hpp"

namespace xyl {
namespace {

using namespace topo;

// A helper ends at once when its socket does; its device is given back by the driver meanwhile.
constexpr int end_ms = 3000;

std::uint32_t number_of(probe_state s) { return static_cast<std::uint32_t>(s); }

bool hangs(const probe_answer& a) {
  return std::find(std::begin(a.verdict), std::end(a.verdict), static_cast<std::uint8_t>(probe_verdict::silent)) !=
         std::end(a.verdict);
}

template <class Message>
Message blank() {
  Message m;
  std::memset(&m, 0, sizeof m);
  return m;
}

}  // namespace

std::vector<std::string> helper_environment(const char* const* environment) {
  return environment_without(environment, {"LD_PRELOAD=", "LD_AUDIT=", "OMPI_", "PMIX_", "PMI_", "PRTE_", "SLURM_",
                                           "MPI", "HYDRA_", "XYLEM_"});
}

std::string helper_path(const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  const std::string installed = XYLEM_PKGLIBEXECDIR "/xylem-probe";
  Dl_info here;
  if (::access(installed.c_str(), X_OK) == 0 || ::dladdr(reinterpret_cast<void*>(&helper_path), &here) == 0 ||
      here.dli_fname == nullptr)
    return installed;
  // Of a tree that was moved, and of one that was built and not installed: from where this code was loaded.
  const std::string file = here.dli_fname;
  const std::string folder = file.substr(0, file.rfind('/') + 1);
  for (const char* place : {"../libexec/xylem/xylem-probe", "../xylem-probe", "xylem-probe"})
    if (!folder.empty() && ::access((folder + place).c_str(), X_OK) == 0) return folder + place;
  return installed;
}

probe_run::probe_run(const probe_order& order, int rank, std::span<const std::uint8_t, 16> device,
                     std::string helper)
    : order_(order),
      rank_(rank),
      program_(std::move(helper)),
      steps_(steps_of(order)),
      hellos_(order.ranks),
      gone_(order.ranks),
      answers_(steps_.size(), std::vector<probe_answer>(order.ranks)) {
  std::copy(device.begin(), device.end(), device_);
}

template <class Question, class Answer>
result probe_run::ask(const Question& question, Answer& answer, std::uint32_t ms) {
  const deadline until = deadline::in_ms(ms);
  XYL_TRY(send_message(child_.socket(), &question, sizeof question, -1, until));
  std::size_t length = 0;
  unique_fd passed;
  XYL_TRY(receive_message(child_.socket(), &answer, sizeof answer, length, passed, until));
  if (length == 0) return error(xylRemoteError, "xylem-probe has ended");
  if (length != sizeof answer) return error(xylSystemError, "xylem-probe answers %zu bytes", length);
  return {};
}

void probe_run::give_up(const std::string& why) {
  child_.kill();
  why_ = why;
}

probe_hello probe_run::start() {
  auto hello = blank<probe_hello>();
  result ready = child_process::start(program_, {}, helper_environment(::environ), child_);
  if (ready.ok()) {
    auto about = blank<probe_setup>();
    about.magic = probe_magic;
    about.version = probe_version;
    about.ranks = order_.ranks;
    about.rank = static_cast<std::uint32_t>(rank_);
    about.on_host = order_.on_host;
    std::copy(std::begin(device_), std::end(device_), about.device);
    about.seed = order_.seed;
    about.step_ms = order_.step_ms;
    about.round_trips = std::max(order_.round_trips, 1u);
    ready = ask(about, hello, order_.start_ms);
    if (ready.ok() && hello.version != probe_version)
      ready = error(xylSystemError, "%s speaks version %u of the protocol, this library %u", program_.c_str(),
                    hello.version, probe_version);
    if (ready.ok() && hello.state != number_of(probe_state::done))
      ready = error(xylSystemError, "%s", text_in(hello.text).c_str());
  }
  if (ready.ok()) return hello;
  hello.state = number_of(probe_state::failed);
  put_text(hello.text, ready.text());
  give_up(ready.text());
  return hello;
}

void probe_run::meet() {
  if (!child_.running()) return;
  auto peers = blank<probe_peers>();
  for (std::size_t r = 0; r < hellos_.size(); ++r) {
    peers.present[r] = gone_[r] == 0;
    peers.handle[r] = hellos_[r].handle;
  }
  probe_answer opened;
  if (result met = ask(peers, opened, order_.start_ms); !met.ok()) return give_up(met.text());
  refusal_ = text_in(opened.text);
}

probe_answer probe_run::part(const probe_step& step, std::uint32_t number) {
  auto a = blank<probe_answer>();
  a.number = number;
  if (order_.acts[rank_] == 0) return a;
  if (!child_.running()) {
    a.state = number_of(probe_state::gone);
    put_text(a.text, why_);
    return a;
  }
  const int peer = step.peer_of(rank_);
  if (peer == probe_step::no_part || (peer >= 0 && gone_[static_cast<std::size_t>(peer)] != 0)) return a;
  auto c = blank<probe_command>();
  c.kind = static_cast<std::uint32_t>(step.kind);
  c.number = number;
  c.peer = peer;
  c.is_first = !step.active.empty() && step.active.front().from == rank_;
  c.duration_us = step.duration_us;
  c.node = step.node;
  std::copy(gone_.begin(), gone_.end(), c.skipped);
  probe_answer got;
  result asked = ask(c, got, order_.step_ms);
  if (asked.ok() && got.number != number) asked = error(xylSystemError, "its answer is to another question");
  if (!asked.ok()) {
    give_up(format_text("xylem-probe, in the step \"%s\": %s", name_of(step.kind), asked.text().c_str()));
    a.state = number_of(probe_state::gone);
    put_text(a.text, why_);
    return a;
  }
  // What could not be opened is known since then; here is where it is told.
  if (!refusal_.empty() && got.text[0] == '\0') put_text(got.text, refusal_);
  if (hangs(got)) give_up("an access of this GPU to another one's memory never ended");
  return got;
}

result probe_run::run(const probe_exchange& exchange) {
  auto hello = blank<probe_hello>();
  try {
    if (order_.acts[rank_] != 0) hello = start();
  } catch (const std::bad_alloc&) {
    hello.state = number_of(probe_state::failed);
    child_.kill();
  }
  XYL_TRY(exchange(&hello, hellos_.data(), sizeof hello));
  for (std::size_t r = 0; r < hellos_.size(); ++r) gone_[r] = hellos_[r].state != number_of(probe_state::done);
  try {
    meet();
  } catch (const std::bad_alloc&) {
    child_.kill();
  }
  for (std::uint32_t s = 0; s < steps_.size(); ++s) {
    auto answer = blank<probe_answer>();
    try {
      answer = part(steps_[s], s + 1);
    } catch (const std::bad_alloc&) {
      child_.kill();
      answer.state = number_of(probe_state::gone);
    }
    std::vector<probe_answer>& all = answers_[s];
    XYL_TRY(exchange(&answer, all.data(), sizeof answer));
    for (std::size_t r = 0; r < all.size(); ++r)
      if (hangs(all[r]) || all[r].state == number_of(probe_state::gone)) gone_[r] = 1;
  }
  child_.finish(deadline::in_ms(end_ms));
  return {};
}

}  // namespace xyl
