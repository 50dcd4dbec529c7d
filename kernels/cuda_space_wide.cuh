// SPDX-License-Identifier: BSD-3-Clause
//
// The CUDA space with lines of 128 bytes (proto/wide_packet.hpp). A pack is held by 16 lanes, two packs by a warp:
// one instruction of the warp stores, or loads, 16 bytes a lane, which are four whole lines. That a line stored so
// is seen whole is for the link to say (proto/sync_path.hpp), and for the self-test of that path to deny.
#pragma once

#include "kernels/cuda_space.cuh"

namespace xyl {

template <int Capacity>
class cuda_wide_space : public cuda_space<Capacity> {
  using base = cuda_space<Capacity>;
  using faults = wrong<Capacity>;

 public:
  explicit __device__ __forceinline__ cuda_wide_space(const kernel_arguments<Capacity>& given) : base(given) {}

  static constexpr unsigned pack_lanes = 16;
  static constexpr bool packs_bring_headers = true;

  // Lane 7 of 16 has the unit that is split. It stores the first half beside one number, lane 15 the other half
  // beside the other.
  template <int N>
  __device__ __forceinline__ void put_packs(wide_pack* const (&to)[N], const unit16 (&units)[1], epoch_t e) {
    const std::uint64_t low = units[0].word[0] | static_cast<std::uint64_t>(units[0].word[1]) << 32;
    const std::uint64_t high = units[0].word[2] | static_cast<std::uint64_t>(units[0].word[3]) << 32;
    const std::uint64_t of_split = __shfl_up_sync(all_lanes, high, 8);
    const std::uint64_t first = member() == last ? of_split : low, second = has_number() ? e : high;
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (to[i] != nullptr) machine::store_line(part_of(to[i]), first, second);
  }

  template <int N>
  __device__ __forceinline__ bool get_packs(const wide_pack* const (&from)[N], epoch_t e, unit16 (&units)[N][1],
                                            waiting w) {
    return poll_packs<N, false>(from, e, units, w, nullptr, 0, 0);
  }
  template <int N>
  __device__ __forceinline__ bool get_packs_and_headers(const wide_pack* const (&from)[N], epoch_t e,
                                                        unit16 (&units)[N][1], waiting w, const line* header,
                                                        int source, std::uint64_t fingerprint) {
    return poll_packs<N, true>(from, e, units, w, header, source, fingerprint);
  }

 private:
  static constexpr unsigned all_lanes = 0xffffffffu, last = pack_lanes - 1;

  static __device__ __forceinline__ unsigned member() { return threadIdx.x % pack_lanes; }
  static __device__ __forceinline__ bool has_number() { return member() % 8 == 7; }
  template <class Pack>
  static __device__ __forceinline__ auto* part_of(Pack* pack) {
    if constexpr (std::is_const_v<Pack>)
      return reinterpret_cast<const line*>(pack) + member();
    else
      return reinterpret_cast<line*>(pack) + member();
  }

  // The lanes of a warp look together and have one verdict. What is nobody's is loaded too, as in
  // cuda_space::poll().
  template <int N, bool Header>
  __device__ __forceinline__ bool poll_packs(const wide_pack* const (&packs)[N], epoch_t e, unit16 (&units)[N][1],
                                             waiting w, const line* header, int source, std::uint64_t fingerprint) {
    const line* const anywhere = reinterpret_cast<const line*>(&this->own());
    const line* from[N];
#pragma unroll
    for (int i = 0; i < N; ++i) from[i] = packs[i] != nullptr ? part_of(packs[i]) : anywhere;
    const std::uint32_t packet = packet_epoch(e);
    typename base::patience p;
    for (;;) {
      std::uint64_t word[N][2], of_header[2] = {};
#pragma unroll
      for (int i = 0; i < N; ++i) machine::load_line(from[i], word[i]);
      if constexpr (Header) machine::load_line(header != nullptr ? header : anywhere, of_header);
      bool lacks = false;
#pragma unroll
      for (int i = 0; i < N; ++i) lacks |= packs[i] != nullptr && has_number() && word[i][1] != e;
      bool lacks_header = false;
      if constexpr (Header)
        if (header != nullptr) {
          lacks_header = base::is_other(of_header, packet) != 0;
          const std::uint64_t seen = (of_header[0] & 0xffffffffu) | of_header[1] << 32;
          if (!lacks_header && seen != fingerprint) {
            // Refused as soon as it is seen: the packs may never come. The others of the warp find the poison.
            this->refuse({source, phase::header}, fingerprint, seen);
            lacks_header = true;
          }
        }
      if (__all_sync(all_lanes, !lacks && !lacks_header)) [[likely]] {
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const std::uint64_t of_split = __shfl_down_sync(all_lanes, word[i][0], 8);
          if (packs[i] == nullptr) continue;
          const std::uint64_t high = has_number() ? of_split : word[i][1];
          units[i][0] = {{static_cast<std::uint32_t>(word[i][0]), static_cast<std::uint32_t>(word[i][0] >> 32),
                          static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)}};
        }
        return true;
      }
      int which = 0;
      epoch_t seen = 0;
#pragma unroll
      for (int i = N - 1; i >= 0; --i)
        if (packs[i] != nullptr && has_number() && word[i][1] != e) {
          which = i;
          seen = word[i][1];
        }
      // A lane that lacks nothing does not say for whom it waits; when one gives up, all do.
      bool over = false;
      if (++p.polls % base::polls_per_look == 0) {
        if (lacks || lacks_header) {
          p.since = faults::look(p.since, lacks ? w.of_line(which) : waiting{source, phase::header},
                                 lacks ? e : packet, lacks ? seen : of_header[1] >> 32);
          over = p.since == faults::over;
        }
        over = __any_sync(all_lanes, over) != 0;
      }
      if (over) return false;
    }
  }
};

template <int Capacity>
cuda_wide_space(const kernel_arguments<Capacity>&) -> cuda_wide_space<Capacity>;

}  // namespace xyl
