#pragma once

#include <array>
#include <chrono>
#include <span>
#include <tenet/parallel/key_value_messages.hpp>
#include <tenet/parallel/key_value_shards.hpp>
#include <utility>
#include <vector>

namespace tenet::detail {

/// What a rank of a key-value store does as a server: it takes what is assigned and pushed to its parts of values, and
/// answers pulls, as soon as these may be answered.
template <Transport T>
class StoreServer {
 public:
  using Limit = std::chrono::nanoseconds;

  /// `limit`: for which those who ask wait.
  StoreServer(StoreMessages<T>& messages, KeyValueShards::Reduction reduction, KeyValueShards::Updater updater,
              Limit limit)
      : messages_(messages),
        shards_(messages.size(), std::move(reduction), std::move(updater)),
        answers_(static_cast<std::size_t>(messages.size())),
        limit_(limit) {}

  /// See `KeyValueStore`.
  long largest_lead() const { return shards_.largest_lead.load(std::memory_order_relaxed); }

  /// Receives the numbers behind the header.
  void take_values(int from, const StoreHeader& header) {
    std::vector<float> values = shards_.room(header.floats);
    messages_.receive_into(from, values);
    const long known = header.kind == StoreHeader::Kind::push ? shards_.push(from, header, std::move(values))
                                                              : shards_.assign(from, header, std::move(values));
    answer(from, header, known);
    answer_pulls();
  }
  void take_pull(int from, const StoreHeader& header) {
    pulls_.push_back({from, header, std::chrono::steady_clock::now(), false});
    answer_pulls();
  }

  /// Whoever has waited for half of the limit is told for whom, to say so if nothing comes.
  void tell_who_is_missed() {
    for (Pull& pull : pulls_) {
      if (pull.is_told || std::chrono::steady_clock::now() - pull.since < limit_ / 2) continue;
      pull.is_told = true;
      messages_.send(
          pull.from,
          {.kind = StoreHeader::Kind::waits, .slot = pull.header.slot, .key = shards_.keeps_waiting(pull.header)});
    }
  }

 private:
  /// That cannot be answered yet.
  struct Pull {
    int from;
    StoreHeader header;
    std::chrono::steady_clock::time_point since;
    bool is_told;
  };

  /// `known` is the length of the key's value where it is another one, else 0.
  void answer(int to, const StoreHeader& request, long known) {
    messages_.send(to, {.kind = known != 0 ? StoreHeader::Kind::refused : StoreHeader::Kind::acknowledged,
                        .slot = request.slot,
                        .floats = known});
  }
  void answer_pulls() {
    std::erase_if(pulls_, [&](const Pull& pull) {
      const std::span<const float> value = shards_.pull(pull.from, pull.header);
      if (value.data() == nullptr) return false;
      const auto length = static_cast<long>(value.size());
      if (length != pull.header.floats) return answer(pull.from, pull.header, length), true;
      auto& copy = answers_[static_cast<std::size_t>(pull.from)][pull_of(pull.header)];
      copy.assign(value.begin(), value.end());
      messages_.send(pull.from, {.kind = StoreHeader::Kind::pulled, .slot = pull.header.slot});
      messages_.send(pull.from, copy);
      return true;
    });
  }
  /// Which of a rank's pulls at a time: their slots are behind those of pushes.
  static std::size_t pull_of(const StoreHeader& header) {
    return static_cast<std::size_t>(header.slot - requests_at_a_time);
  }

  StoreMessages<T>& messages_;
  KeyValueShards shards_;
  std::vector<Pull> pulls_;
  // To each rank, until it asks again.
  std::vector<std::array<std::vector<float>, requests_at_a_time>> answers_;
  Limit limit_;
};

}  // namespace tenet::detail
