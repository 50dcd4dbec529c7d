// SPDX-License-Identifier: BSD-3-Clause
//
// xylem-probe with a fault planted in the links of one rank: FAULTY_PROBE=FAULT:FROM[:TO]. What a
// machine does wrong is done here by the helper, so that everything behind it can be tested without such a machine.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "probe/helper.hpp"

namespace xyl::probe {
namespace {

struct fault {
  std::string what;  // dropped, wrong, silent, stuck, slow, dies, refused
  int from = -1;
  int to = -1;
};

fault read_fault() {
  const char* const text = std::getenv("FAULTY_PROBE");
  if (text == nullptr) return {};
  char what[32] = {};
  fault f;
  if (std::sscanf(text, "%31[a-z]:%d:%d", what, &f.from, &f.to) < 2) std::abort();
  f.what = what;
  return f;
}

class faulty_link final : public link {
 public:
  explicit faulty_link(std::unique_ptr<link> inner) : inner_(std::move(inner)), fault_(read_fault()) {}

  result create(const topo::probe_setup& about, topo::probe_handle& mine) override {
    rank_ = static_cast<int>(about.rank);
    if (here("refused")) return error(xylSystemError, "the device is in exclusive compute mode");
    topo::probe_setup told = about;
    if (here("wrong")) told.seed ^= 0x100;
    return inner_->create(told, mine);
  }
  result open(int peer, const topo::probe_handle& theirs) override { return inner_->open(peer, theirs); }

  result write(std::span<const int> peers, verdicts out) override {
    if (here("stuck")) ::pause();
    if (here("dies")) ::_exit(1);
    std::vector<int> reached;
    for (int p : peers) {
      const bool lost = p == fault_.to && (here("dropped") || here("silent"));
      if (!lost) reached.push_back(p);
      if (lost)
        out[static_cast<std::size_t>(p)] = here("silent") ? topo::probe_verdict::silent : topo::probe_verdict::good;
    }
    return inner_->write(reached, out);
  }
  result verify(std::span<const int> peers, verdicts out) override { return inner_->verify(peers, out); }
  result read(std::span<const int> peers, verdicts out) override { return inner_->read(peers, out); }
  result stream(int peer, bool pull, std::uint32_t duration_us, double& rate) override {
    const result done = inner_->stream(peer, pull, duration_us, rate);
    if (here("slow") && peer == fault_.to) rate /= 1000;
    return done.ok() ? result() : result(done.code(), done.text());
  }
  result hand_over(int peer, bool takes, bool is_first, std::uint32_t step, double& rate) override {
    XYL_TRY(inner_->hand_over(peer, takes, is_first, step, rate));
    if (here("slow") && peer == fault_.to) rate /= 1000;
    return {};
  }
  result flags(int peer, bool is_first, std::uint32_t step, double& one_way_us) override {
    return inner_->flags(peer, is_first, step, one_way_us);
  }
  result host_stream(std::uint32_t node, bool read, std::uint32_t duration_us, double& rate) override {
    return inner_->host_stream(node, read, duration_us, rate);
  }

 private:
  bool here(const char* what) const { return rank_ == fault_.from && fault_.what == what; }

  std::unique_ptr<link> inner_;
  const fault fault_;
  int rank_ = -1;
};

result make_faulty(const topo::probe_setup& about, std::unique_ptr<link>& out) {
  std::unique_ptr<link> good;
  XYL_TRY(make_link(about, good));
  out = std::make_unique<faulty_link>(std::move(good));
  return {};
}

}  // namespace
}  // namespace xyl::probe

int main(int argc, char** argv) { ::_exit(xyl::probe::helper_main(argc, argv, xyl::probe::make_faulty)); }
