// SPDX-License-Identifier: BSD-3-Clause
//
// A keyed hash for proofs of knowing a secret: SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input
// PRF", 2012). A pseudorandom function of 64 bits with a key of 128: who does not know the key can neither guess
// the hash of a message better than by chance (one in 2^64 for each try that somebody must answer) nor learn the
// key from hashes. It is no hash for looking up collisions without a key.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace xyl {

using hash_key = std::array<std::uint8_t, 16>;

std::uint64_t keyed_hash(const hash_key& key, std::span<const std::uint8_t> message);

}  // namespace xyl
