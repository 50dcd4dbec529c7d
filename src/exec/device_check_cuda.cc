// SPDX-License-Identifier: BSD-3-Clause
#include <cstring>
#include <vector>

#include "exec/cuda_error.hpp"
#include "exec/device_check.hpp"
#include "kernels/fused_limits.hpp"
#include "proto/element.hpp"

namespace xyl {
namespace {

// Two rows, or as many elements; a few fewer where a tail is possible.
constexpr unsigned hidden = 1024;
constexpr std::uint64_t rows = 2, elements = rows * hidden;

// Device memory, and the communicator's own stream: with one more for every rank of a process, some would share a
// hardware queue, where one rank's kernel waits for another's behind it.
class scratch {
 public:
  scratch() = default;
  scratch(const scratch&) = delete;
  void destroy() {
    if (memory) (void)cudaFree(memory);
    memory = nullptr;
  }
  result create(std::size_t bytes) {
    void* allocated = nullptr;
    XYL_TRY(cuda_result(cudaMalloc(&allocated, bytes), "cudaMalloc for the check of the kernels"));
    memory = static_cast<std::byte*>(allocated);
    return {};
  }
  std::byte* memory = nullptr;
  cudaStream_t stream = nullptr;
};

using row_type = std::vector<bfloat16>;

bfloat16 rounded(float x) { return element_traits<bfloat16>::encode(x); }

class cuda_kernel_check final : public kernel_check {
 public:
  cuda_kernel_check(device_side& side, int rank, int ranks) : side_(side), rank_(rank), ranks_(ranks) {}
  ~cuda_kernel_check() override {
    const device_scope scope(side_.handle().ordinal);
    scratch_.destroy();
  }

  result allocate() {
    const device_scope scope(side_.handle().ordinal);
    XYL_TRY(scope.status());
    scratch_.stream = side_.own_stream();
    return scratch_.create(4 * bytes);
  }

  result run(std::span<const unsigned, device_fused_forms> fused_blocks, bool clusters, bool copies) override {
    const device_scope scope(side_.handle().ordinal);
    XYL_TRY(scope.status());
    // Every rank gives its number plus one: small integers, whose sum is exact in fp32.
    XYL_TRY(fill(input(), rounded(static_cast<float>(rank_ + 1))));
    XYL_TRY(fill(weight(), rounded(1.0f)));
    for (const algorithm how : {algorithm::packet, algorithm::one_shot, algorithm::two_shot, algorithm::ring})
      XYL_TRY(bare(how));
    if (const auto lines = side_.in_use().lines(); lines && ranks_ > 1) XYL_TRY(bare(*lines));
    if (ranks_ > 1) {
      for (const reduce_form how : {reduce_form::packet, reduce_form::direct, reduce_form::two_phase})
        XYL_TRY(reduce(how));
      for (const move_form how : {move_form::packet, move_form::direct}) XYL_TRY(all_gather(how));
      if (ranks_ > 2) XYL_TRY(spread());
      for (const bool is_long : {false, true}) XYL_TRY(transfers(is_long));
      for (const bool sums : {false, true})
        if (side_.can_swap(xylBfloat16, sums)) XYL_TRY(swaps(sums));
      XYL_TRY(pulls());
      if (copies && side_.can_copy()) XYL_TRY(copied());
    }
    XYL_TRY(scale());
    XYL_TRY(joint());
    XYL_TRY(norms());
    for (std::size_t f = 0; f < device_fused_forms; ++f) {
      const auto form = static_cast<fused_form>(f);
      const unsigned blocks = fused_blocks[f];
      if (blocks >= 1) XYL_TRY(fused(form, 1, false));
      // Two blocks to a row, in the way that calls will use; team lines have room for the rows of so many ranks.
      if (blocks >= 2 && form != fused_form::two_shot_slices &&
          (clusters || ranks_ <= static_cast<int>(layout::team_rows)))
        XYL_TRY(fused(form, 2, clusters));
    }
    return {};
  }

 private:
  static constexpr std::size_t bytes = elements * sizeof(bfloat16);
  static constexpr std::uint32_t long_slot_bytes = 512;
  static_assert(bytes > layout::long_slots * long_slot_bytes);
  std::byte* input() const { return scratch_.memory; }
  std::byte* weight() const { return scratch_.memory + bytes; }
  std::byte* first_output() const { return scratch_.memory + 2 * bytes; }
  std::byte* second_output() const { return scratch_.memory + 3 * bytes; }

  result fill(std::byte* to, bfloat16 value) const {
    const row_type all(elements, value);
    XYL_TRY(cuda_result(cudaMemcpyAsync(to, all.data(), bytes, cudaMemcpyHostToDevice, scratch_.stream),
                        "cudaMemcpyAsync"));
    return cuda_result(cudaStreamSynchronize(scratch_.stream), "cudaStreamSynchronize");
  }

  result expect(const char* family, const std::byte* at, std::uint64_t count, float value) const {
    row_type got(count);
    // Ended before the copy is asked for: a copy to pageable memory waits inside the driver, with the driver's
    // lock, and ranks that are other threads of this process could not launch what the kernel waits for.
    XYL_TRY(cuda_result(cudaStreamSynchronize(scratch_.stream), "cudaStreamSynchronize"));
    XYL_TRY(cuda_result(
        cudaMemcpyAsync(got.data(), at, count * sizeof(bfloat16), cudaMemcpyDeviceToHost, scratch_.stream),
        "cudaMemcpyAsync"));
    XYL_TRY(cuda_result(cudaStreamSynchronize(scratch_.stream), "cudaStreamSynchronize"));
    for (std::uint64_t i = 0; i < count; ++i)
      if (got[i].bits != rounded(value).bits)
        return error(
            xylInternalError,
            "the %s kernels of this library do not work on this GPU: element %llu of a known result is %g, "
            "not %g",
            family, static_cast<unsigned long long>(i),
            static_cast<double>(element_traits<bfloat16>::decode(got[i])), static_cast<double>(value));
    return {};
  }

  float sum() const { return static_cast<float>(ranks_ * (ranks_ + 1)) / 2; }

  call_record record_of(collective what) const {
    call_record record;
    record.what = what;
    record.type = xylBfloat16;
    record.device = 1;
    return record;
  }

  result bare(algorithm how) {
    const std::uint64_t count = elements - 3;
    call_record record = record_of(collective::all_reduce);
    record.operation = xylSum;
    record.count = count;
    XYL_TRY(fill(first_output(), rounded(-1.0f)));
    XYL_TRY(side_.all_reduce({how, 1}, input(), first_output(), count, record, scratch_.stream));
    return expect(name_of(how), first_output(), count, sum());
  }

  // To rank 0; the others' output stays what it was.
  result reduce(reduce_form how) {
    static constexpr const char* names[] = {"reduce packet", "reduce direct", "reduce two-phase"};
    const std::uint64_t count = elements - 3;
    call_record record = record_of(collective::reduce);
    record.operation = xylSum;
    record.count = count;
    XYL_TRY(fill(first_output(), rounded(-1.0f)));
    XYL_TRY(side_.reduce({how, 1, {0, 0}}, input(), first_output(), count, record, scratch_.stream));
    return expect(names[static_cast<int>(how)], first_output(), count, rank_ == 0 ? sum() : -1.0f);
  }

  // Where devices reach each other's memory.
  bool has_scratch() const { return side_.scratch_of(rank_) != nullptr && side_.scratch_bytes() >= 2 * bytes; }

  // What stands for registered buffers is the scratch memory of all ranks:
  // an input, and behind it an output.
  result pulls() {
    if (!has_scratch()) return {};
    pull_call<device_capacity> call;
    for (int p = 0; p < ranks_; ++p) {
      call.input_of[p] = side_.scratch_of(p);
      call.output_of[p] = side_.scratch_of(p) + bytes;
    }
    call.inputs_aligned = call.outputs_aligned = true;
    std::byte* const own = side_.scratch_of(rank_);
    XYL_TRY(fill(own, rounded(static_cast<float>(rank_ + 1))));
    for (const pull_form how : {pull_form::one_shot, pull_form::two_shot, pull_form::gathered})
      XYL_TRY(pull(how, own, call));
    return pull_all(own, call);
  }

  result pull(pull_form how, std::byte* own, pull_call<device_capacity> call) {
    static constexpr const char* names[] = {"one-shot pull", "two-shot pull", "gathered pull"};
    call.input = own;
    call.output = how == pull_form::two_shot ? own + bytes : first_output();
    if (how != pull_form::two_shot) call.output_of[rank_] = call.output;
    call.count = elements - 3;
    call.record = record_of(collective::all_reduce);
    call.record.operation = xylSum;
    call.record.count = call.count;
    XYL_TRY(fill(call.output, rounded(-1.0f)));
    // Two-shot: a peer writes there no sooner than it has heard of this launch.
    XYL_TRY(side_.pull_reduce(how, 1, call, scratch_.stream));
    return expect(names[static_cast<int>(how)], call.output, call.count, sum());
  }

  // An allgather of two rows' worth in all.
  result pull_all(std::byte* own, pull_call<device_capacity> call) {
    const std::uint64_t piece = elements / static_cast<unsigned>(ranks_) - 3;
    movement how;
    how.bytes = how.output_stride = piece * sizeof(bfloat16);
    call.input = own;
    call.output = first_output();
    call.record = record_of(collective::all_gather);
    call.record.count = piece;
    XYL_TRY(fill(first_output(), rounded(-1.0f)));
    XYL_TRY(side_.pull_move(window_use::inputs, 1, how, call, scratch_.stream));
    for (int p = 0; p < ranks_; ++p)
      XYL_TRY(expect("pulling movement", first_output() + static_cast<unsigned>(p) * how.bytes, piece,
                     static_cast<float>(p + 1)));
    return {};
  }

  // One chunk: a step that tells and one that waits, for shares and for results, a sum and a delivery.
  result copied() {
    const std::uint64_t count = elements - 3;
    call_record record = record_of(collective::all_reduce);
    record.operation = xylSum;
    record.count = count;
    XYL_TRY(fill(first_output(), rounded(-1.0f)));
    XYL_TRY(side_.all_reduce_by_copies(input(), first_output(), count, record, scratch_.stream));
    return expect("copying", first_output(), count, sum());
  }

  // Every rank's number plus one, piece behind piece over both outputs.
  result all_gather(move_form how) {
    const std::uint64_t piece = 2 * elements / static_cast<unsigned>(ranks_) - 3;
    movement what;
    what.bytes = what.output_stride = piece * sizeof(bfloat16);
    call_record record = record_of(collective::all_gather);
    record.count = piece;
    XYL_TRY(fill(first_output(), rounded(-1.0f)));
    XYL_TRY(fill(second_output(), rounded(-1.0f)));
    XYL_TRY(side_.move({how, 1, what}, input(), first_output(), record, scratch_.stream));
    for (int p = 0; p < ranks_; ++p)
      XYL_TRY(expect(how == move_form::packet ? "packet movement" : "direct movement",
                     first_output() + static_cast<unsigned>(p) * what.bytes, piece, static_cast<float>(p + 1)));
    return {};
  }

  // A broadcast in which the ranks pass on what they have got from rank 0.
  result spread() {
    const std::uint64_t count = elements - 3;
    movement what;
    what.bytes = count * sizeof(bfloat16);
    what.from = 0;
    call_record record = record_of(collective::broadcast);
    record.count = count;
    XYL_TRY(fill(first_output(), rounded(-1.0f)));
    XYL_TRY(side_.move({move_form::spread, 1, what}, input(), first_output(), record, scratch_.stream));
    return expect("spreading movement", first_output(), count, 1.0f);
  }

  // To the next rank and from the one before, a block for each. A long message has more chunks than slots.
  result transfers(bool is_long) {
    const std::uint64_t count = elements - 3;
    transfer both[2];
    call_record record = record_of(collective::send);
    record.count = count;
    for (transfer& t : both) {
      t.bytes = count * sizeof(bfloat16);
      t.fingerprint = fingerprint(record);
      if (is_long) t.slot_bytes = long_slot_bytes;
    }
    both[0].sends = true;
    both[0].from = input();
    both[0].peer = (rank_ + 1) % ranks_;
    both[1].to = first_output();
    both[1].peer = (rank_ + ranks_ - 1) % ranks_;
    both[1].first_block = 1;
    XYL_TRY(fill(first_output(), rounded(-1.0f)));
    XYL_TRY(side_.run_transfers(both, 2, record, scratch_.stream));
    return expect(is_long ? "long transfer" : "transfer", first_output(), count,
                  static_cast<float>(both[1].peer + 1));
  }

  // Between two ranks, in one block; more chunks than slots.
  result swaps(bool sums) {
    const std::uint64_t count = elements - 3;
    call_record record = record_of(sums ? collective::all_reduce : collective::all_gather);
    record.count = count;
    device_swap how;
    how.sums = sums;
    transfer& out = how.both.out;
    out.from = input();
    out.bytes = count * sizeof(bfloat16);
    out.fingerprint = fingerprint(record);
    out.peer = 1 - rank_;
    out.sends = true;
    out.slot_bytes = long_slot_bytes;
    how.both.in = out;
    how.both.in.sends = false;
    how.both.in.to = second_output();
    how.own = input();
    how.own_to = first_output();
    for (std::byte* const to : {first_output(), second_output()}) XYL_TRY(fill(to, rounded(-1.0f)));
    XYL_TRY(side_.swap(how, input(), first_output(), count, record, scratch_.stream));
    if (sums) return expect("swapped sum", first_output(), count, 3);
    XYL_TRY(expect("own part of a swap", first_output(), count, static_cast<float>(rank_ + 1)));
    return expect("swap", second_output(), count, static_cast<float>(2 - rank_));
  }

  // What one launch does for all ranks, with this rank in all places.
  result joint() {
    joint_reduction<device_capacity> sum_up;
    sum_up.ranks = ranks_;
    sum_up.count = elements - 3;
    for (int p = 0; p < ranks_; ++p) sum_up.input[p] = input();
    sum_up.output[0] = first_output();
    sum_up.inputs_aligned = sum_up.outputs_aligned = true;
    XYL_TRY(fill(first_output(), rounded(-1.0f)));
    XYL_TRY(side_.reduce_jointly(sum_up, xylBfloat16, xylSum, 1, scratch_.stream));
    XYL_TRY(expect("joint reduction", first_output(), sum_up.count, static_cast<float>(ranks_ * (rank_ + 1))));
    joint_piece piece;
    piece.from[0] = input();
    piece.to[0] = first_output();
    piece.bytes = sum_up.count * sizeof(bfloat16);
    XYL_TRY(fill(first_output(), rounded(-1.0f)));
    XYL_TRY(side_.move_jointly({&piece, 1}, scratch_.stream));
    return expect("joint movement", first_output(), sum_up.count, static_cast<float>(rank_ + 1));
  }

  result scale() {
    device_scale how{};
    how.by.type = xylBfloat16;
    how.by.bits = rounded(3.0f).bits;
    how.pieces = 1;
    how.elements = elements - 3;
    const void* scaled = nullptr;
    XYL_TRY(side_.scale(how, input(), scratch_.stream, scaled));
    return expect("scaling", static_cast<const std::byte*>(scaled), how.elements,
                  3.0f * static_cast<float>(rank_ + 1));
  }

  // The second step of a fused call in two: few rows, and many, which have a kernel of their own.
  result norms() {
    for (const unsigned width : {hidden, hidden / 32}) {
      fused_work w;
      w.pattern = fused_pattern::norm;
      w.input = first_output();
      w.weight = weight();
      w.output = second_output();
      w.tokens = elements / width, w.hidden = width;
      w.inverse_hidden = 1.0f / static_cast<float>(width), w.eps = 1e-6f;
      XYL_TRY(fill(first_output(), rounded(3.0f)));
      XYL_TRY(fill(second_output(), rounded(-1.0f)));
      XYL_TRY(side_.fused_rows(w, xylBfloat16, scratch_.stream));
      XYL_TRY(expect("norm", second_output(), elements, 1.0f));
    }
    return {};
  }

  // Rows of equal elements: each is its own root mean square, so the norm is one.
  result fused(fused_form form, unsigned split, bool clusters) {
    static constexpr const char* names[] = {"fused packet", "fused twoshotpacket", "fused oneshot",
                                            "fused slices", "fused twoshot",       "fused one-shot pull"};
    const bool is_pulled = xyl::pulls(form);
    // As in pulls(): scratch memory stands for registered inputs.
    if ((takes_two_shots(form) && ranks_ == 1) || (is_pulled && !has_scratch())) return {};
    const std::byte* input_of[device_capacity] = {};
    for (int p = 0; p < ranks_ && is_pulled; ++p) input_of[p] = side_.scratch_of(p);
    if (is_pulled) XYL_TRY(fill(side_.scratch_of(rank_), rounded(static_cast<float>(rank_ + 1))));
    fused_work w;
    w.pattern = fused_pattern::norm;
    w.input = is_pulled ? input_of[rank_] : input();
    w.weight = weight();
    w.output = first_output();
    w.residual_out = second_output();
    w.tokens = rows;
    w.share = (rows + static_cast<unsigned>(ranks_) - 1) / static_cast<unsigned>(ranks_);
    w.rows = static_cast<std::uint32_t>(uses_shares(form) ? w.share : rows);
    w.hidden = hidden;
    w.inverse_hidden = 1.0f / hidden, w.eps = 1e-6f;
    w.choose_wire();
    w.spread((uses_packets(form) ? 8 : 16) / sizeof(bfloat16), split);
    w.is_clustered = w.split > 1 && clusters;
    if (!has_fused_kernel_for_any(form) && ranks_of_fused_kernel(form, ranks_, sizeof(bfloat16), w) == 0) return {};
    call_record record = record_of(collective::fused_all_reduce);
    record.count = rows;
    XYL_TRY(fill(first_output(), rounded(-1.0f)));
    XYL_TRY(fill(second_output(), rounded(-1.0f)));
    // 128 lanes take a part of 128 or 256 pieces: two parts of a row of packets, or all of a row of 128 units.
    const unsigned lanes = split == 1 && uses_packets(form) ? 256 : 128;
    XYL_TRY(side_.fused({form, w.split, lanes, input_of}, w, record, scratch_.stream));
    XYL_TRY(expect(names[static_cast<int>(form)], second_output(), elements, sum()));
    return expect(names[static_cast<int>(form)], first_output(), elements, 1.0f);
  }

  device_side& side_;
  const int rank_, ranks_;
  scratch scratch_;
};

}  // namespace

result kernel_check::create(device_side& side, int rank, int ranks, std::unique_ptr<kernel_check>& out) {
  auto made = std::make_unique<cuda_kernel_check>(side, rank, ranks);
  XYL_TRY(made->allocate());
  out = std::move(made);
  return {};
}

}  // namespace xyl
