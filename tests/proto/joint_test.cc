// SPDX-License-Identifier: BSD-3-Clause
//
// What one launch does for all ranks: every byte of the results, in place and not, whatever the alignment and the
// grid, and nothing beside them.
#include "proto/joint.hpp"

#include <gtest/gtest.h>

#include <random>

#include "proto/thread_machine.hpp"
#include "spaces/lane_by_lane.hpp"

namespace xyl::test {
namespace {

struct reduction_case {
  collective what;
  int ranks, kind, root;
  std::uint64_t count;
  bool in_place;
  unsigned shift;  // elements
  unsigned blocks, lanes;
};

template <class Kind>
void check_reduction(const reduction_case& c, std::uint64_t seed) {
  using T = typename Kind::element;
  const bool scatters = c.what == collective::reduce_scatter;
  const std::uint64_t of_input = c.count * (scatters ? static_cast<unsigned>(c.ranks) : 1);
  std::vector<guarded_buffer> inputs, outputs;
  joint_reduction<8> call;
  call.ranks = c.ranks;
  call.count = c.count;
  call.scatters = scatters;
  call.input_stride = scatters ? c.count * sizeof(T) : 0;
  std::uintptr_t all_inputs = call.input_stride, all_outputs = 0;
  inputs.reserve(8);
  outputs.reserve(8);
  std::vector<T*> results;
  for (int p = 0; p < c.ranks; ++p) {
    inputs.emplace_back(of_input * sizeof(T), c.shift * sizeof(T));
    outputs.emplace_back(c.count * sizeof(T), c.shift * sizeof(T));
    T* const in = reinterpret_cast<T*>(inputs.back().data());
    for (std::uint64_t i = 0; i < of_input; ++i) in[i] = input_element<T>(seed, p, i);
    const std::uint64_t own = scatters ? c.count * static_cast<unsigned>(p) : 0;
    T* out = c.in_place ? in + own : reinterpret_cast<T*>(outputs.back().data());
    results.push_back(out);
    call.input[p] = inputs.back().data();
    call.output[p] = c.what == collective::reduce && p != c.root ? nullptr : reinterpret_cast<std::byte*>(out);
    all_inputs |= reinterpret_cast<std::uintptr_t>(in);
    all_outputs |= reinterpret_cast<std::uintptr_t>(call.output[p]);
  }
  call.inputs_aligned = all_inputs % 16 == 0;
  call.outputs_aligned = all_outputs % 16 == 0;
  reduction<portable_codec<T>, typename Kind::combining> red;
  if (Kind::average) red.divisor = static_cast<std::uint32_t>(c.ranks);
  for (unsigned block = 0; block < call.blocks_of_result(); ++block)
    lane_by_lane(c.blocks, c.lanes, [&](auto& space) { reduce_jointly(space, call, red, block); });
  for (int p = 0; p < c.ranks; ++p) {
    const auto at = static_cast<std::size_t>(p);
    EXPECT_TRUE(inputs[at].guards_untouched() && outputs[at].guards_untouched());
    const std::uint64_t own = scatters ? c.count * at : 0;
    for (std::uint64_t i = 0; i < c.count; ++i) {
      const T want = call.output[p] == nullptr
                         ? input_element<T>(seed, p, i)
                         : expected_element<Kind>(protocol::one_shot, seed, c.ranks, own + i, of_input);
      const T* const got = call.output[p] == nullptr ? reinterpret_cast<const T*>(call.input[p]) : results[at];
      ASSERT_EQ(std::memcmp(&got[i], &want, sizeof want), 0)
          << "rank " << p << " element " << i << " of " << c.count << ", kind " << c.kind << ", " << c.ranks
          << " ranks, collective " << static_cast<int>(c.what) << ", in place " << c.in_place << ", shift "
          << c.shift;
    }
  }
}

TEST(joint, reductions_of_any_shape_in_place_and_not) {
  std::mt19937 random(7);
  for (const int ranks : {2, 3, 4, 5, 8})
    for (const collective what : {collective::all_reduce, collective::reduce, collective::reduce_scatter})
      for (int kind = 0; kind < kinds; ++kind)
        for (const std::uint64_t count : {1ull, 7ull, 16ull, 129ull, 700ull}) {
          const reduction_case c{what,
                                 ranks,
                                 kind,
                                 static_cast<int>(random() % static_cast<unsigned>(ranks)),
                                 count,
                                 random() % 2 == 0,
                                 static_cast<unsigned>(random() % 3),
                                 1 + static_cast<unsigned>(random() % 5),
                                 1 + static_cast<unsigned>(random() % 40)};
          with_kind(kind, [&]<class Kind>(Kind) { check_reduction<Kind>(c, count + static_cast<unsigned>(kind)); });
          if (HasFatalFailure()) return;
        }
}

// Before the one rounding: 1 + 2^-8 and half an ulp of bfloat16 each way would be lost in two.
TEST(joint, an_addend_is_part_of_the_sum) {
  constexpr std::uint64_t count = 40;
  using traits = element_traits<bfloat16>;
  std::vector<bfloat16> first(count, traits::encode(256.0f)), second(count, traits::encode(1.0f)),
      addend(count, traits::encode(1.0f));
  std::vector<bfloat16> out(count), other(count);
  joint_reduction<2> call;
  call.ranks = 2;
  call.count = count;
  call.input[0] = reinterpret_cast<const std::byte*>(first.data());
  call.input[1] = reinterpret_cast<const std::byte*>(second.data());
  call.output[0] = reinterpret_cast<std::byte*>(out.data());
  call.output[1] = reinterpret_cast<std::byte*>(other.data());
  call.addend = reinterpret_cast<const std::byte*>(addend.data());
  const reduction<portable_codec<bfloat16>, operation::sum> red;
  lane_by_lane(3, 4, [&](auto& space) { reduce_jointly(space, call, red, 0); });
  for (std::uint64_t i = 0; i < count; ++i) {
    EXPECT_EQ(traits::decode(out[i]), 258.0f) << i;
    EXPECT_EQ(traits::decode(other[i]), 258.0f) << i;
  }
}

TEST(joint, pieces_are_copied_and_change_places) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const std::size_t bytes = random() % 700, shift = random() % 17;
    guarded_buffer a(bytes, shift), b(bytes, random() % 2 ? shift : random() % 17), c(bytes, shift);
    const auto fill = [&](guarded_buffer& g, unsigned salt) {
      for (std::size_t i = 0; i < bytes; ++i) g.data()[i] = static_cast<std::byte>(mix64(i * 3 + salt));
    };
    fill(a, 1);
    fill(b, 2);
    const bool swaps = round % 2 == 0;
    joint_piece p;
    p.bytes = bytes;
    p.from[0] = a.data();
    p.to[0] = swaps ? b.data() : c.data();
    if (swaps) p.from[1] = b.data(), p.to[1] = a.data();
    const unsigned blocks = 1 + random() % 4, lanes = 1 + random() % 33;
    lane_by_lane(blocks, lanes, [&](auto& space) { move_jointly(space, p); });
    EXPECT_TRUE(a.guards_untouched() && b.guards_untouched() && c.guards_untouched());
    for (std::size_t i = 0; i < bytes; ++i) {
      const auto first = static_cast<std::byte>(mix64(i * 3 + 1)),
                 second = static_cast<std::byte>(mix64(i * 3 + 2));
      ASSERT_EQ(a.data()[i], swaps ? second : first) << "byte " << i << " of " << bytes;
      ASSERT_EQ(b.data()[i], swaps ? first : second) << "byte " << i << " of " << bytes;
      ASSERT_TRUE(swaps || c.data()[i] == first) << "byte " << i << " of " << bytes;
    }
  }
}

}  // namespace
}  // namespace xyl::test
