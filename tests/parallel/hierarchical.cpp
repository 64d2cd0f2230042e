#include "tenet/parallel/hierarchical.hpp"

#include <tenet/parallel/distributed.hpp>

#include "../support/machines.hpp"
#include "../support/training_ranks.hpp"

using namespace tenet;
using ranks::OnMachines;

namespace {

/// Ranks that are threads, so many on each machine.
template <int ranks_of_machine>
struct OnMachinesOf : ranks::Threads {
  using World = ranks::MachineWorld<ranks_of_machine>;
};

/// What rank 0 has sent: messages, floats inside of its machine, and to others.
struct Sent {
  int messages;
  long inside, between;
  friend bool operator==(const Sent&, const Sent&) = default;
};
std::ostream& operator<<(std::ostream& out, const Sent& sent) {
  return out << sent.messages << " messages, " << sent.inside << " inside, " << sent.between << " between";
}
template <class Synchronisation>
Sent sent_by(const std::vector<int>& machine_of_rank, long floats) {
  Sent result{};
  const int n = static_cast<int>(machine_of_rank.size());
  ranks::run_well(n, [&](ThreadTransport& transport) {
    OnMachines on(transport, machine_of_rank);
    std::vector<float> data(static_cast<std::size_t>(floats), 1.0f);
    Synchronisation::reduce(on, data.data(), floats, {"bucket", 0, 1}, 0.5f);
    for (const float value : data)
      if (value != 0.5f * static_cast<float>(n))
        fail("reduce", "wrong sum", std::to_string(0.5 * n), std::to_string(value));
    if (on.rank() == 0) result = {on.messages, on.sent_inside, on.sent_between};
  });
  return result;
}

}  // namespace

TEST_CASE("ranks of machines of equal or different sizes train as one device does", "[hierarchical]") {
  using Net = networks::WholeRows;
  const auto check = [](auto of, std::vector<int> parts) {
    const auto with = [&]<class Inner, class Outer>(Hierarchical<Inner, Outer>) {
      ranks::check_training<decltype(of), Net, CrossEntropy, Sgd, Features<16>, Hierarchical<Inner, Outer>,
                            BucketBytes<4096>>(parts, Sgd{.learning_rate = 0.05f, .momentum = 0.9f});
    };
    with(Hierarchical<AllReduce, Ring>{});
    with(Hierarchical<Ring, AllReduce>{});
  };
  check(OnMachinesOf<2>{}, {3, 1, 2, 4});
  check(OnMachinesOf<3>{}, {3, 1, 2, 4});  // three ranks and one
  check(OnMachinesOf<3>{}, {1, 2, 1, 2, 1, 2});
}

TEST_CASE("Inner says what goes inside of machines, Outer what goes between", "[hierarchical]") {
  // Halving of 4 ranks sends twice twice, a ring three times twice; between 4 machines the same.
  const std::vector<int> four_of_four{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  constexpr long m = 16 * 16 * 500, inside = 2 * 3 * m / 4, between = 2 * 3 * m / 4 / 4;
  CHECK(sent_by<Hierarchical<AllReduce, AllReduce>>(four_of_four, m) == Sent{4 + 4, inside, between});
  CHECK(sent_by<Hierarchical<AllReduce, Ring>>(four_of_four, m) == Sent{4 + 6, inside, between});
  CHECK(sent_by<Hierarchical<Ring, AllReduce>>(four_of_four, m) == Sent{6 + 4, inside, between});
  CHECK(sent_by<Hierarchical<Ring, Ring>>(four_of_four, m) == Sent{6 + 6, inside, between});
  // What a rank sends altogether is what its traffic says.
  CHECK(inside + between == Hierarchical<Ring, Ring>::traffic.gradients->moved(16, m));
  // One machine, and one rank each.
  const std::vector<int> one{0, 0, 0, 0}, four{0, 1, 2, 3};
  CHECK(sent_by<Hierarchical<Ring, AllReduce>>(one, m) == Sent{6, inside, 0});
  CHECK(sent_by<Hierarchical<AllReduce, Ring>>(one, m) == Sent{4, inside, 0});
  CHECK(sent_by<Hierarchical<Ring, AllReduce>>(four, m) == Sent{4, 0, inside});
  CHECK(sent_by<Hierarchical<AllReduce, Ring>>(four, m) == Sent{6, 0, inside});
}

TEST_CASE("few numbers go in the quickest way, whatever Inner and Outer", "[hierarchical]") {
  const std::vector<int> of_rank{0, 0, 1, 1};
  CHECK(sent_by<Hierarchical<Ring, Ring>>(of_rank, 3) == sent_by<AllReduce>(of_rank, 3));
  CHECK(sent_by<Hierarchical<Ring, Ring>>(of_rank, 3) == Sent{2, 3, 3});
}

TEST_CASE("a hierarchy is expected to take what its levels take", "[hierarchical]") {
  constexpr long m = 16 * 8 * 500;
  LinkCost link{1e-5, 1e-8, 0};
  const auto seconds = [&]<class Inner, class Outer>(Hierarchical<Inner, Outer>, int workers, long floats) {
    return Hierarchical<Inner, Outer>::traffic.gradients->seconds(workers, floats, link);
  };
  const Hierarchical<Ring, AllReduce> ring_inside;
  const Hierarchical<AllReduce, Ring> ring_between;
  CHECK(seconds(ring_inside, 8, m) == AllReduceTimes(8, m, link).by_ring);  // nothing is known of machines
  CHECK(seconds(ring_between, 8, m) == AllReduceTimes(8, m, link).least());
  link.machine = {.count = 2, .fewest = 4, .most = 4, .seconds = 1e-6, .seconds_per_float = 1e-9};
  const LinkCost flat = detail::between_machines(link);
  CHECK(seconds(ring_inside, 8, m) == Approx(6 * 1e-6 + 2 * 0.75 * m * 1e-9 + AllReduceTimes(2, m / 4, flat).least()));
  CHECK(seconds(ring_between, 8, m) == Approx(4 * 1e-6 + 2 * 0.75 * m * 1e-9 + AllReduceTimes(2, m / 4, flat).by_ring));
  CHECK(seconds(ring_inside, 8, 10) == AllReduceTimes(8, 10, link).least());
  link.machine = {.count = 8};
  CHECK(seconds(ring_inside, 8, m) == AllReduceTimes(8, m, link).least());
  CHECK(seconds(ring_between, 8, m) == AllReduceTimes(8, m, link).by_ring);
}

TEST_CASE("AllReduce goes by machines by itself, and gives the same bits with Reproducible", "[hierarchical]") {
  const std::vector<int> of_rank{0, 0, 0, 0, 1, 1, 1, 1};
  CHECK(sent_by<AllReduce>(of_rank, 16 * 8 * 500).between == 16 * 500 * 2);  // 2 (M - 1)/M of a quarter, in halves
  ranks::check_bits<OnMachinesOf<2>, networks::WholeRows, Features<16>>({2, 4, 8});
  ranks::check_bits<OnMachinesOf<3>, networks::WholeRows, Features<16>>({2, 4});
  using Policy = Policies<Features<16>, Distributed<ThreadWorld>, Hierarchical<AllReduce, AllReduce>, Reproducible>;
  static_assert(std::is_same_v<decltype(Policy::explanation<mistake::Nothing>())::type,
                               mistake::NotReproducible<Distributed<ThreadWorld>, mistake::Nothing>>);
}

TEST_CASE("a summary says what goes inside of machines and between them", "[hierarchical]") {
  const auto line = []<class Policy>() {
    using T = Trainer<networks::WholeRows, CrossEntropy, PlainSgd, Features<16>, Distributed<ThreadWorld>, Policy>;
    return detail::synchronisation_text<typename T::Chosen, typename T::Training>();
  };
  CHECK(line.operator()<Hierarchical<AllReduce, Ring>>().starts_with(
      "synchronisation: all-reduce inside of machines, rings between them (synchronous); each of n ranks sends "
      "2 (n - 1)/n · "));
  CHECK(line.operator()<Hierarchical<Ring, AllReduce>>().starts_with(
      "synchronisation: rings inside of machines, all-reduce between them (synchronous); "));
  CHECK(Hierarchical<Ring, Ring>::name == std::string("rings inside of machines and between them"));
  CHECK(Hierarchical<AllReduce, AllReduce>::name == std::string("all-reduce inside of machines and between them"));
}
