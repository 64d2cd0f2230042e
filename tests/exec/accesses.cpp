#include "tenet/exec/accesses.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <tenet/parallel/inter_op_parallel.hpp>
#include <tenet/tenet.hpp>

#include "../../examples/models/lenet.hpp"
#include "../support/joining_device.hpp"
#include "../support/network.hpp"
#include "../support/networks.hpp"
#include "../support/turned_device.hpp"

using namespace tenet;

namespace {

/// Runs a program step by step, in memory that knows what each step may use.
template <class Program, class Device>
class Watched {
 public:
  using Kernels = typename Program::Kernels;
  using Floats = std::vector<float, std::allocator<float>>;

  explicit Watched(int batch) : room_(Program::lowered.room_for(batch)), executor_(make_executor<Device, Kernels>()) {
    const long parameters = Program::slots.parameter_floats;
    const long sizes[8] = {Program::per_sample_floats * room_, Program::fixed_floats,  parameters, parameters,
                           Program::slots.buffer_floats,       max_states * parameters};
    for (std::size_t arena = 0; arena < 6; ++arena) {
      memory_[arena].grow(sizes[arena]);
      const auto numbers = network::numbers(sizes[arena], arena);
      // Small, and positive where it may be a variance.
      for (std::size_t i = 0; i < numbers.size(); ++i)
        memory_[arena].data()[i] = arena < 2 ? numbers[i] : 0.2f + 0.1f * numbers[i];
      size_[arena] = numbers.size();
      arenas_.base[arena] = memory_[arena].data();
    }
    numbers_.grow(static_cast<long>(Program::numbers.size()));
    std::size_t at = 0;
    for (const NumberEntry& entry : Program::numbers)
      numbers_.data()[at++] = entry.source == Source::constant ? entry.value
                              : entry.source == Source::reciprocal_count
                                  ? 1.0f / static_cast<float>(batch * entry.index)
                                  : 0.01f;
    arenas_[Arena::numbers] = numbers_.data();
    arenas_.batch = batch;
    arenas_.room = room_;
    for (std::size_t i = 0; i < 4; ++i) {
      if (Program::input_types[i] == nullptr) continue;
      const TensorInfo& type = *Program::input_types[i];
      const auto count = static_cast<std::size_t>(type.size() * batch);
      inputs_[i] = network::numbers(type.size() * batch, 20 + i);
      if (type.dtype == DType::int32)
        for (std::size_t k = 0; k < count; ++k) {
          const std::int32_t token = static_cast<std::int32_t>(k % 3);
          std::memcpy(&inputs_[i][k], &token, sizeof token);
        }
      arenas_.inputs[i] = inputs_[i].data();
    }
    if constexpr (requires { executor_->reserve_scratch(1); }) executor_->reserve_scratch(Program::lowered.scratch);
  }

  /// Each step changes nothing but what it is said to write, and computes the same whatever lies elsewhere.
  void check() {
    for (int s = 0; s < Program::lowered.used.steps; ++s) {
      CAPTURE(s, Program::lowered.steps[s].name);
      const auto before = copy();
      run(s);
      const auto after = copy();
      for (std::size_t arena = 0; arena < 6; ++arena) {
        const auto may = allowed(arena, s);
        std::size_t elsewhere = 0;
        for (std::size_t i = 0; i < size_[arena]; ++i) {
          const bool changed = std::memcmp(&before[arena][i], &after[arena][i], 4) != 0;
          elsewhere += changed && (may[i] & writes) == 0;
          if ((may[i] & reads) == 0)
            std::memcpy(memory_[arena].data() + i, poison, sizeof poison);
          else
            memory_[arena].data()[i] = before[arena][i];
        }
        CHECK(elsewhere == 0);
      }
      run(s);
      for (std::size_t arena = 0; arena < 6; ++arena) {
        const auto may = allowed(arena, s);
        std::size_t different = 0;
        for (std::size_t half = 0; half < 2 * size_[arena]; ++half) {  // of an odd number of narrow values one is left
          const auto bits = [&](const float* numbers) {
            std::uint16_t found = 0;
            std::memcpy(&found, reinterpret_cast<const char*>(numbers) + 2 * half, sizeof found);
            return found;
          };
          const bool untouched =
              bits(memory_[arena].data()) == poison[0] && bits(after[arena].data()) == bits(before[arena].data());
          different +=
              (may[half / 2] & writes) != 0 && !untouched && bits(memory_[arena].data()) != bits(after[arena].data());
        }
        CHECK(different == 0);
        std::copy(after[arena].begin(), after[arena].end(), memory_[arena].data());
      }
    }
  }

 private:
  static constexpr int reads = 1, writes = 2;
  static constexpr std::uint16_t poison[2]{0x7fc1, 0x7fc1};  // not a number, as two bytes and as four

  void run(int s) { StepRunner<Kernels>::run(*executor_, arenas_, step_tables<Program>(s, s + 1)); }
  std::vector<Floats> copy() const {
    std::vector<Floats> result;
    for (std::size_t arena = 0; arena < 6; ++arena)
      result.emplace_back(memory_[arena].data(), memory_[arena].data() + size_[arena]);
    return result;
  }
  std::vector<int> allowed(std::size_t arena, int s) const {
    std::vector<int> may(size_[arena]);
    for (const MemoryAccess& access : accesses_of<Program>) {
      if (access.step != s || static_cast<std::size_t>(access.arena) != arena) continue;
      // Values with a batch lie one behind the other from room · offset on.
      const long scale = access.arena == Arena::per_sample ? room_ : 1, floats = access.last - access.first;
      for (long i = scale * access.first; i < scale * (access.first + floats); ++i)
        may[static_cast<std::size_t>(i)] |= access.writes ? writes : reads;
    }
    return may;
  }

  long room_;  // samples
  std::unique_ptr<typename Kernels::Executor> executor_;
  Buffer memory_[6], numbers_;
  std::size_t size_[6]{};
  Floats inputs_[4];
  Arenas arenas_{};
};

template <class Net, class Input, class Loss, class Optimizer, class... Policies>
void check_accesses() {
  using T = Trainer<Net, Loss, Optimizer, Input, Policies...>;
  for (const int batch : {1, 3, 19}) {
    if (batch > 3 && !T::Training::lowered.in_groups) continue;
    Watched<typename T::Training, typename T::Device>(batch).check();
    Watched<typename T::Predicting, typename T::Device>(batch).check();
  }
}

}  // namespace

TEST_CASE("steps use the memory that they are said to use, and no other", "[accesses]") {
  check_accesses<networks::Transformer, Tokens<12>, CrossEntropy, AdamW>();
  check_accesses<networks::Residual, Image<2, 6, 5>, CrossEntropy, Sgd>();
  check_accesses<networks::ConvTowers, Image<2, 6, 5>, CrossEntropy, Sgd, InterOpParallel<2>>();
  check_accesses<networks::Drawn<3>, Batched<3, 4>, MeanSquaredError, Adam, InterOpParallel<3>>();
}

TEST_CASE("narrow values and updates in the backward pass are among the accesses", "[accesses]") {
  check_accesses<networks::Towers, Features<16>, CrossEntropy, Adam, InterOpParallel<2>, UpdateInBackward>();
  check_accesses<networks::ConvTowers, Image<2, 6, 5>, CrossEntropy, Sgd, InterOpParallel<2>, BFloat16>();
}

TEST_CASE("what is stored and summed by one loop is among the accesses", "[accesses]") {
  check_accesses<networks::Residual, Image<2, 6, 5>, CrossEntropy, Sgd, joining::Device<true>, UpdateInBackward>();
  check_accesses<networks::ConvTowers, Image<2, 6, 5>, CrossEntropy, Sgd, joining::Device<>>();
}

TEST_CASE("what is turned is read as a whole", "[exec]") {
  using Step = Program<TrainingProgram<LeNet, CrossEntropy, Sgd, Image<1, 28, 28>, turned::Kernels>>;
  constexpr long weights = 16 * 6 * 25;  // of the second convolution; those of the first have one channel
  int whole = 0;
  for (const MemoryAccess& access : accesses_of<Step>)
    whole += access.arena == Arena::parameters && !access.writes && access.last - access.first == weights &&
             is_copy(Step::lowered, Step::lowered.steps[access.step]);
  CHECK(whole == 1);  // for the forward pass, and for the gradient by the input
}
