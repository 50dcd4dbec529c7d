// SPDX-License-Identifier: BSD-3-Clause
//
// Calls whose input, and residual, are written by the kernel before them at its very end, which has let the call's
// kernel be scheduled long before: what a programmatic launch reads too early is garbage. Every algorithm of an
// allreduce and every form of the fused one, eagerly and in a graph, with every overlap; then two calls in a row,
// of which the second reads what the first writes. An MPI program; several ranks may share a GPU. Exits with 1 if
// anything was wrong, 77 without a GPU.
#include "tests/gpu/late_producer.hpp"

#include <functional>

#include "tests/gpu/checked_call.hpp"
#include "tests/gpu/fused_device.hpp"
#include "tests/gpu/graph.hpp"

namespace xyl::gpu_test {
namespace {

constexpr unsigned late_us = 200;
cudaStream_t stream;

struct device_bytes {
  explicit device_bytes(std::size_t bytes) : bytes(bytes) {
    void* allocated = nullptr;
    must(cudaMalloc(&allocated, bytes), "cudaMalloc");
    data = static_cast<std::byte*>(allocated);
  }
  ~device_bytes() { (void)cudaFree(data); }
  device_bytes(const device_bytes&) = delete;
  std::vector<unsigned char> content() const {
    std::vector<unsigned char> all(bytes);
    must(cudaMemcpyAsync(all.data(), data, bytes, cudaMemcpyDeviceToHost, stream), "copy out");
    must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    return all;
  }
  std::byte* data;
  const std::size_t bytes;
};

const char* name_of(launch_overlap o) {
  return o == launch_overlap::none ? "none" : o == launch_overlap::late ? "late" : "early";
}

// enqueue() three times over, or a graph of it launched three times.
void run(bool in_graph, const std::function<void()>& enqueue) {
  if (in_graph) return replay(stream, 3, enqueue);
  for (int i = 0; i < 3; ++i) enqueue();
}

void use(device_rank& r, launch_overlap overlap) {
  sync_choice choice = r.side().in_use();
  choice.packet_overlap = choice.flag_overlap = overlap;
  r.side().use(choice);
}

// Whole numbers, so that sums are exact: every algorithm has fp32.
float number_of(std::size_t seed, int rank, std::size_t i) {
  return static_cast<float>(input_value<std::uint32_t>(seed, rank, i) % 1024);
}

// The first result becomes the second's input.
void all_reduces(device_rank& r, launch_overlap overlap) {
  for (const algorithm how : {algorithm::packet, algorithm::two_shot_packet, algorithm::one_shot,
                              algorithm::two_shot, algorithm::ring, algorithm::wide_packet, algorithm::line_packet})
    for (const std::size_t count : {700u, 7168u, 60'000u}) {
      if (!r.can(how, xylFloat32, xylSum)) continue;
      const std::size_t bytes = count * 4;
      if (bytes > r.capacity(how)) continue;
      device_bytes good(bytes), input(bytes), middle(bytes), output(bytes);
      std::vector<float> values(count);
      for (std::size_t i = 0; i < count; ++i) values[i] = number_of(count, r.rank(), i);
      must(cudaMemcpy(good.data, values.data(), bytes, cudaMemcpyHostToDevice), "copy in");
      const unsigned blocks = std::min(r.most_blocks(), 1 + static_cast<unsigned>(count / 5000));
      for (const bool in_graph : {false, true}) {
        use(r, overlap);
        run(in_graph, [&] {
          must(cudaMemsetAsync(input.data, 0x5b, bytes, stream), "memset");
          late_copy what;
          what.from[0] = good.data;
          what.to[0] = input.data;
          what.bytes[0] = bytes;
          must(copy_late(what, late_us, stream), "copy_late");
          r.all_reduce(how, blocks, input.data, middle.data, count, 4, xylFloat32, xylSum, stream);
          r.all_reduce(how, blocks, middle.data, output.data, count, 4, xylFloat32, xylSum, stream);
        });
        const auto once = middle.content(), twice = output.content();
        std::size_t wrong = 0, wrong_twice = 0;
        for (std::size_t i = 0; i < count; ++i) {
          float sum = 0, got, got_twice;
          for (int p = 0; p < r.ranks(); ++p) sum += number_of(count, p, i);
          std::memcpy(&got, &once[i * 4], 4);
          std::memcpy(&got_twice, &twice[i * 4], 4);
          wrong += got != sum;
          wrong_twice += got_twice != sum * static_cast<float>(r.ranks());
        }
        expect(wrong == 0 && wrong_twice == 0 && r.poisoned() == 0,
               "rank %d: %s of %zu, overlap %s%s: %zu of the first and %zu of the second are wrong, poison %llx",
               r.rank(), xyl::name_of(how), count, name_of(overlap), in_graph ? ", graph" : "", wrong, wrong_twice,
               static_cast<unsigned long long>(r.poisoned()));
      }
    }
}

// Against the same call whose input was there long before, without overlap.
void fused(device_rank& r, launch_overlap overlap) {
  fused_device device(r);
  for (const fused_form form : {fused_form::packet, fused_form::two_shot_packet, fused_form::one_shot,
                                fused_form::two_shot_slices, fused_form::two_shot, fused_form::one_shot_pull})
    for (const std::uint64_t tokens : {1ull, 9ull})
      for (const unsigned hidden : {1024u, 7168u}) {
        test::fused_case f;
        f.pattern = fused_pattern::norm;
        f.tokens = tokens;
        f.hidden = hidden;
        f.seed = tokens * 7 + hidden;
        test::fused_data<bfloat16> before(f, r.rank(), r.ranks()), after(f, r.rank(), r.ranks());
        const wished_shape wish{form, 0, true};
        {
          use(r, launch_overlap::none);
          const device_copy at(before);
          if (pulls(form) && device.can_pull()) device.bring_input(before, at, stream);
          if (!device(wish, before, at, stream)) continue;
          must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
          at.copy_back();
        }
        const device_copy at(after);
        device_bytes input(after.input.size()), residual(after.residual.size());
        must(cudaMemcpy(input.data, after.input.data(), input.bytes, cudaMemcpyHostToDevice), "copy in");
        must(cudaMemcpy(residual.data, after.residual.data(), residual.bytes, cudaMemcpyHostToDevice), "copy in");
        for (const bool in_graph : {false, true}) {
          use(r, overlap);
          std::byte* const to_input = pulls(form) ? device.pulled_input() : at(after.input.raw());
          std::byte* const to_residual = at(after.residual.raw());
          run(in_graph, [&] {
            // NaN, of which nothing good can come.
            must(cudaMemsetAsync(to_input, 0xff, input.bytes, stream), "memset");
            must(cudaMemsetAsync(to_residual, 0xff, residual.bytes, stream), "memset");
            late_copy what;
            what.from[0] = input.data;
            what.to[0] = to_input;
            what.bytes[0] = input.bytes;
            what.from[1] = residual.data;
            what.to[1] = to_residual;
            what.bytes[1] = residual.bytes;
            must(copy_late(what, late_us, stream), "copy_late");
            if (!device(wish, after, at, stream)) std::abort();
          });
          must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
          at.copy_back();
          expect(after.same_outputs(before) && r.poisoned() == 0,
                 "rank %d: fused form %d, %llu x %u, overlap %s%s: other bits than without a late producer, poison "
                 "%llx",
                 r.rank(), static_cast<int>(form), static_cast<unsigned long long>(tokens), hidden,
                 name_of(overlap), in_graph ? ", graph" : "", static_cast<unsigned long long>(r.poisoned()));
        }
      }
}

}  // namespace
}  // namespace xyl::gpu_test

int main(int argc, char** argv) {
  using namespace xyl;
  using namespace xyl::gpu_test;
  return mpi_program(argc, argv, [] {
    stream = new_stream();
    device_rank r;
    for (const launch_overlap overlap : {launch_overlap::none, launch_overlap::late, launch_overlap::early})
      step((std::string("overlap ") + gpu_test::name_of(overlap)).c_str(), [&] {
        all_reduces(r, overlap);
        fused(r, overlap);
      });
  });
}
