// SPDX-License-Identifier: BSD-3-Clause
//
// What a handle stands for: one rank's communicator from the moment its handle is given out, which for nonblocking
// initialisation is before it exists. A thread of the member's own does such work; while it runs, progress() is
// xylInProgress and every call but abort, query of progress and destruction is refused.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "comm/communicator.hpp"
#include "os/interruption.hpp"

namespace xyl {

// xylConfig_t without its history.
struct member_settings {
  bool blocking = true;
  std::string name;  // begins every error text of the communicator
};

class member {
 public:
  using making = std::function<result(const interruption* stop, std::unique_ptr<communicator>& out)>;
  using work = std::function<result()>;

  member() = default;
  explicit member(std::unique_ptr<communicator> made) { ready_ = made_ = std::move(made).release(); }
  // Ends what is under way first: quickly, since it is told to stop.
  ~member();
  member(const member&) = delete;

  member_settings settings;

  // Makes the communicator on the calling thread.
  result make(const making& how);
  // Begins to; `how` stays valid until the member is destroyed.
  result begin_making(making how);
  // Begins other work of the communicator. xylInvalidUsage if some is under way.
  result begin(work what);

  // The communicator; null while it is being made, after that has failed, and while other work is under way.
  // acquire: shows the whole communicator.
  communicator* ready() const { return ready_.load(std::memory_order_acquire); }
  // xylInProgress, xylSuccess, or what the last work failed with; text of that.
  xylResult_t progress() const { return progress_.load(std::memory_order_acquire); }
  std::string text() const;
  // In progress or not; a communicator that is being made is given up.
  void abort();

  // For work that another member's thread does with this communicator: progress() is xylInProgress in between.
  // occupy() fails with xylInvalidUsage if something is under way.
  result occupy();
  void vacate();
  // Keeps the member: its destruction waits until what is returned has gone.
  std::shared_ptr<void> hold();

  // After xylCommFinalize.
  std::atomic<bool> finalized{false};

 private:
  void finish(result r);

  std::atomic<communicator*> ready_{nullptr};
  std::atomic<communicator*> made_{nullptr};  // owned
  std::atomic<xylResult_t> progress_{xylSuccess};
  interruption stop_;
  std::thread worker_;
  mutable std::mutex guard_;  // of text_ and held_, and of who occupies
  std::condition_variable released_;
  int held_ = 0;
  std::string text_;
};

}  // namespace xyl
