// SPDX-License-Identifier: BSD-3-Clause
//
// Serving a unique id: a thread of the process that made it, at which the ranks meet. It listens until every rank
// has come, passes their exchanges on until they are done, and ends by itself. It needs no rank in its process and
// waits for nobody in particular: who does not prove the secret is dropped after some seconds, and a flood of such
// connections pushes out its own oldest. What cannot become a communicator (two processes with one rank's number,
// different numbers of ranks, a rank that ended or did not come) is told to every rank that has come or still
// comes. All signals are blocked in it; a forked child has none of it. It lives as long as the process if nobody
// comes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "os/private_fd.hpp"
#include "peer/rendezvous_channel.hpp"
#include "peer/rendezvous_id.hpp"

namespace xyl {

// Of one rank's part of an exchange. Larger than any that initialisation has.
inline constexpr std::size_t rendezvous_part_bytes = 64 << 10;
inline constexpr int rendezvous_capacity = 4096;  // ranks
// Between two exchanges ranks have work of their own, however short the timeout of calls is: how much longer than
// that an exchange may take.
inline constexpr std::int64_t rendezvous_work_ns = 5'000'000'000;

class rendezvous_server {
 public:
  // Listens on each address (ports are given by the system) and starts the thread. Addresses on which nobody can
  // listen are left out. warning_ns: after how long a line names the ranks that have not come; 0: never.
  static result start(std::vector<network_address> addresses, std::int64_t warning_ns, rendezvous_id& out);
  // How many ids this process is serving.
  static int running();

 private:
  // A connection: a stranger until its hello has been proven.
  struct guest {
    private_fd socket;
    deadline patience;  // of a stranger
    rendezvous_greeting greeting;
    rendezvous_hello hello;
    std::size_t hello_bytes = 0;
    std::unique_ptr<rendezvous_channel> channel;    // of a rank
    std::optional<std::vector<std::uint8_t>> part;  // of the exchange that is gathering
    bool done = false;                              // said so
    bool told = false;                              // of the failure
    bool ended = false;                             // to be forgotten at the end of the turn
  };

  rendezvous_server() = default;
  void run();
  bool turn();
  int patience_ms() const;
  void let_in(int listener);
  void hear(guest& one);
  void greet(guest& one);
  void welcome(guest& one);
  void take(guest& one, frame_kind kind, std::vector<std::uint8_t> payload);
  void finish_exchange();
  void ended(guest& one);
  void fail(result why);
  void tell(guest& one);
  void forget_ended();
  void drop_late();
  void warn_of_missing();
  void stop_listening();
  bool over() const;
  std::string name_of(const guest& one) const;
  std::string missing() const;
  std::string why_missing() const;
  guest* rank(int number);

  rendezvous_id id_;
  std::vector<private_fd> listeners_;
  std::vector<std::unique_ptr<guest>> guests_;
  deadline listeners_rest_ = deadline::in_ns(0);
  result not_let_in_;   // why the last who came could not be let in
  int ranks_ = 0;       // unknown until the first has come
  int most_ranks_ = 0;  // where they differ: as many may still come to learn that
  int arrived_ = 0;
  int first_ = -1;         // which came first
  bool complete_ = false;  // all have come
  std::int64_t warning_ns_ = 0;
  std::int64_t began_ns_ = 0;  // when the first came
  bool warned_ = false;
  std::int64_t least_timeout_ns_ = INT64_MAX;   // from began_ns_, until all have come
  std::int64_t exchange_limit_ns_ = INT64_MAX;  // of an exchange, from its first part
  bool gathering_ = false;                      // some have brought their parts
  std::int64_t gathering_since_ns_ = 0;
  std::vector<bool> came_;
  result failure_;
  int told_ = 0;
  deadline tells_until_;  // after a failure
};

}  // namespace xyl
