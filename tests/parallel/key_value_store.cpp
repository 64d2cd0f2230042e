#include "tenet/parallel/key_value_store.hpp"

#include <algorithm>

#include "../support/message.hpp"
#include "../support/processes.hpp"
#include "../support/ranks.hpp"

using namespace tenet;
using namespace std::chrono_literals;

namespace {

using Store = KeyValueStore<ThreadTransport>;

void expect(bool holds, const char* what) {
  if (!holds) throw Error(std::string("does not hold: ") + what);
}
std::vector<float> ramp(long floats, float from) {
  std::vector<float> result(static_cast<std::size_t>(floats));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = from + static_cast<float>(i % 97);
  return result;
}

}  // namespace

TEST_CASE("what all ranks push in a round is added up, and all of them pull the same", "[key_value_store]") {
  for (const int size : {1, 2, 3, 5})
    for (const auto& servers : {std::vector<int>{}, std::vector<int>{0}, std::vector<int>{size - 1}}) {
      CAPTURE(size, servers);
      ranks::run_well(size, [&](ThreadTransport& transport) {
        Store store(transport, {.servers = servers});
        // Small values, and large ones that lie on all servers.
        for (const int key : {0, 1, 2, 7}) {
          const long floats = key == 7 ? 100'003 : 10 + key;
          const std::vector<float> zero(static_cast<std::size_t>(floats));
          if (store.rank() == 0) store.assign(key, zero).wait();
          std::vector<float> found(static_cast<std::size_t>(floats), -1);
          for (int step = 1; step <= 5; ++step) {
            const auto mine = ramp(floats, static_cast<float>(step * (1 + store.rank())));
            PendingRequest pushed = store.push(key, mine);
            PendingRequest pulled = store.pull(key, found);
            pushed.wait();
            pulled.wait();
            const auto ranks = static_cast<float>(size);
            for (std::size_t i = 0; i < found.size(); ++i)
              expect(
                  found[i] == static_cast<float>(step) * ranks * (ranks + 1) / 2 + ranks * static_cast<float>(i % 97),
                  "the sum");
          }
        }
      });
    }
}

TEST_CASE("without rounds every push counts at once, in whatever order", "[key_value_store]") {
  std::atomic<long> updates{0};
  ranks::run_well(3, [&](ThreadTransport& transport) {
    Store store(transport, {.consistency = Consistency::asynchronous(),
                            .servers = {1},
                            .updater = [&](const Pushed& pushed, std::span<float> value) {
                              ++updates;
                              for (std::size_t i = 0; i < value.size(); ++i) value[i] += pushed.values[i];
                            }});
    const std::vector<float> zero(20), one(20, 1.0f);
    std::vector<float> found(20);
    if (store.rank() == 2) store.assign(5, zero).wait();
    store.pull(5, found).wait();  // it exists
    for (int step = 1; step <= 100; ++step) {
      store.push(5, one, {.weight = 2}).wait();
      store.pull(5, found).wait();
      for (const float x : found) expect(x >= 2.0f * static_cast<float>(step) && x <= 600, "own pushes are there");
    }
    store.synchronize();
    store.pull(5, found).wait();
    for (const float x : found) expect(x == 600, "all pushes are there");
  });
  CHECK(updates == 300);
}

TEST_CASE("nobody is further ahead than the staleness allows", "[key_value_store]") {
  for (const long bound : {0L, 1L, 3L}) {
    CAPTURE(bound);
    std::atomic<long> done[2]{}, worst{0}, seen{0};
    ranks::run_well(2, [&](ThreadTransport& transport) {
      Store store(transport, {.consistency = Consistency::bounded_staleness(bound), .servers = {0}});
      const float one = 1;
      float found = 0;
      if (store.rank() == 0) store.assign(0, {&one, 1}).wait();
      for (int step = 1; step <= 200; ++step) {
        if (store.rank() == 1 && step % 50 == 0) std::this_thread::sleep_for(5ms);  // the slow one
        ++done[store.rank()];
        store.push(0, {&one, 1}).wait();
        store.pull(0, {&found, 1}).wait();
        // The other one has begun to push at least so many: what this one did, less the bound.
        const long lead = done[store.rank()] - done[1 - store.rank()];
        if (lead > worst) worst = lead;
      }
      store.synchronize();
      if (store.rank() == 0) seen = store.largest_lead();
    });
    CHECK(worst <= bound);
    CHECK(seen <= bound);
    CHECK((bound == 0 || seen > 0));  // the quick one does run ahead
  }
}

TEST_CASE("requests of a higher priority overtake those that wait, but none of their own key", "[key_value_store]") {
  // The server takes two pushes at a time: behind the first large ones the others wait.
  std::vector<int> order;
  ranks::run_well(2, [&](ThreadTransport& transport) {
    Store store(transport, {.consistency = Consistency::asynchronous(),
                            .servers = {1},
                            .updater = [&](const Pushed& pushed, std::span<float>) {
                              order.push_back(pushed.key);
                              std::this_thread::sleep_for(60ms);
                            }});
    if (store.rank() == 1) return store.synchronize();
    const std::vector<float> values(10);
    for (const int key : {1, 2, 3, 4, 5}) store.assign(key, values).wait();
    std::vector<PendingRequest> all;
    for (const int key : {1, 2, 3, 4}) all.push_back(store.push(key, values));
    all.push_back(store.push(5, values, {.priority = 7}));
    all.push_back(store.push(3, values, {.priority = 9}));
    for (PendingRequest& request : all) request.wait();
    store.synchronize();
  });
  REQUIRE(order.size() == 6);
  const auto place = [&](int key, int from = 0) {
    return std::find(order.begin() + from, order.end(), key) - order.begin();
  };
  CHECK(place(5) < place(4));
  CHECK(place(3) < place(3, static_cast<int>(place(3)) + 1));
}

TEST_CASE("large values lie on all servers, small ones on one after the other", "[key_value_store]") {
  for (const auto& servers : {std::vector<int>{0, 1, 2}, std::vector<int>{2, 0}}) {
    CAPTURE(servers);
    const auto n = static_cast<int>(servers.size());
    constexpr int small = 6;  // keys 0 to 5
    // What has come to each server: keys with first number and length.
    using Part = std::array<float, 3>;
    const auto found = ranks::collect(3, [&](ThreadTransport& transport) {
      std::vector<Part> parts;
      Store store(transport, {.servers = servers, .updater = [&](const Pushed& pushed, std::span<float>) {
                                parts.push_back({static_cast<float>(pushed.key), static_cast<float>(pushed.first),
                                                 static_cast<float>(pushed.values.size())});
                              }});
      const std::vector<float> values(static_cast<std::size_t>(4096 * n));
      for (int key = 0; key <= small + 1; ++key) {
        const std::span<const float> all(values),
            value = key < small ? all.first(10) : all.first(values.size() - static_cast<std::size_t>(key - small));
        if (store.rank() == 0) store.assign(key, value).wait();
        store.push(key, value).wait();
      }
      store.synchronize();
      std::sort(parts.begin(), parts.end());
      std::vector<float> result;
      for (const Part& part : parts) result.insert(result.end(), part.begin(), part.end());
      return result;
    });
    std::vector<std::vector<float>> expected(3);
    for (int i = 0; i < n; ++i) {
      auto& parts = expected[static_cast<std::size_t>(servers[static_cast<std::size_t>(i)])];
      for (int key = i; key < small; key += n) parts.insert(parts.end(), {static_cast<float>(key), 0, 10});
      parts.insert(parts.end(), {small, static_cast<float>(4096 * i), 4096});  // as many as all of them share
      if (i == (small + 1) % n) parts.insert(parts.end(), {small + 1, 0, static_cast<float>(4096 * n - 1)});
    }
    CHECK(found == expected);
  }
}

TEST_CASE("a pull of a higher priority overtakes those that wait", "[key_value_store]") {
  // Two pulls at a time: of keys that nobody has assigned yet. Of those behind them, one is answered as soon as its own
  // key and one of the first two are there only if it is sent before the others.
  ranks::run_well(2, [&](ThreadTransport& transport) {
    Store store(transport, {.consistency = Consistency::asynchronous(), .servers = {1}, .limit = 10s});
    if (store.rank() == 0) {
      float found[6]{};
      std::vector<PendingRequest> pulls(1);  // pulls[k] is of key k
      for (const int key : {1, 2, 3, 4, 5})
        pulls.push_back(store.pull(key, {&found[key], 1}, {.priority = key == 5 ? 7 : 0}));
      for (const int key : {1, 5, 3, 4, 2}) {
        const auto value = static_cast<float>(key);
        store.assign(key, {&value, 1}).wait();
        if (key == 5) pulls[5].wait();
      }
      for (PendingRequest& pull : pulls) pull.wait();
      for (const int key : {1, 2, 3, 4, 5}) expect(found[key] == static_cast<float>(key), "the value");
    }
    store.synchronize();
  });
}

TEST_CASE("a request is ready when it is answered, and when no answer can come", "[key_value_store]") {
  std::atomic<bool> goes_on{false};
  ranks::run_well(2, [&](ThreadTransport& transport) {
    Store store(transport, {.limit = 20s});
    const std::vector<float> ones(20'000, 1.0f);  // a part on each rank
    std::vector<float> found(ones.size());
    if (store.rank() == 0) store.assign(0, found).wait();
    if (store.rank() == 1) expect(wait_until([&] { return goes_on.load(); }, 20s), "the other one goes on");
    PendingRequest pushed = store.push(0, ones), pulled = store.pull(0, found);
    pushed.wait();
    expect(pushed.ready(), "who has waited is done");
    if (store.rank() == 0) {
      const bool was_ready = pulled.ready();
      goes_on = true;
      expect(!was_ready, "the other one has not pushed");
    }
    expect(wait_until([&] { return pulled.ready(); }, 20s), "an answer, though nobody waits for it");
    for (const float x : found) expect(x == 2, "the sum is there");
    pulled.wait();
    store.synchronize();
  });
  ranks::run(2, [&](ThreadTransport& transport) {
    Store store(transport, {.servers = {1}, .limit = 300ms});
    if (store.rank() == 1) return std::this_thread::sleep_for(1s);
    float values[2]{};
    PendingRequest first = store.pull(0, {&values[0], 1}), second = store.pull(1, {&values[1], 1});
    CHECK(!second.ready());
    CHECK(message_of([&] { first.wait(); }) != "");  // nobody assigns these keys
    CHECK(second.ready());
    CHECK(message_of([&] { second.wait(); }) != "");
  });
}

TEST_CASE("whoever waits serves meanwhile, and else the store's thread does", "[key_value_store]") {
  std::atomic<int> by_waiting{0}, by_thread{0}, pushed{0}, meetings{0};
  std::atomic<bool> again{true}, have_all{false};
  const auto begin = std::chrono::steady_clock::now();
  ranks::run_well(2, [&](ThreadTransport& transport) {
    const std::thread::id own = std::this_thread::get_id();
    Store store(transport, {.consistency = Consistency::asynchronous(), .servers = {0}, .updater = [&, own](auto&&...) {
                              ++(std::this_thread::get_id() == own ? by_waiting : by_thread);
                            }});
    const bool serves = store.rank() == 0;
    float value = 0;
    if (serves) store.assign(0, {&value, 1}).wait();
    store.pull(0, {&value, 1}).wait();
    const auto meet = [&] {
      const int expected = ++meetings;
      wait_until([&] { return meetings >= (expected + 1) / 2 * 2; }, 30s);
    };
    // Rank 0 waits for a value that comes behind each of the other's pushes. Who has waited in vain for a while leaves
    // the rest to the thread, and the other rank may be late, in each of some rounds: then there are more.
    for (int key = 1; again;) {
      for (const int end = key + 100; key < end; ++key) {
        if (serves) {
          store.pull(key, {&value, 1}).wait();
        } else {
          ++pushed;
          store.push(0, {&value, 1}).wait();
          store.assign(key, {&value, 1}).wait();
        }
      }
      meet();
      if (serves) again = by_waiting == 0 && std::chrono::steady_clock::now() - begin < 20s;
      meet();
    }
    if (serves) {
      wait_until([&] { return have_all.load(); }, 30s);
      return;
    }
    const int before = by_thread;
    for (int push = 0; push < 100; ++push, ++pushed) store.push(0, {&value, 1}).wait();
    expect(by_thread >= before + 90, "the thread serves while its rank does something else");
    have_all = true;
  });
  CHECK(by_waiting > 0);
  CHECK(by_waiting + by_thread == pushed);
}

TEST_CASE("what is asked for by someone who is about to wait wakes nobody, and is sent all the same",
          "[key_value_store]") {
  ranks::run_well(1, [&](ThreadTransport& transport) {
    Store store(transport, {.consistency = Consistency::asynchronous()});
    const float one = 1;
    float found = 0;
    store.assign(0, {&one, 1}).wait();
    const auto sorted_until_ready = [&](auto ask) {
      std::vector<double> seconds;
      for (int round = 0; round < 31; ++round) {
        std::this_thread::sleep_for(3ms);  // the thread falls asleep
        const auto begin = std::chrono::steady_clock::now();
        PendingRequest request = ask();
        while (!request.ready()) std::this_thread::yield();
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      }
      std::sort(seconds.begin(), seconds.end());
      return seconds;
    };
    const auto push = [&](bool wakes) { return [&, wakes] { return store.push(0, {&one, 1}, {.wakes = wakes}); }; };
    const auto pull = [&](bool wakes) { return [&, wakes] { return store.pull(0, {&found, 1}, {.wakes = wakes}); }; };
    // The thread looks every 2 ms by itself. Of what wakes it the quickest quarter: others use the processors, too.
    expect(sorted_until_ready(push(false))[15] > 3 * sorted_until_ready(push(true))[7], "a push wakes it, or not");
    expect(sorted_until_ready(pull(false))[15] > 3 * sorted_until_ready(pull(true))[7], "a pull wakes it, or not");
    store.push(0, {&one, 1}, {.wakes = false}).wait();
    store.pull(0, {&found, 1}, {.wakes = false}).wait();
    expect(found == 1, "what has been pushed");
  });
}

TEST_CASE("several threads wait for one store, each for as long as it has to", "[key_value_store]") {
  std::atomic<int> pulled{0};
  std::atomic<bool> goes_on{false};
  ranks::run_well(2, [&](ThreadTransport& transport) {
    Store store(transport, {.consistency = Consistency::asynchronous()});
    float value = 1;
    if (store.rank() == 1) {
      wait_until([&] { return goes_on.load(); }, 30s);
      expect(pulled == 2000, "others are answered while one waits");
      store.assign(7, {&value, 1}).wait();
      return;
    }
    store.assign(0, {&value, 1}).wait();
    std::thread late([&] {
      float other = 0;
      store.pull(7, {&other, 1}).wait();  // rank 1 assigns it when the others have got all of theirs
      pulled = -1;
    });
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([&] {
        float other = 0;
        for (int i = 0; i < 500; ++i, ++pulled) store.pull(0, {&other, 1}).wait();
      });
    for (std::thread& thread : threads) thread.join();
    goes_on = true;
    late.join();
    expect(pulled == -1, "the late one");
  });
}

TEST_CASE("the updater is told of weights and settings, the reduction is the user's", "[key_value_store]") {
  ranks::run_well(3, [&](ThreadTransport& transport) {
    float weight = 0, setting = 0;
    Store store(transport, {.servers = {0},
                            .reduction =
                                [](std::span<float> sum, std::span<const float> pushed) {
                                  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = std::max(sum[i], pushed[i]);
                                },
                            .updater =
                                [&](const Pushed& pushed, std::span<float> value) {
                                  if (pushed.key < 0) return;
                                  weight = pushed.weight;
                                  setting = pushed.settings[1];
                                  std::copy(pushed.values.begin(), pushed.values.end(), value.begin());
                                }});
    const float settings[]{0.5f, 0.25f};
    const float mine = static_cast<float>(store.rank());
    float found = -1;
    if (store.rank() == 0) store.assign(0, {&found, 1}).wait();
    store.push(0, {&mine, 1}, {.weight = 4, .settings = settings}).wait();
    store.pull(0, {&found, 1}).wait();
    expect(found == 8, "the largest of 0, 4 and 8");
    store.synchronize();
    if (store.rank() == 0) expect(weight == 12 && setting == 0.25f, "weights and settings");
    const float many[9]{};
    expect(message_of([&] { store.push(0, many, {.settings = many}); }) ==
               "KeyValueStore::push: settings; expected at most 8, found 9",
           "a bound of settings");
    expect(message_of([&] {
             store.pull(-1, {&found, 1});
           }) == "KeyValueStore: key; expected not negative, found -1",
           "the store's own keys");
  });
}

TEST_CASE("what a store cannot do it says", "[key_value_store]") {
  ranks::run_well(2, [&](ThreadTransport& transport) {
    Store store(transport, {.servers = {1}, .limit = 20s});
    std::vector<float> ten(10), eleven(11);
    if (store.rank() == 0) {
      store.assign(3, ten).wait();
      const auto message = [&](PendingRequest request) { return message_of([&] { request.wait(); }); };
      expect(message(store.push(3, eleven)) ==
                 "rank 0, push of key 3: another length than the key's on rank 1; expected 10, found 11",
             "the length of a push");
      expect(message(store.pull(3, eleven)) ==
                 "rank 0, pull of key 3: another length than the key's on rank 1; expected 10, found 11",
             "the length of a pull");
      expect(message_of([&] { store.pull(3, ten, {.behind = 2}); }) ==
                 "KeyValueStore::pull: behind; expected a rank below 2, found 2",
             "a rank that there is not");
    }
    store.synchronize();
  });
  const auto messages = ranks::run(2, [&](ThreadTransport& transport) {
    Store store(transport, {.servers = {1}, .limit = 2s});
    float value = 1;
    if (store.rank() == 0) {
      store.assign(3, {&value, 1}).wait();
      store.push(3, {&value, 1}).wait();
      store.pull(3, {&value, 1}).wait();  // the other one never pushes
    }
  });
  CHECK(messages[0] ==
        "rank 0, pull of key 3: waits for server 1, which waits for a push from rank 1; expected within 2 s, found "
        "no answer");
  // Whoever has waited in vain has the memory back, whatever comes afterwards.
  std::atomic<int> changed{0};
  const auto late = ranks::run(2, [&](ThreadTransport& transport) {
    Store store(transport, {.servers = {1}, .limit = 500ms});
    std::vector<float> values(1000, 1.0f);
    if (store.rank() == 0) store.assign(3, values).wait();
    if (store.rank() == 1) std::this_thread::sleep_for(1s);
    store.push(3, values).wait();
    try {
      store.pull(3, values).wait();
    } catch (...) {
      std::fill(values.begin(), values.end(), 7.0f);
      std::this_thread::sleep_for(1s);
      for (const float x : values) changed += x != 7.0f;
      throw;
    }
  });
  CHECK(late[0].find("rank 0, pull of key 3: waits for server 1") == 0);
  CHECK(late[1] != "");
  CHECK(changed == 0);
  const auto wrong = ranks::run(1, [&](ThreadTransport& transport) { Store store(transport, {.servers = {1}}); });
  CHECK(wrong[0] == "KeyValueStore: no such server; expected a rank from 0 to 0, found 1");
}

TEST_CASE("what ends the communication of a store comes out where its requests are waited for", "[key_value_store]") {
  const auto messages = ranks::run(2, [&](ThreadTransport& transport) {
    Store store(transport, {.servers = {1}});
    float value = 1;
    if (store.rank() == 1) throw Error("rank 1 has a fault");  // its store waits for the other one to leave
    store.assign(0, {&value, 1}).wait();
    store.push(0, {&value, 1}).wait();
  });
  CHECK(messages[1] == "rank 1 has a fault");
}

TEST_CASE("a server whose process is killed is named at once by those who wait for it", "[key_value_store]") {
  for (const int victim : {0, 2}) {
    const auto messages = processes::run(3, [&](SharedMemoryTransport& transport) {
      KeyValueStore store(std::move(transport), {.limit = 30s});
      std::vector<float> value(20'000);  // a part on each rank
      if (store.rank() == 0) store.assign(0, value).wait();
      for (int step = 0; step < 100'000; ++step) {
        if (store.rank() == victim && step == 5) raise(SIGKILL);
        PendingRequest pushed = store.push(0, value), pulled = store.pull(0, value);
        pushed.wait();
        pulled.wait();
      }
    });
    for (int rank = 0; rank < 3; ++rank) {
      const std::string& message = messages[static_cast<std::size_t>(rank)];
      CAPTURE(rank, victim, message);
      if (rank == victim)
        CHECK(message == "signal 9");
      else
        CHECK(message.ends_with("the process of rank " + std::to_string(victim) + " has ended"));
    }
  }
}
