// SPDX-License-Identifier: BSD-3-Clause
//
// No grid may hang for want of room on the device: launches as large as the library makes them, one behind the
// other with overlap (programmatic dependent launch), eager and in graphs, of every fused form from 1 to 4096
// tokens, pulled ones too, every allreduce, with lines of 128 bytes where they are possible (between GPUs with
// XYLEM_SYNC=ll128), and through the ABI every way in which collectives move data, registered and not. Results are
// checked; whoever waits for longer than the deadline says so. An MPI program of two ranks or more, meant for
// several ranks of one GPU under MPS, whose share of it may differ by rank:
//
//   for percentage in 12 25 50 100; do
//     for ranks in 2 4 8; do
//       CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=$percentage mpirun -np $ranks tests/co_residency_test || exit 1
//     done
//   done
//   mpirun -np 1 -x CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=12 tests/co_residency_test :
//     -np 1 -x CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50 tests/co_residency_test      (one line)
//
// With XYLEM_TIMEOUT=20 the second half gives up as soon as the first. Exit 77 without a GPU, 1 with a failure.
#include <cstring>
#include <vector>

#include "tests/gpu/fused_device.hpp"
#include "tests/gpu/graph.hpp"
#include "tests/gpu/mpi_communicator.hpp"

namespace xyl::gpu_test {
namespace {

constexpr unsigned hidden = 1024;
constexpr std::uint64_t most_tokens = 4096, most_elements = most_tokens * hidden;

cudaStream_t stream;

template <class T>
T* allocate(std::size_t count) {
  void* memory = nullptr;
  must(cudaMalloc(&memory, count * sizeof(T)), "cudaMalloc");
  return static_cast<T*>(memory);
}
bfloat16 rounded(float x) { return element_traits<bfloat16>::encode(x); }

// Rows of equal elements, so that each row's norm is one; sums are small integers.
float element_of(std::uint64_t row, int rank) {
  return static_cast<float>((1 + row % 3) * static_cast<unsigned>(rank + 1));
}
float sum_of(std::uint64_t row) {
  float sum = 0;
  for (int p = 0; p < ranks_; ++p) sum += element_of(row, p);
  return sum;
}

class rows_on_device {
 public:
  explicit rows_on_device(device_rank& r)
      : r_(r), limits_(fused_device(r).limits()), inputs_(r, bytes(most_tokens)) {
    std::vector<bfloat16> all(most_elements);
    for (std::uint64_t i = 0; i < most_elements; ++i) all[i] = rounded(element_of(i / hidden, rank_));
    must(cudaMemcpy(inputs_.own(), all.data(), bytes(most_tokens), cudaMemcpyHostToDevice), "copy in");
    all.assign(hidden, rounded(1));
    must(cudaMemcpy(weight_, all.data(), hidden * sizeof(bfloat16), cudaMemcpyHostToDevice), "copy in");
  }
  ~rows_on_device() {
    for (bfloat16* memory : {weight_, output_, sums_}) (void)cudaFree(memory);
  }
  rows_on_device(const rows_on_device&) = delete;

  const fused_limits& limits() const { return limits_; }

  // False if it cannot be.
  bool fused(fused_form form, bool clusters, std::uint64_t tokens) {
    if (pulls(form) && !inputs_.are_reached()) return false;
    fused_work w;
    w.pattern = fused_pattern::norm;
    w.input = inputs_.own();
    w.weight = as_bytes(weight_);
    w.output = as_bytes(output_);
    w.residual_out = as_bytes(sums_);
    w.tokens = tokens;
    w.share = test::share_of(tokens, ranks_);
    w.hidden = hidden;
    w.inverse_hidden = 1.0f / hidden;
    w.eps = 1e-6f;
    w.choose_wire();
    fused_limits limits = limits_;
    if (!clusters) std::fill(std::begin(limits.clustered), std::end(limits.clustered), 0u);
    const fused_shape shape = shape_fused(form, sizeof(bfloat16), ranks_, limits, r_.map(), w);
    if (shape.blocks == 0) return false;
    call_record record;
    record.what = collective::fused_all_reduce;
    record.type = xylBfloat16;
    record.operation = static_cast<std::uint8_t>(w.pattern);
    record.device = 1;
    record.count = tokens;
    const std::uint64_t all = uses_shares(form) ? w.share : tokens;
    do {
      w.rows = static_cast<std::uint32_t>(std::min(shape.rows, all - w.first));
      must(r_.side().fused({shape.form, shape.blocks, shape.lanes, inputs_.of()}, w, record, stream), "fused");
      w.first += w.rows;
    } while (w.first < all);
    return true;
  }
  bool can(algorithm how) const { return r_.can(how, xylBfloat16, xylSum); }
  void bare(algorithm how, std::uint64_t elements) {
    r_.all_reduce(how, r_.most_blocks(), inputs_.own(), sums_, elements, sizeof(bfloat16), xylBfloat16, xylSum,
                  stream);
  }

  void clear(std::uint64_t elements) {
    for (bfloat16* memory : {output_, sums_})
      must(cudaMemsetAsync(memory, 0, elements * sizeof(bfloat16), stream), "cudaMemsetAsync");
  }
  void check(const char* what, int number, std::uint64_t elements, bool has_norms) {
    must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    got_.resize(elements);
    for (const bool norms : {false, true}) {
      if (norms && !has_norms) continue;
      must(cudaMemcpy(got_.data(), norms ? output_ : sums_, elements * sizeof(bfloat16), cudaMemcpyDeviceToHost),
           "copy out");
      std::uint64_t wrong = 0, where = 0;
      for (std::uint64_t i = 0; i < elements; ++i)
        if (got_[i].bits != rounded(norms ? 1.f : sum_of(i / hidden)).bits && wrong++ == 0) where = i;
      expect(wrong == 0 && r_.poisoned() == 0, "%s %d, %llu elements: %llu %s wrong from %llu on, poison %llx",
             what, number, static_cast<unsigned long long>(elements), static_cast<unsigned long long>(wrong),
             norms ? "norms" : "sums", static_cast<unsigned long long>(where),
             static_cast<unsigned long long>(r_.poisoned()));
    }
  }

 private:
  static std::size_t bytes(std::uint64_t tokens) { return tokens * hidden * sizeof(bfloat16); }
  static std::byte* as_bytes(bfloat16* p) { return reinterpret_cast<std::byte*>(p); }

  device_rank& r_;
  const fused_limits limits_;
  const shared_inputs inputs_;
  bfloat16 *const weight_ = allocate<bfloat16>(hidden), *const output_ = allocate<bfloat16>(most_elements),
                  *const sums_ = allocate<bfloat16>(most_elements);
  std::vector<bfloat16> got_;
};

constexpr fused_form forms[] = {fused_form::packet,   fused_form::two_shot_packet,
                                fused_form::one_shot, fused_form::two_shot_slices,
                                fused_form::two_shot, fused_form::one_shot_pull};
constexpr algorithm algorithms_of_all[] = {
    algorithm::packet, algorithm::two_shot_packet, algorithm::one_shot,   algorithm::two_shot,
    algorithm::ring,   algorithm::wide_packet,     algorithm::line_packet};
constexpr std::uint64_t numbers_of_tokens[] = {1, 2, 3, 7, 16, 33, 64, 129, 300, 1024, most_tokens};

void every_fused_form(rows_on_device& rows) {
  int launched = 0;
  for (const std::uint64_t tokens : numbers_of_tokens)
    for (const fused_form form : forms)
      for (const bool clusters : {true, false}) {
        if (clusters && !rows.limits().has_clusters()) continue;
        rows.clear(tokens * hidden);
        if (!rows.fused(form, clusters, tokens)) continue;
        ++launched;
        for (int i = 0; i < 3; ++i) (void)rows.fused(form, clusters, tokens);
        rows.check("fused form", static_cast<int>(form), tokens * hidden, true);
        rows.clear(tokens * hidden);
        replay(stream, 3, [&] {
          for (int i = 0; i < 4; ++i) (void)rows.fused(form, clusters, tokens);
        });
        rows.check("fused form in a graph", static_cast<int>(form), tokens * hidden, true);
      }
  expect(launched >= static_cast<int>(std::size(numbers_of_tokens)), "only %d fused launches", launched);
}

void every_allreduce(rows_on_device& rows) {
  for (std::uint64_t elements = 512; elements <= most_elements; elements *= 8)
    for (const algorithm how : algorithms_of_all) {
      if (!rows.can(how)) continue;
      const auto several = [&] {
        for (int i = 0; i < 4; ++i) rows.bare(how, elements);
      };
      rows.clear(elements);
      several();
      replay(stream, 3, several);
      rows.check("allreduce", static_cast<int>(how), elements, false);
    }
}

// Grids of all kinds follow each other.
void all_in_one_graph(rows_on_device& rows) {
  const std::uint64_t tokens = 300;
  const auto mixture = [&] {
    for (const fused_form form : forms) {
      (void)rows.fused(form, true, tokens);
      for (const algorithm how : algorithms_of_all)
        if (rows.can(how)) rows.bare(how, tokens * hidden);
      (void)rows.fused(form, false, 5);
    }
  };
  rows.clear(tokens * hidden);
  mixture();
  replay(stream, 5, mixture);
  rows.check("a mixture", 0, tokens * hidden, false);
}

// Through the ABI. Every rank's input is its number plus one.
struct pieces {
  float *in, *out;
};

void move_everything(const pieces& at, std::size_t count) {
  const auto n = static_cast<std::size_t>(ranks_);
  float* out = at.out;
  must(xylAllReduce(at.in, out, count * n, xylFloat32, xylSum, comm, stream), "xylAllReduce");
  out += count * n;
  must(xylReduceScatter(at.in, out, count, xylFloat32, xylSum, comm, stream), "xylReduceScatter");
  out += count;
  must(xylAllGather(at.in, out, count, xylFloat32, comm, stream), "xylAllGather");
  out += count * n;
  must(xylAlltoAll(at.in, out, count, xylFloat32, comm, stream), "xylAlltoAll");
  out += count * n;
  must(xylBroadcast(at.in, out, count * n, xylFloat32, ranks_ - 1, comm, stream), "xylBroadcast");
  out += count * n;
  must(xylGroupStart(), "xylGroupStart");
  for (int p = 0; p < ranks_; ++p) {
    must(xylSend(at.in, count, xylFloat32, p, comm, stream), "xylSend");
    must(xylRecv(out + count * static_cast<std::size_t>(p), count, xylFloat32, p, comm, stream), "xylRecv");
  }
  must(xylGroupEnd(), "xylGroupEnd");
}
std::size_t results_of(std::size_t count) { return count * (5 * static_cast<std::size_t>(ranks_) + 1); }

void check_everything(const pieces& at, std::size_t count, const char* how) {
  must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  std::vector<float> got(results_of(count));
  must(cudaMemcpy(got.data(), at.out, got.size() * sizeof(float), cudaMemcpyDeviceToHost), "copy out");
  const auto n = static_cast<std::size_t>(ranks_);
  const float sum = static_cast<float>(ranks_ * (ranks_ + 1)) / 2;
  const std::size_t sums = count * (n + 1), gathered = sums + 2 * count * n, all_the_same = gathered + count * n;
  std::size_t wrong = 0, where = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const float want = i < sums           ? sum
                       : i < gathered     ? static_cast<float>((i - sums) / count % n + 1)
                       : i < all_the_same ? static_cast<float>(ranks_)
                                          : static_cast<float>((i - all_the_same) / count + 1);
    if (got[i] != want && wrong++ == 0) where = i;
  }
  expect(wrong == 0, "%s, pieces of %zu floats: %zu of %zu results wrong from %zu on", how, count, wrong,
         got.size(), where);
}

void every_movement() {
  constexpr std::size_t most_bytes = std::size_t{96} << 20;
  const auto n = static_cast<std::size_t>(ranks_);
  void *memory[2] = {}, *handles[2] = {};
  for (void*& m : memory) must(xylMemAlloc(&m, most_bytes, xylMemDevice), "xylMemAlloc");
  const pieces at{static_cast<float*>(memory[0]), static_cast<float*>(memory[1])};
  const std::vector<float> mine(most_bytes / sizeof(float), static_cast<float>(rank_ + 1));
  must(cudaMemcpy(at.in, mine.data(), most_bytes, cudaMemcpyHostToDevice), "copy in");
  for (const bool is_registered : {false, true}) {
    if (is_registered)
      for (int i = 0; i < 2; ++i)
        must(xylCommRegister(comm, memory[i], most_bytes, &handles[i]), "xylCommRegister");
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{4} << 10, std::size_t{64} << 10,
                                    std::size_t{1} << 20, std::size_t{16} << 20}) {
      const std::size_t count = std::max<std::size_t>(bytes / n / sizeof(float), 1);
      const auto clear = [&] {
        must(cudaMemsetAsync(at.out, 0, results_of(count) * sizeof(float), stream), "cudaMemsetAsync");
      };
      const auto several = [&] {
        for (int i = 0; i < 2; ++i) move_everything(at, count);
      };
      clear();
      several();
      check_everything(at, count, is_registered ? "registered" : "plain");
      clear();
      replay(stream, 3, several);
      check_everything(at, count, is_registered ? "registered, in a graph" : "in a graph");
    }
  }
  for (void* h : handles) must(xylCommDeregister(comm, h), "xylCommDeregister");
  for (void* m : memory) must(xylMemFree(m), "xylMemFree");
}

// What each rank has of the device.
void say_shares(const device_rank& r) {
  int mine = 0, device = 0;
  must(cudaGetDevice(&device), "cudaGetDevice");
  must(cudaDeviceGetAttribute(&mine, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  std::vector<int> all(static_cast<std::size_t>(ranks_));
  MPI_Gather(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (rank_ != 0) return;
  std::printf("multiprocessors:");
  for (const int one : all) std::printf(" %d", one);
  std::printf("; %u blocks of a launch\n", r.most_blocks());
}

void run_all() {
  {
    settings s;
    s.blocks = 128;
    s.deadline_ns = 20'000'000'000;
    device_rank r(s);
    say_shares(r);
    rows_on_device rows(r);
    step("fused, every form, 1 to 4096 tokens", [&] { every_fused_form(rows); });
    step("allreduce, every algorithm", [&] { every_allreduce(rows); });
    step("a mixture", [&] { all_in_one_graph(rows); });
  }
  if (make_communicator()) step("every collective, registered and not", [] { every_movement(); });
  destroy_communicator();
}

}  // namespace
}  // namespace xyl::gpu_test

int main(int argc, char** argv) {
  using namespace xyl::gpu_test;
  return mpi_program(
      argc, argv,
      [] {
        stream = new_stream();
        run_all();
      },
      2);
}
