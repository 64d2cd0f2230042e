#include "tenet/train/summary.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <tenet/parallel/data_parallel.hpp>
#include <vector>

#include "../../examples/models/lenet.hpp"
#include "../../examples/models/resnet18.hpp"

namespace {

using namespace tenet;

using Pixels = Image<1, 28, 28>;
using LeNetTrainer = Trainer<LeNet, CrossEntropy, Sgd, Pixels, Reference>;

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result{""};
  for (const char c : text) {
    if (c == '\n')
      result.emplace_back();
    else
      result.back() += c;
  }
  return result;
}

/// The columns of a row: what at least two blanks separate.
std::vector<std::string> columns(const std::string& line) {
  std::vector<std::string> result;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find("  ", at), line.size());
    result.push_back(line.substr(at, end - at));
    at = std::min(line.find_first_not_of(' ', end), line.size());
  }
  return result;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// "1,234" of a number.
std::string number(long value) { return detail::with_commas(value); }

/// A row of a layer with parameters: weights and biases, and FLOPs: two for each product, one for each bias and each
/// further element-wise operation.
std::vector<std::string> row(const char* layer, const char* operations, const char* output, long fan_in, long out,
                             long positions, int element_operations) {
  return {layer, operations, output, number(out * (fan_in + 1)),
          number(out * positions * (2 * fan_in + element_operations))};
}

struct Tied {
  Linear<4, 4> twice;
  BatchNorm2d<1> norm;
  constexpr auto forward(auto x) const { return norm(reshape<1, 2, 2>(twice(twice(x)))); }
};

}  // namespace

TEST_CASE("the summary of LeNet lists its layers with their shapes, parameters and FLOPs", "[summary]") {
  const auto table = lines(summary<LeNet, Pixels, Reference>());
  REQUIRE(table.size() >= 12);
  CHECK(columns(table[0]) == std::vector<std::string>{"layer", "operations", "output", "parameters", "FLOPs"});
  CHECK(columns(table[1]) == row("0", "conv2d add relu", "batch x 6 x 28 x 28", 25, 6, 28 * 28, 2));
  CHECK(columns(table[2]) ==
        std::vector<std::string>{"2", "avg_pool2d", "batch x 6 x 14 x 14", number(6 * 14 * 14 * 4)});
  CHECK(columns(table[3]) == row("3", "conv2d add relu", "batch x 16 x 10 x 10", 6 * 25, 16, 100, 2));
  CHECK(columns(table[4]) == std::vector<std::string>{"5", "avg_pool2d", "batch x 400", number(400 * 4)});
  CHECK(columns(table[5]) == row("7", "matmul add relu", "batch x 120", 400, 120, 1, 2));
  CHECK(columns(table[6]) == row("9", "matmul add relu", "batch x 84", 120, 84, 1, 2));
  CHECK(columns(table[7]) == row("11", "matmul add", "batch x 10", 84, 10, 1, 1));
  CHECK(table[8] == "parameters: 61,706 (0.25 MB)");
  // 16 operations (views cost nothing and do not count); what follows a kernel element by element is fused into it.
  CHECK(contains(table[9], "inference: 16 operations in 7 steps, 3 distinct fused loops"));
  CHECK(contains(table[11], "device: reference"));
}

TEST_CASE("the summary of a trainer holds its plans and its device", "[summary]") {
  const auto text = LeNetTrainer().summary();
  CHECK(contains(text, "parameters: 61,706 (0.25 MB, with gradients and SGD 0.74 MB)"));
  CHECK(contains(text, "training step: "));
  CHECK(contains(text, "evaluation: "));
  CHECK(contains(text, " in " + std::to_string(LeNetTrainer::Training::lowered.used.steps) + " steps"));
  CHECK(contains(text, number(LeNetTrainer::Training::flops.per_sample) + " FLOPs a sample"));
  // The FLOPs of the rows are those of the inference program.
  long sum = 0;
  for (const auto& line : lines(text)) {
    if (line.rfind("parameters", 0) == 0) break;
    if (line.rfind("layer", 0) == 0) continue;
    std::string digits;
    const auto cells = columns(line);
    for (const char c : cells.back())
      if (c != ',') digits += c;
    sum += std::stol(digits);
  }
  CHECK(sum == LeNetTrainer::Predicting::flops.per_sample);
  const auto cpu = summary<Sequential<Linear<3, 2>>, Features<3>, Cpu<0, 2>>();
  CHECK(contains(cpu, "device: cpu, 2 threads, vectors of " + std::to_string(vector_width) + " floats\n"));
}

TEST_CASE("the summary of a trainer says what synchronised batch norm adds up", "[summary]") {
  using Net = Sequential<Conv2d<1, 4, 3>, BatchNorm2d<4>, Flatten, Linear<2704, 3>>;
  Trainer<Net, CrossEntropy, Sgd, Pixels, Reference, DataParallel<2>, SyncBatchNorm> trainer;
  CHECK(contains(trainer.summary(),
                 "\nsynchronisation: direct (synchronous); nothing is sent; in its passes 4 sums over all "
                 "workers, of 64 "
                 "bytes together, for which each sends at most 64 bytes\n"));
}

TEST_CASE("the summary counts shared parameters once and names user modules", "[summary]") {
  const auto text = summary<Tied, Features<4>, Reference>();
  CHECK(contains(text, "parameters: 22 "));  // 16 + 4 and 1 + 1
  CHECK(columns(lines(text)[1]).front() == "twice");
  CHECK(contains(text, "\nnorm "));
  CHECK(detail::slot_name<Tied>(0) == "twice.weight");
  CHECK(detail::slot_name<Tied>(4) == "norm.running_mean");
}

TEST_CASE("memory that a trainer holds is what was planned", "[summary]") {
  LeNetTrainer trainer;
  CHECK(trainer.activation_floats() == 0);
  const std::vector<float> inputs(7 * Pixels::size, 0.5f);
  const std::vector<std::int32_t> labels(7, 1);
  using Training = LeNetTrainer::Training;
  const auto planned = [](int batch) { return Training::plan.per_sample_floats * batch + Training::plan.fixed_floats; };
  CHECK(planned(1) > 784);
  trainer.step(inputs.data(), labels.data(), 4);
  CHECK(trainer.activation_floats() == planned(4));
  trainer.step(inputs.data(), labels.data(), 2);  // memory stays
  CHECK(trainer.activation_floats() == planned(4));
  trainer.step(inputs.data(), labels.data(), 7);
  CHECK(trainer.activation_floats() == planned(7));
}

TEST_CASE("planned memory of a ResNet-18 training step is at most 0.4 of one buffer a value", "[summary]") {
  using Step = Program<TrainingProgram<ResNet18<>, CrossEntropy, Sgd, Pixels, ReferenceKernels>>;
  constexpr auto planned = Step::plan.per_sample_floats, unplanned = Step::plan.unplanned_per_sample_floats;
  CAPTURE(planned, unplanned);
  CHECK(static_cast<double>(planned) <= 0.4 * static_cast<double>(unplanned));
  CHECK(planned > 0);
  CHECK(Step::slots.parameter_count > 11'000'000);
}

TEST_CASE("numbers in summaries", "[summary]") {
  CHECK(detail::with_commas(0) == "0");
  CHECK(detail::with_commas(999) == "999");
  CHECK(detail::with_commas(1000) == "1,000");
  CHECK(detail::with_commas(12345678) == "12,345,678");
  CHECK(detail::megabytes(1'000'000) == "4.00 MB");
  CHECK(detail::bytes_text(99'999.4) == "99,999 bytes");
  CHECK(detail::bytes_text(123'456) == "0.12 MB");
  CHECK(detail::padded("a·b", 5) == "a·b    ");  // three columns in four bytes, and two blanks behind the five
}

TEST_CASE("the summary says what memory workers need besides the plan's", "[summary]") {
  const auto of = []<class Device>() {
    const Trainer<LeNet, CrossEntropy, Sgd, Pixels, Device> trainer;
    return detail::plan_text<typename decltype(trainer)::Training>("step");
  };
  const long scratch = Trainer<LeNet, CrossEntropy, Sgd, Pixels, Cpu<0, 1>>::Training::lowered.scratch;
  CHECK(scratch > 0);
  CHECK(contains(of.template operator()<Cpu<0, 1>>(), ", " + detail::megabytes(scratch) + " of scratch a thread\n"));
  CHECK(!contains(of.template operator()<Reference>(), "scratch"));
}
