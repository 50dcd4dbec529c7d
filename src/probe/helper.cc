// SPDX-License-Identifier: BSD-3-Clause
#include "probe/helper.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "os/local_socket.hpp"

namespace xyl::probe {
namespace {

using namespace topo;

// false: the other side has closed, or `status` says what is wrong.
template <class Message>
bool receive(int socket, Message& out, result& status) {
  std::size_t length = 0;
  unique_fd passed;
  status = receive_message(socket, &out, sizeof out, length, passed, deadline());
  if (!status.ok() || length == 0) return false;
  if (length == sizeof out) return true;
  status = error(xylInvalidUsage, "a message of %zu bytes where %zu are expected", length, sizeof out);
  return false;
}

template <class Message>
result send(int socket, const Message& m) {
  return send_message(socket, &m, sizeof m, -1, deadline::in_ms(10'000));
}

probe_answer answer_to(std::uint32_t number) {
  probe_answer a;
  std::memset(&a, 0, sizeof a);
  a.number = number;
  a.state = static_cast<std::uint32_t>(probe_state::done);
  return a;
}

void fail(probe_answer& a, const std::string& why) {
  a.state = static_cast<std::uint32_t>(probe_state::failed);
  put_text(a.text, why);
}

class worker {
 public:
  worker(link& l, const probe_setup& about, const probe_peers& peers) : link_(l), about_(about) {
    for (std::uint32_t p = 0; p < about.ranks; ++p) {
      if (p == about.rank || !peers.present[p]) continue;
      if (result opened = l.open(static_cast<int>(p), peers.handle[p]); opened.ok())
        open_[p] = true;
      else
        refused_[p] = opened.text();
    }
  }

  probe_answer do_step(const probe_command& c) {
    probe_answer a = answer_to(c.number);
    std::array<probe_verdict, probe_most_ranks> found{};
    const result done = run(c, found, a.value);
    for (std::size_t p = 0; p < found.size(); ++p) a.verdict[p] = static_cast<std::uint8_t>(found[p]);
    if (!done.ok()) fail(a, done.text());
    // Of what never ended the verdicts tell more than the error does.
    for (probe_verdict v : found)
      if (v == probe_verdict::silent) a.state = static_cast<std::uint32_t>(probe_state::done);
    return a;
  }

  // The first that could not be opened, in words.
  std::string refusal() const {
    for (std::uint32_t p = 0; p < about_.ranks; ++p)
      if (!refused_[p].empty()) return "the memory of rank " + std::to_string(p) + ": " + refused_[p];
    return {};
  }

 private:
  result run(const probe_command& c, verdicts found, double& value) {
    const auto kind = static_cast<probe_kind>(c.kind);
    const bool to_all = kind == probe_kind::write || kind == probe_kind::verify || kind == probe_kind::read;
    if (to_all) {
      std::vector<int> peers;
      for (std::uint32_t p = 0; p < about_.ranks; ++p) {
        if (p == about_.rank || c.skipped[p]) continue;
        if (open_[p] || kind == probe_kind::verify)
          peers.push_back(static_cast<int>(p));
        else
          found[p] = probe_verdict::unreachable;
      }
      if (kind == probe_kind::write) return link_.write(peers, found);
      return kind == probe_kind::verify ? link_.verify(peers, found) : link_.read(peers, found);
    }
    if (c.duration_us > 1'000'000) return error(xylInvalidUsage, "a step of %u us", c.duration_us);
    if (kind == probe_kind::host_write || kind == probe_kind::host_read)
      return link_.host_stream(c.node, kind == probe_kind::host_read, c.duration_us, value);
    if (c.peer < 0 || c.peer >= static_cast<int>(about_.ranks) || !open_[static_cast<std::size_t>(c.peer)])
      return error(xylInvalidUsage, "rank %d is not open", c.peer);
    if (kind == probe_kind::push || kind == probe_kind::pull)
      return link_.stream(c.peer, kind == probe_kind::pull, c.duration_us, value);
    if (kind == probe_kind::hand_over || kind == probe_kind::take_over)
      return link_.hand_over(c.peer, kind == probe_kind::take_over, c.is_first != 0, c.number, value);
    if (kind == probe_kind::flags) return link_.flags(c.peer, c.is_first != 0, c.number, value);
    return error(xylInvalidUsage, "step of kind %u", c.kind);
  }

  link& link_;
  const probe_setup about_;
  std::array<bool, probe_most_ranks> open_{};
  std::array<std::string, probe_most_ranks> refused_;
};

result check(const probe_setup& about) {
  if (about.magic != probe_magic) return error(xylInvalidUsage, "what came is no setup of a probe");
  if (about.version != probe_version)
    return error(xylInvalidUsage, "the library speaks version %u of the probe's protocol, this program %u",
                 about.version, probe_version);
  if (about.ranks > probe_most_ranks || about.rank >= about.ranks || about.step_ms > 60'000 ||
      about.round_trips > 100'000 || about.round_trips == 0)
    return error(xylInvalidUsage, "rank %u of %u cannot be probed", about.rank, about.ranks);
  return {};
}

// Descriptors of the program that started us, which may not be close-on-exec.
void close_others() {
#ifdef SYS_close_range
  ::syscall(SYS_close_range, 3u, ~0u, 0u);
#endif
}

}  // namespace

result link::hand_over(int, bool, bool, std::uint32_t, double&) {
  return error(xylInvalidUsage, "ranks take turns on host memory only");
}

result make_link(const probe_setup& about, std::unique_ptr<link>& out) {
  if (about.on_host == 0) return make_device_link(out);
  out = make_host_link();
  return {};
}

result run_helper(int socket, const link_maker& make) {
  result status;
  probe_setup about;
  if (!receive(socket, about, status)) return status;
  XYL_TRY(check(about));
  std::unique_ptr<link> made;
  probe_hello hello;
  std::memset(&hello, 0, sizeof hello);
  hello.version = probe_version;
  result ready = make(about, made);
  if (ready.ok()) ready = made->create(about, hello.handle);
  hello.state = static_cast<std::uint32_t>(ready.ok() ? probe_state::done : probe_state::failed);
  put_text(hello.text, ready.text());
  XYL_TRY(send(socket, hello));
  if (!ready.ok()) return ready;

  probe_peers peers;
  if (!receive(socket, peers, status)) return status;
  worker w(*made, about, peers);
  probe_answer opened = answer_to(0);
  put_text(opened.text, w.refusal());
  XYL_TRY(send(socket, opened));
  probe_command command;
  while (receive(socket, command, status)) XYL_TRY(send(socket, w.do_step(command)));
  return status;
}

int helper_main(int argc, char** argv, const link_maker& make) {
  const std::string_view option = argc > 1 ? argv[1] : "";
  if (option == "--version") {
    std::printf("xylem-probe %d.%d.%d\n", XYL_MAJOR, XYL_MINOR, XYL_PATCH);
    return 0;
  }
  if (argc > 1) {
    std::fprintf(
        option == "--help" ? stdout : stderr,
        "xylem-probe proves and measures links between GPUs for libxylem, which starts it; there is nothing "
        "to run by hand. See XYLEM_PROBE in xylem(7).\n");
    return option == "--help" ? 0 : 2;
  }
  close_others();
  const result r = run_helper(STDIN_FILENO, make);
  if (r.ok()) return 0;
  // A rank that has gone meanwhile needs no words; what a person did wrong does.
  if (r.code() == xylInvalidUsage || r.code() == xylSystemError)
    std::fprintf(stderr, "xylem-probe: %s\n", r.text().c_str());
  return 1;
}

}  // namespace xyl::probe
