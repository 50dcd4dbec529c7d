// SPDX-License-Identifier: BSD-3-Clause
//
// Every family of kernels in one process and in one stream, small enough for compute-sanitizer:
//
//   compute-sanitizer --tool memcheck tests/sanitized_test
//   compute-sanitizer --tool racecheck tests/sanitized_test
//
// A tool may run kernels one after the other, so nothing here waits for another launch: rank 0 of two is real, and
// what the other one would have written (headers, packets, flags, bulk data) is planted in rank 0's workspace
// before each call. It gives 256 everywhere and rank 0 gives 1, which in bfloat16 add up to 256, so that shares of
// results may come from either. Covered: every allreduce, reduce, movement, pull, transfer, fused form (with teams
// of two blocks, as lines and as clusters), joint launches, scaling and norms, with odd tails. Not covered: copies'
// steps, self-tests of sync paths, the probe, rows in slices (four ranks'). Exit 77 without a GPU, 1 with a failure.
#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <vector>

#include "comm/fused_shape.hpp"
#include "exec/device_side.hpp"
#include "proto/element.hpp"
#include "proto/turn.hpp"
#include "tests/gpu/must.hpp"

namespace xyl::gpu_test {
namespace {

constexpr int ranks = 2;
constexpr unsigned blocks = 2, hidden = 1024, rows = 4;
constexpr std::uint64_t elements = rows * hidden;
constexpr std::int64_t deadline_ns = 300'000'000'000;

bfloat16 rounded(float x) { return element_traits<bfloat16>::encode(x); }
const bfloat16 planted = rounded(256);

// A device side, and the page in which its kernels say what went wrong.
struct real_side {
  explicit real_side(const layout& map) {
    void* const page = ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(page != MAP_FAILED, "mmap");
    control = static_cast<control_block*>(page);
    must(device_side::create(device_side::current_device(), map, static_cast<std::byte*>(page), page_bytes,
                             deadline_ns, false, side),
         "create");
  }
  ~real_side() {
    side.reset();
    ::munmap(control, page_bytes);
  }
  real_side(const real_side&) = delete;

  static constexpr std::size_t page_bytes = 4096;
  control_block* control = nullptr;
  std::unique_ptr<device_side> side;
};

struct memory {
  memory() { must(cudaMalloc(&data, elements * sizeof(bfloat16)), "cudaMalloc"); }
  ~memory() { (void)cudaFree(data); }
  memory(const memory&) = delete;
  std::byte* get() const { return static_cast<std::byte*>(data); }
  void fill(float value) const {
    const std::vector<bfloat16> all(elements, rounded(value));
    must(cudaMemcpy(data, all.data(), elements * sizeof(bfloat16), cudaMemcpyHostToDevice), "copy in");
  }

  void* data = nullptr;
};

class lone_rank {
 public:
  lone_rank() {
    const device_handle handles[] = {rank_[0].side->handle(), rank_[1].side->handle()};
    must(side().connect(handles, 0), "connect");
    must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    input_.fill(1);
    weight_.fill(1);
    peer_.fill(256);
  }
  ~lone_rank() {
    must(side().drain(), "drain");
    side().disconnect();
    (void)cudaStreamDestroy(stream_);
  }

  void run() {
    for (const algorithm how :
         {algorithm::packet, algorithm::two_shot_packet, algorithm::one_shot, algorithm::two_shot, algorithm::ring})
      all_reduce({how, blocks});
    for (const bool pulls : {false, true}) all_reduce({algorithm::two_shot, blocks, {}, nullptr, false, 48, pulls});
    for (const reduce_form form : {reduce_form::packet, reduce_form::direct, reduce_form::two_phase}) reduce(form);
    for (const move_form form : {move_form::packet, move_form::direct, move_form::pull, move_form::spread})
      move(form);
    for (const bool is_long : {false, true}) transfers(is_long);
    for (const bool sums : {false, true}) swaps(sums);
    for (const pull_form form : {pull_form::one_shot, pull_form::two_shot, pull_form::gathered}) pull(form);
    pull_move();
    for (const fused_form form :
         {fused_form::packet, fused_form::two_shot_packet, fused_form::one_shot, fused_form::two_shot})
      for (const unsigned split : {1u, 2u})
        for (const bool clusters : {false, true}) fused(form, split, clusters);
    joint();
    scale();
    norms();
  }

 private:
  static layout small() { return layout::make(ranks, 4, 64 << 10, 256 << 10, 256 << 10); }
  device_side& side() { return *rank_[0].side; }
  std::byte* workspace(int p) {
    return side().scratch_of(p) - side().map().scratch_offset(static_cast<unsigned>(p));
  }

  static call_record record_of(collective what, std::uint64_t count) {
    call_record record;
    record.what = what;
    record.type = xylBfloat16;
    record.operation = xylSum;
    record.device = 1;
    record.count = count;
    return record;
  }
  static line line_of(std::uint64_t data, std::uint64_t tag) {
    const std::uint64_t high = (tag & 0xffffffffu) << 32;
    return {{high | (data & 0xffffffffu), high | data >> 32}};
  }

  // What the other rank would have written for the next call, and for the next message.
  void plant(const call_record& record) {
    const layout& map = side().map();
    std::vector<std::byte> image(map.copies);
    must(cudaMemcpy(image.data(), workspace(0), image.size(), cudaMemcpyDeviceToHost), "copy out");
    const auto put = [&](std::uint64_t offset, const auto& what) {
      std::memcpy(&image[offset], &what, sizeof what);
    };
    control_block control;
    std::memcpy(&control, image.data(), sizeof control);
    const epoch_t epoch = turn::epoch(control.call.turn);
    constexpr epoch_t every_epoch = epoch_t{1} << 60;
    // Of all sources: a ring has two steps for each, and what this rank's own say is of no interest.
    for (std::uint64_t at = sizeof(control_block); at < map.counters; at += sizeof(flag)) put(at, every_epoch);
    const unsigned slot = layout::slot(epoch);
    std::uint64_t four = 0;
    for (int i = 0; i < 4; ++i) four = four << 16 | planted.bits;
    put(map.header_offset(slot, 1), line_of(fingerprint(record), epoch));
    for (std::uint64_t unit = 0; unit < map.packet_capacity() / 8; ++unit)
      put(map.packet_offset(slot, 1, unit), line_of(four, epoch));
    for (std::uint64_t at = map.bulk; at < map.messages; at += sizeof four) put(at, four);
    // Messages: each block's next chunks, and the header of a block without a ring.
    for (unsigned block = 0; block < map.blocks; ++block) {
      std::uint64_t number = 0;
      std::memcpy(&number, &image[map.received_offset(1, block)], sizeof number);
      put(map.long_header_offset(1, block), line_of(fingerprint(record), number + 1));
      if (block >= map.pair_blocks) continue;
      for (unsigned k = 1; k <= map.pair_slots; ++k) {
        const std::uint64_t chunk = map.message_offset(1, block, number + k);
        put(chunk, line_of(fingerprint(record), number + k));
        for (std::uint64_t at = 0; at < map.pair_chunk; at += sizeof four)
          put(chunk + layout::header_bytes + at, four);
      }
    }
    must(cudaMemcpy(workspace(0), image.data(), image.size(), cudaMemcpyHostToDevice), "copy in");
    for (const memory* m : {&output_, &sums_}) m->fill(-1);
  }

  void expect_all(const char* family, int number, const std::byte* at, std::uint64_t count, float value) {
    must(cudaStreamSynchronize(stream_), family);
    std::vector<bfloat16> got(count);
    must(cudaMemcpy(got.data(), at, count * sizeof(bfloat16), cudaMemcpyDeviceToHost), "copy out");
    std::uint64_t wrong = 0, where = 0;
    for (std::uint64_t i = 0; i < count; ++i)
      if (got[i].bits != rounded(value).bits && wrong++ == 0) where = i;
    expect(wrong == 0, "%s %d: %llu of %llu are not %g, from %llu on, where it is %g", family, number,
           static_cast<unsigned long long>(wrong), static_cast<unsigned long long>(count),
           static_cast<double>(value), static_cast<unsigned long long>(where),
           wrong ? static_cast<double>(element_traits<bfloat16>::decode(got[where])) : 0.0);
    const give_up_record& record = rank_[0].control->gave_up.record;
    expect(record.state == 0, "%s %d: gave up in phase %u, wanted %llu, saw %llu", family, number,
           static_cast<unsigned>(record.waited_in), static_cast<unsigned long long>(record.wanted),
           static_cast<unsigned long long>(record.seen));
    std::printf("%s %d\n", family, number);
  }

  void all_reduce(const device_launch& how) {
    const std::uint64_t count = elements - 3;
    const call_record record = record_of(collective::all_reduce, count);
    plant(record);
    if (how.pulls) copy_bulk();
    must(side().all_reduce(how, input_.get(), output_.get(), count, record, stream_), "all_reduce");
    expect_all(name_of(how.how), how.step_units != 0, output_.get(), count, 256);
  }

  // What rank 0 was planted with is also what it finds when it fetches.
  void copy_bulk() {
    const std::uint64_t from = side().map().bulk, bytes = side().map().messages - from;
    must(cudaMemcpy(workspace(1) + from, workspace(0) + from, bytes, cudaMemcpyDeviceToDevice), "copy");
  }

  void reduce(reduce_form form) {
    const std::uint64_t count = elements - 3;
    const call_record record = record_of(collective::reduce, count);
    plant(record);
    must(side().reduce({form, blocks, {0, 0}}, input_.get(), output_.get(), count, record, stream_), "reduce");
    expect_all("reduce", static_cast<int>(form), output_.get(), count, 256);
  }

  // A broadcast from the other rank, and an allgather. What is pulled lies in that one's workspace.
  void move(move_form form) {
    const std::uint64_t count = elements / 2 - 3;
    movement how;
    how.bytes = count * sizeof(bfloat16);
    if (form == move_form::spread)
      how.from = 1;
    else
      how.output_stride = how.bytes;
    const call_record record =
        record_of(form == move_form::spread ? collective::broadcast : collective::all_gather, count);
    plant(record);
    if (form == move_form::pull) copy_bulk();
    must(side().move({form, blocks, how}, input_.get(), output_.get(), record, stream_), "move");
    const std::byte* const theirs = output_.get() + how.output_stride;
    if (form != move_form::spread)
      expect_all("own piece of movement", static_cast<int>(form), output_.get(), count, 1);
    expect_all("movement", static_cast<int>(form), theirs, count, 256);
  }

  void transfers(bool is_long) {
    const std::uint64_t count = elements - 3;
    const call_record record = record_of(collective::send, count);
    transfer both[2];
    for (transfer& t : both) {
      t.bytes = count * sizeof(bfloat16);
      t.fingerprint = fingerprint(record);
      t.peer = 1;
      t.blocks = 2;
      if (is_long) t.slot_bytes = 512;
    }
    both[0].sends = true;
    both[0].from = input_.get();
    both[1].to = output_.get();
    both[1].first_block = 2;
    plant(record);
    must(side().run_transfers(both, 4, record, stream_), "run_transfers");
    expect_all("transfer", is_long, output_.get(), count, 256);
  }

  // Two blocks that send and receive, more chunks than slots.
  void swaps(bool sums) {
    const std::uint64_t count = elements - 3;
    const call_record record = record_of(sums ? collective::all_reduce : collective::all_gather, count);
    device_swap how;
    how.sums = sums;
    transfer& out = how.both.out;
    out.from = input_.get();
    out.bytes = count * sizeof(bfloat16);
    out.fingerprint = fingerprint(record);
    out.peer = 1;
    out.sends = true;
    out.blocks = 2;
    out.slot_bytes = 512;
    how.both.in = out;
    how.both.in.sends = false;
    how.both.in.to = output_.get();
    how.own = input_.get(), how.own_to = sums_.get();
    plant(record);
    must(side().swap(how, input_.get(), output_.get(), count, record, stream_), "swap");
    expect_all("swap", sums, output_.get(), count, 256);
    if (!sums) expect_all("own part of a swap", 0, sums_.get(), count, 1);
  }

  pull_call<device_capacity> pull_from_all(collective what, std::uint64_t count) {
    pull_call<device_capacity> c;
    c.record = record_of(what, count);
    c.count = count;
    c.input = c.input_of[0] = input_.get();
    c.input_of[1] = peer_.get();
    c.output = c.output_of[0] = output_.get();
    c.output_of[1] = sums_.get();
    c.inputs_aligned = c.outputs_aligned = true;
    return c;
  }

  // Results of the other rank's share come from its workspace, or are never written: then this rank's are checked.
  void pull(pull_form form) {
    const std::uint64_t count = elements - 3;
    const auto c = pull_from_all(collective::all_reduce, count);
    plant(c.record);
    copy_bulk();
    must(side().pull_reduce(form, blocks, c, stream_), "pull_reduce");
    expect_all("pull", static_cast<int>(form), output_.get(), form == pull_form::two_shot ? elements / 2 : count,
               256);
  }

  void pull_move() {
    const std::uint64_t count = elements / 2 - 3;
    const auto c = pull_from_all(collective::all_gather, count);
    movement how;
    how.bytes = how.output_stride = count * sizeof(bfloat16);
    plant(c.record);
    must(side().pull_move(window_use::inputs, blocks, how, c, stream_), "pull_move");
    expect_all("pulling movement", 0, output_.get() + how.bytes, count, 256);
  }

  void fused(fused_form form, unsigned split, bool clusters) {
    if (clusters && (split == 1 || side().handle().max_clustered_blocks[static_cast<int>(form)] == 0)) return;
    fused_work w = norm_of(input_);
    w.residual_out = sums_.get();
    w.share = (rows + 1) / ranks;
    w.rows = static_cast<std::uint32_t>(uses_shares(form) ? w.share : rows);
    w.choose_wire();
    w.spread((uses_packets(form) ? 8 : 16) / sizeof(bfloat16), split);
    w.is_clustered = w.split > 1 && clusters;
    call_record record = record_of(collective::fused_all_reduce, rows);
    record.operation = static_cast<std::uint8_t>(w.pattern);
    plant(record);
    const unsigned lanes = split == 1 && uses_packets(form) ? 256 : 128;
    must(side().fused({form, w.split, lanes}, w, record, stream_), "fused");
    const int number = static_cast<int>(form) * 10 + static_cast<int>(split) + clusters;
    expect_all("fused sums", number, sums_.get(), elements, 256);
    // Two-shot packets bring rows finished by their owners, and what the other one owns is 256, whatever it is.
    const std::uint64_t own = form == fused_form::two_shot_packet ? elements / ranks : elements;
    expect_all("fused norms", number, output_.get(), own, 1);
    expect_all("fused norms of the other rank", number, output_.get() + own * sizeof(bfloat16), elements - own,
               256);
  }

  fused_work norm_of(const memory& input, unsigned width = hidden) const {
    fused_work w;
    w.pattern = fused_pattern::norm;
    w.input = input.get();
    w.weight = weight_.get();
    w.output = output_.get();
    w.tokens = elements / width, w.hidden = width;
    w.inverse_hidden = 1.0f / static_cast<float>(width), w.eps = 1e-6f;
    return w;
  }

  void joint() {
    joint_reduction<device_capacity> what;
    what.ranks = ranks;
    what.count = elements - 3;
    what.input[0] = input_.get();
    what.input[1] = peer_.get();
    what.output[0] = output_.get();
    what.output[1] = sums_.get();
    what.inputs_aligned = what.outputs_aligned = true;
    for (const memory* m : {&output_, &sums_}) m->fill(-1);
    must(side().reduce_jointly(what, xylBfloat16, xylSum, 1, stream_), "reduce_jointly");
    expect_all("joint reduction", 0, output_.get(), what.count, 256);
    expect_all("joint reduction", 1, sums_.get(), what.count, 256);
    joint_piece piece;
    piece.from[0] = peer_.get();
    piece.to[0] = output_.get();
    piece.bytes = (elements - 3) * sizeof(bfloat16);
    output_.fill(-1);
    must(side().move_jointly({&piece, 1}, stream_), "move_jointly");
    expect_all("joint movement", 0, output_.get(), elements - 3, 256);
  }

  void scale() {
    device_scale how{};
    how.by.type = xylBfloat16;
    how.by.bits = rounded(3).bits;
    how.pieces = 1;
    how.elements = elements - 3;
    const void* scaled = nullptr;
    must(side().scale(how, input_.get(), stream_, scaled), "scale");
    expect_all("scaling", 0, static_cast<const std::byte*>(scaled), how.elements, 3);
  }

  void norms() {
    // Few rows, and many, which have a kernel of their own.
    for (const unsigned width : {hidden, hidden / 32}) {
      output_.fill(-1);
      must(side().fused_rows(norm_of(peer_, width), xylBfloat16, stream_), "fused_rows");
      expect_all("norms", static_cast<int>(width), output_.get(), elements, 1);
    }
  }

  real_side rank_[ranks] = {real_side(small()), real_side(small())};
  const memory input_, weight_, peer_, output_, sums_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace
}  // namespace xyl::gpu_test

int main() {
  using namespace xyl::gpu_test;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("SKIP: no GPU here\n");
    return 77;
  }
  scene = "alone";
  lone_rank().run();
  std::printf("%d checks, %d failures\n", checks, failures);
  return failures != 0;
}
