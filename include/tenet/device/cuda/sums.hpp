#pragma once

#include <algorithm>
#include <tenet/device/cuda/index.hpp>
#include <tenet/device/cuda/neighbours.hpp>
#include <tenet/device/cuda/team.hpp>

/// Long sums on a GPU, each in one kernel: terms are added up in parts, by teams that run at once, and the team that
/// ends last adds up the parts.
namespace tenet::gpu {

namespace detail {

/// Sums over the rows of a matrix. A lane is some neighbouring columns that one thread takes, `Terms::numbers` sums;
/// `terms.of(row, lane, to)` says what it adds up, and `terms.store(lane, sums)` takes what comes out.
///
/// Terms may have a quicker form, `terms.plain()`, for `terms.is_plain`. It is asked in three parts, so that nothing is
/// read behind a store, or waited for before all is asked for: `begin(lane)` finds what all rows of a lane need,
/// `load(row, lane)` reads, and `of(begun, loaded, row, lane, counts, to)` does the rest; not `counts`: the last row is
/// asked for again. Terms that store and have no such form have one row under way.
///
/// Threads of a team have `lanes_of_team` neighbouring lanes, and if it has more threads these share the rows. Some
/// rows are under way at once: what a thread waits for is memory.
template <class Terms>
struct Sums {
  static constexpr int numbers = Terms::numbers;
  static constexpr bool takes_whole_blocks = numbers >= 4;
  /// Teams of a GPU's processor: enough reads that wait for memory, and not more numbers than registers hold.
  static constexpr int blocks_of_processor = [] {
    if constexpr (requires { Terms::blocks_of_processor; })
      return Terms::blocks_of_processor;
    else
      return 3;
  }();
  static constexpr int most_at_once = 4;  ///< rows that a thread has under way

  Terms terms;
  long rows, lanes;
  int lanes_of_team;  ///< a power of two
  long parts, rows_of_part;
  Divisor tiles;  ///< of lanes_of_team lanes each
  float* sums_of_parts;
  unsigned* arrived;  ///< by tile

  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long block) const {
    const auto [part, tile] = divided(block, tiles);
    const auto add_up_part = [&](const auto& of) {
      add_up(team, tile, part * rows_of_part, part + 1 < parts ? (part + 1) * rows_of_part : rows, of,
             [&](long lane, const float* sums) {
               if (parts == 1) return terms.store(lane, sums);
               store_neighbours<numbers>(sums_of_parts + (part * lanes + lane) * numbers, sums);
             });
    };
    if constexpr (requires(const Terms& some) { some.plain(); }) {
      if (terms.is_plain)
        add_up_part(terms.plain());
      else
        add_up_part(terms);
    } else {
      add_up_part(terms);
    }
    if (parts == 1 || !team.is_last(arrived + tile, parts)) return;
    add_up(team, tile, 0, parts, SumsOfParts{sums_of_parts, lanes},
           [&](long lane, const float* sums) { terms.store(lane, sums); });
  }

 private:
  struct SumsOfParts {
    static constexpr int at_once = numbers > 8 ? 2 : most_at_once;
    const float* from;
    long lanes;
    TENET_HOST_DEVICE void of(long part, long lane, float* to) const {
      load_neighbours<numbers>(from + (part * lanes + lane) * numbers, to);
    }
  };

  template <class Of>
  static constexpr int at_once_of = [] {
    if constexpr (requires { Of::at_once; })
      return Of::at_once;
    else
      return most_at_once;
  }();

  struct Nothing {};
  template <class Of>
  static constexpr bool in_parts = requires(const Of& of, long lane) { of.begin(lane); };
  template <class Of>
  static TENET_HOST_DEVICE auto begin(const Of& of, long lane) {
    if constexpr (in_parts<Of>)
      return of.begin(lane);
    else
      return Nothing{};
  }
  template <class Of>
  static TENET_HOST_DEVICE auto load(const Of& of, long row, long lane) {
    if constexpr (in_parts<Of>)
      return of.load(row, lane);
    else
      return Nothing{};
  }

  /// The sums of a tile over the rows [first, last).
  template <class Members, class Of, class Store>
  TENET_HOST_DEVICE void add_up(const Members& team, long tile, long first, long last, const Of& of,
                                const Store& store) const {
    constexpr int at_once = at_once_of<Of>;
    const int width = lanes_of_team < Members::size ? lanes_of_team : Members::size, apart = Members::size / width;
    for (int at = 0; at < lanes_of_team; at += width) {
      const long lane = tile * lanes_of_team + at + team.rank() % width;
      float sums[numbers] = {};
      if (lane < lanes) {
        const auto begun = begin(of, lane);
        for (long row = first + team.rank() / width; row < last; row += at_once * apart) {
          const auto ahead = [&](int j) { return row + j * apart < last ? row + j * apart : last - 1; };
          decltype(load(of, row, lane)) loaded[at_once];
          float terms_of_rows[at_once][numbers];
          TENET_UNROLL
          for (int j = 0; j < at_once; ++j) loaded[j] = load(of, ahead(j), lane);
          TENET_UNROLL
          for (int j = 0; j < at_once; ++j) {
            if constexpr (in_parts<Of>)
              of.of(begun, loaded[j], ahead(j), lane, row + j * apart < last, terms_of_rows[j]);
            else
              of.of(ahead(j), lane, terms_of_rows[j]);
          }
          TENET_UNROLL
          for (int j = 0; j < at_once; ++j) TENET_UNROLL
          for (int k = 0; k < numbers; ++k)
            if (row + j * apart < last) sums[k] += terms_of_rows[j][k];
        }
      }
      team.template sum_of_lanes<numbers>(sums, width);
      if (team.rank() < width && lane < lanes) store(lane, sums);
    }
  }
};

}  // namespace detail

/// Starts sums over `rows` rows of so many lanes, see `detail::Sums`. Lanes that lie side by side in memory are read by
/// neighbouring threads, as many as take 128 bytes of a row; else these read neighbouring rows. How many parts there
/// are depends on the shape only, and so does the order of the sums. The parts' sums take the last 4 MiB of the
/// workspace.
template <class Executor, class Terms>
void run_sums(Executor& executor, const Terms& terms, long rows, long lanes, bool side_by_side) {
  // As many teams of 256 threads for each of a large GPU's processors as run at once; the last of them is to find few
  // parts, as it works alone.
  constexpr long threads = 256, most_teams = detail::Sums<Terms>::blocks_of_processor * 132, most_bytes = 4 << 20;
  constexpr int most_lanes = Terms::numbers > 8 ? 4 : Terms::numbers >= 4 ? 8 : 32;
  static_assert(most_teams * most_lanes * Terms::numbers * static_cast<long>(sizeof(float)) <= most_bytes);
  int lanes_of_team = 1;
  while (side_by_side && lanes_of_team < std::min<long>(lanes, most_lanes)) lanes_of_team *= 2;
  const long tiles = (lanes + lanes_of_team - 1) / lanes_of_team;
  const long rows_of_team = 2 * detail::Sums<Terms>::most_at_once * threads / lanes_of_team;  // worth a team of its own
  const long wanted = std::clamp(rows / rows_of_team, 1l, std::max(most_teams / std::max(tiles, 1l), 1l));
  const long rows_of_part = std::max((rows + wanted - 1) / wanted, 1l);
  const long parts = std::max((rows + rows_of_part - 1) / rows_of_part, 1l);
  char* const memory = static_cast<char*>(executor.workspace()) + (Executor::workspace_bytes - most_bytes);
  // A block's threads for a team, or a warp's where a thread has all rows of its lane, or one lane has few. (Where a
  // lane is several numbers there is always a block.)
  const bool by_warp = lanes_of_team == 32 ? rows <= 32 : lanes_of_team == 1 && rows / parts <= 1024;
  const long length = by_warp ? 32 : threads * threads;
  for_each_row(executor, parts * tiles, length,
               detail::Sums<Terms>{terms, rows, lanes, lanes_of_team, parts, rows_of_part, detail::Divisor(tiles),
                                   reinterpret_cast<float*>(memory), executor.counters()});
}

}  // namespace tenet::gpu
