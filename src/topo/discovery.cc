// SPDX-License-Identifier: BSD-3-Clause
#include "topo/discovery.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>

#include "os/quiet_thread.hpp"
#include "topo/assembly.hpp"

namespace xyl::topo {

struct discovery::state {
  std::mutex guard;
  std::condition_variable changed;
  bool done = false;
  result outcome;
  std::shared_ptr<const machine_view> view;
};

namespace {

result read_into(const discovery::reader& read, machine_view& out) {
  try {
    return read(out);
  } catch (const std::exception& e) {
    return error(xylSystemError, "%s", e.what());
  }
}

}  // namespace

discovery::discovery(reader read) : state_(std::make_shared<state>()) {
  const auto body = [shared = state_, read = std::move(read)] {
    auto view = std::make_shared<machine_view>();
    result outcome = read_into(read, *view);
    const std::lock_guard lock(shared->guard);
    shared->outcome = std::move(outcome);
    shared->view = std::move(view);
    shared->done = true;
    shared->changed.notify_all();
  };
  std::thread thread;
  // Without a thread there is no deadline.
  if (start_quiet_thread(body, thread).ok())
    thread.detach();
  else
    body();
}

result discovery::wait(std::chrono::milliseconds at_most, std::shared_ptr<const machine_view>& out) const {
  std::unique_lock lock(state_->guard);
  if (!state_->changed.wait_for(lock, at_most, [&] { return state_->done; }))
    return error(xylTimeout, "the machine was not read within %lld ms", static_cast<long long>(at_most.count()));
  if (!state_->outcome.ok()) return result(state_->outcome.code(), state_->outcome.text());
  out = state_->view;
  return {};
}

const discovery& this_machine() {
  // Never destroyed: its thread may outlive the destructors of a process that ends.
  static const discovery* const once = new discovery([](machine_view& out) { return read_machine({}, out); });
  return *once;
}

graph flat_machine(const std::vector<std::optional<pci_address>>& gpus) {
  graph g;
  assembly made(g);
  const vertex_id complex = made.add_root_complex("root complex", made.add_numa_node(std::nullopt));
  for (const std::optional<pci_address>& pci : gpus) {
    const vertex_id gpu = made.add_device(make_vertex(vertex_kind::gpu, "", pci), "GPU");
    g.link(complex, gpu, edge_kind::pcie, {}, {});
  }
  made.finish();
  return g;
}

}  // namespace xyl::topo
