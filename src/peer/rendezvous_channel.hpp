// SPDX-License-Identifier: BSD-3-Clause
//
// What goes over a connection between a rank (guest) and the process that serves a unique id (host). First, each
// proves to know the id's secret, which itself is never sent:
//
//   host  -> guest  greeting: a random number
//   guest -> host   hello:    a random number, who it is, and the keyed hash of both numbers and that
//   host  -> guest  answer:   the keyed hash of all that, or that the hello's was wrong
//
// Both numbers are fresh, so neither message can be played again. Then frames, under keys that are made of
// the secret and the two numbers: what they carry (other secrets, in the ranks' introductions) is masked by the
// keyed hash of a counter, and each has a tag, the keyed hash of direction, number, kind, length and masked bytes.
// Who can listen to the network learns nothing of it, who can change what passes can only end the connection.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/keyed_hash.hpp"
#include "base/result.hpp"

namespace xyl {

using handshake_nonce = std::array<std::uint8_t, 16>;

// Changes with any of the messages below.
inline constexpr std::uint32_t rendezvous_version = 1;

struct rendezvous_greeting {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t unused;
  handshake_nonce nonce;

  static result make(rendezvous_greeting& out);
  bool plausible() const;
};

struct rendezvous_hello {
  std::uint64_t magic;
  std::int32_t rank;
  std::int32_t ranks;
  std::int64_t process;     // number of the rank's process
  std::int64_t timeout_ns;  // how long it will wait for the others
  handshake_nonce nonce;
  std::uint64_t proof;

  static result make(const hash_key& secret, const rendezvous_greeting& greeting, int rank, int ranks,
                     std::int64_t timeout_ns, rendezvous_hello& out);
  bool plausible() const;
  bool proven(const hash_key& secret, const rendezvous_greeting& greeting) const;
};

struct rendezvous_answer {
  enum : std::uint32_t { welcome = 1, wrong_secret = 2 };
  std::uint64_t magic;
  std::uint32_t verdict;
  std::uint32_t unused;
  std::uint64_t proof;  // 0 with wrong_secret

  static rendezvous_answer make(const hash_key& secret, const rendezvous_greeting& greeting,
                                const rendezvous_hello& hello);
  static rendezvous_answer refusal();
  bool plausible() const;
  bool proven(const hash_key& secret, const rendezvous_greeting& greeting, const rendezvous_hello& hello) const;
};

enum class frame_kind : std::uint8_t {
  data = 1,     // a rank's part of an exchange; the host's answer: all parts
  failure = 2,  // from the host: a report, after which it says nothing more
  done = 3      // from a guest: it needs no further exchange
};

class rendezvous_channel {
 public:
  enum class side : std::uint8_t { host = 1, guest = 2 };
  enum class arrival { nothing, frame, end };

  // most_bytes: of a frame that may come.
  rendezvous_channel(side mine, const hash_key& secret, const rendezvous_greeting& greeting,
                     const rendezvous_hello& hello, std::size_t most_bytes);

  void queue(frame_kind kind, std::span<const std::uint8_t> payload);
  bool has_queued() const { return sent_ < out_.size(); }
  // Sends what the socket takes at once. True unless the connection has ended.
  bool flush(int socket);
  // Takes what has come, at most one frame; call again until `nothing`. An error: what came is not the other
  // side's.
  result receive(int socket, arrival& what, frame_kind& kind, std::vector<std::uint8_t>& payload);

 private:
  void mask(std::uint8_t direction, std::uint64_t number, std::span<std::uint8_t> bytes) const;
  std::uint64_t tag_of(std::span<const std::uint8_t> frame) const;

  side mine_;
  hash_key tag_key_;
  hash_key mask_key_;
  std::size_t most_bytes_;
  std::uint64_t next_out_ = 0;
  std::uint64_t next_in_ = 0;
  std::vector<std::uint8_t> out_;
  std::size_t sent_ = 0;
  std::vector<std::uint8_t> in_;
};

}  // namespace xyl
