// SPDX-License-Identifier: BSD-3-Clause
//
// The service thread: one per process, started by the first communicator that needs it and joined by the last. It
// listens for peers, lets in those that know a client's secret, and watches their sockets and processes. It never
// waits for a peer; whoever connects and does not prove itself within a second, or says anything wrong, is dropped,
// and a flood of such connections pushes out its own oldest. All signals are blocked in it. A forked child has no
// such thread: it may neither use the parent's service nor end it.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "peer/handshake.hpp"

namespace xyl {

// One communicator's rank. Its functions run on the service thread, which holds the service's lock: they must not
// block and must not call the service. After service::remove() none is running or will run.
class service_client {
 public:
  // Is this hello for us, and right? Then what to answer, with which descriptor.
  virtual bool welcome(const message& hello, message& answer, int& memory) = 0;
  // The second message of a peer that was let in. False: it is wrong.
  virtual bool received(int peer, const message& m, unique_fd memory) = 0;
  // That message came, but this process could not take what it carried.
  virtual void untaken(int peer, const std::string& why) = 0;
  // The peer's socket or process has ended; everything watched for that peer is closed.
  virtual void ended(int peer) noexcept = 0;

 protected:
  ~service_client() = default;
};

class service {
 public:
  static result acquire(std::shared_ptr<service>& out);
  // Whether this process may have one: not if it was forked from a process that had one.
  static result allowed();
  ~service();
  service(const service&) = delete;

  const std::string& socket_name() const { return name_; }

  void add(service_client* client);
  // Closes every socket of the client, so that the peers notice even if a forked child has copies of them.
  void remove(service_client* client);
  void watch_socket(service_client* client, int peer, unique_fd socket);
  void watch_process(service_client* client, int peer, unique_fd process);

 private:
  enum class role { stranger, peer, process };
  struct watched {
    std::uint64_t id;
    role what;
    unique_fd fd;
    service_client* client;
    int peer;
    deadline patience;  // of a stranger
  };

  service() = default;
  result start();
  void run();
  bool turn();
  void add_watched(role what, unique_fd fd, service_client* client, int peer, deadline patience);
  void let_in();
  void handle(std::uint64_t id);
  bool greet(watched& one);
  bool listen_to(watched& one);
  void end_of(service_client* client, int peer);
  void drop_strangers();
  void wake() const;

  pthread_t thread_{};
  bool running_ = false;
  std::string name_;
  unique_fd listener_;
  unique_fd bell_;  // eventfd: the lists have changed, or stop

  std::mutex guard_;  // of everything below
  bool stopping_ = false;
  std::uint64_t last_id_ = 0;
  std::vector<service_client*> clients_;
  std::vector<watched> watched_;
  deadline listener_rests_ = deadline::in_ns(0);
};

}  // namespace xyl
