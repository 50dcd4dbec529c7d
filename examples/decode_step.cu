// SPDX-License-Identifier: BSD-3-Clause
//
// The skeleton of a decode step under tensor parallelism: per layer two row-parallel products whose partial results
// are added up over the ranks, and after each the residual and RMSNorm. The products are stood in for by a kernel;
// sum, residual and norm are one call. The whole step is one CUDA graph.
//
//   nvcc -ccbin mpicxx decode_step.cu $(pkg-config --cflags --libs xylem) -o decode_step
//   mpirun -np 8 ./decode_step [TOKENS [HIDDEN [LAYERS]]]
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mpi.h>
#include <xylem/xylem.h>
#include <xylem/xylem_mpi.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(bool good, const char* what, const char* why) {
  if (good) return;
  std::fprintf(stderr, "%s: %s\n", what, why);
  MPI_Abort(MPI_COMM_WORLD, 1);
}
static void cuda(cudaError_t status, const char* what) {
  check(status == cudaSuccess, what, cudaGetErrorString(status));
}

// A rank's part of a product: element i of the input, times a number of the rank's.
static __host__ __device__ float share_of(int rank, size_t i) {
  return static_cast<float>((i * 7 + static_cast<size_t>(rank) * 3) % 11) / 16 - 0.25f;
}
static __global__ void stand_in_for_product(const __nv_bfloat16* x, __nv_bfloat16* partial, size_t elements,
                                            int rank) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < elements) partial[i] = __float2bfloat16(__bfloat162float(x[i]) * share_of(rank, i));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const size_t tokens = argc > 1 ? std::strtoull(argv[1], nullptr, 0) : 1;
  const size_t hidden = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 7168;
  const int layers = argc > 3 ? std::atoi(argv[3]) : 61;
  const size_t elements = tokens * hidden, bytes = elements * sizeof(__nv_bfloat16);
  int rank = 0, ranks = 0, devices = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  cuda(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  cuda(cudaSetDevice(rank % devices), "cudaSetDevice");
  xylComm_t comm;
  check(xylCommInitMPI(&comm, MPI_COMM_WORLD) == xylSuccess, "xylCommInitMPI", xylGetLastError(nullptr));

  __nv_bfloat16 *x, *partial, *residual, *weight;
  cuda(cudaMalloc(&x, bytes), "cudaMalloc");
  cuda(cudaMalloc(&partial, bytes), "cudaMalloc");
  cuda(cudaMalloc(&residual, bytes), "cudaMalloc");
  cuda(cudaMalloc(&weight, hidden * sizeof *weight), "cudaMalloc");
  std::vector<__nv_bfloat16> ones(elements > hidden ? elements : hidden, __float2bfloat16(1.0f));
  cuda(cudaMemcpy(weight, ones.data(), hidden * sizeof *weight, cudaMemcpyHostToDevice), "cudaMemcpy");
  cudaStream_t stream;
  cuda(cudaStreamCreate(&stream), "cudaStreamCreate");

  xylAllReduceRMSNormArgs_t args = {};
  args.size = sizeof args;
  args.pattern = xylFusedResidualRMSNorm;
  args.type = args.weight_type = xylBfloat16;
  args.eps = 1e-6f;
  args.tokens = tokens;
  args.hidden = hidden;
  args.input = partial;
  args.residual = args.residual_out = residual;
  args.weight = weight;
  args.output = x;
  const auto half_layer = [&] {
    const unsigned blocks = static_cast<unsigned>((elements + 255) / 256);
    stand_in_for_product<<<blocks, 256, 0, stream>>>(x, partial, elements, rank);
    check(xylAllReduceRMSNorm(&args, comm, stream) == xylSuccess, "xylAllReduceRMSNorm", xylGetLastError(comm));
  };
  const auto reset = [&] {
    cuda(cudaMemcpyAsync(x, ones.data(), bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
    cuda(cudaMemcpyAsync(residual, ones.data(), bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
  };

  // One half of a layer against the same on the CPU.
  reset();
  half_layer();
  std::vector<__nv_bfloat16> got(elements);
  cuda(cudaMemcpyAsync(got.data(), x, bytes, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
  cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  double worst = 0;
  for (size_t t = 0; t < tokens; ++t) {
    std::vector<double> r(hidden, 1.0);
    double squares = 0;
    for (size_t i = 0; i < hidden; ++i) {
      for (int p = 0; p < ranks; ++p) r[i] += __bfloat162float(__float2bfloat16(share_of(p, t * hidden + i)));
      squares += r[i] * r[i];
    }
    for (size_t i = 0; i < hidden; ++i) {
      const double want = r[i] / std::sqrt(squares / static_cast<double>(hidden) + 1e-6);
      worst = std::fmax(worst, std::fabs(__bfloat162float(got[t * hidden + i]) - want) / (1 + std::fabs(want)));
    }
  }
  check(worst < 1.0 / 128, "the result", "differs from the CPU's by more than bfloat16 explains");

  reset();
  cudaGraph_t graph;
  cudaGraphExec_t step;
  cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  for (int i = 0; i < 2 * layers; ++i) half_layer();
  cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  cuda(cudaGraphInstantiate(&step, graph, 0), "cudaGraphInstantiate");
  cudaEvent_t begin, end;
  cuda(cudaEventCreate(&begin), "cudaEventCreate");
  cuda(cudaEventCreate(&end), "cudaEventCreate");
  cuda(cudaGraphLaunch(step, stream), "cudaGraphLaunch");
  cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  MPI_Barrier(MPI_COMM_WORLD);
  cuda(cudaEventRecord(begin, stream), "cudaEventRecord");
  for (int i = 0; i < 20; ++i) cuda(cudaGraphLaunch(step, stream), "cudaGraphLaunch");
  cuda(cudaEventRecord(end, stream), "cudaEventRecord");
  cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  xylResult_t state = xylSuccess;
  check(xylCommGetAsyncError(comm, &state) == xylSuccess && state == xylSuccess, "the step",
        xylGetErrorString(state));
  float ms = 0;
  cuda(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
  if (rank == 0)
    std::printf("%d ranks, %zu x %zu bfloat16, %d layers: %.1f us per step, error %.1e\n", ranks, tokens, hidden,
                layers, static_cast<double>(ms) * 1000 / 20, worst);
  check(xylCommDestroy(comm) == xylSuccess, "xylCommDestroy", xylGetLastError(nullptr));
  MPI_Finalize();
  return 0;
}
