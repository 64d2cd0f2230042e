#include "tenet/device/element.hpp"

#include <catch2/catch.hpp>
#include <vector>

namespace {

using namespace tenet;

float add(float a, float b, float, float) { return a + b; }
float negate(float a, float, float, float) { return -a; }
float weigh(float a, float b, float c, float d) { return a + 10 * b + 100 * c + 1000 * d; }

/// A region of three operations: v0 = x + y; v1 = -v0; v2 = v1 + 10 v0 + 100 y + 1000 x.
constexpr Wiring chain = [] {
  Wiring made;
  made.operations = 3;
  made.inputs = 2;
  const signed char sources[3][4]{{0, 1, 0, 0}, {-1, -1, -1, -1}, {-2, -1, 1, 0}};
  for (int i = 0; i < 3; ++i)
    for (int k = 0; k < 4; ++k) made.source[i][k] = sources[i][k];
  return made;
}();

}  // namespace

TEST_CASE("a region's operations read inputs and earlier operations as its wiring says", "[element]") {
  const float inputs[] = {2, 3};
  float values[3] = {};
  tenet::detail::evaluate_region<chain, &add, &negate, &weigh>(inputs, values);
  CHECK(values[0] == 5);
  CHECK(values[1] == -5);
  CHECK(values[2] == -5 + 50 + 300 + 2000);
}

TEST_CASE("a region without operations evaluates nothing", "[element]") {
  const float inputs[] = {2};
  float values[] = {7};
  tenet::detail::evaluate_region<Wiring{}>(inputs, values);
  CHECK(values[0] == 7);
}

TEST_CASE("operands are bound as their access says", "[element]") {
  const float data[] = {1};
  const auto bound = [&](const TensorInfo& to, const TensorInfo& from, long batch) {
    return ElementArguments::bind(data, access_of(to, from), batch);
  };
  constexpr auto image = Batched<4, 2, 3>::info;
  const auto same = bound(image, image, 5);  // element i reads element i
  CHECK(same.count == 0);
  CHECK(same.data == data);
  const auto channel = bound(image, Fixed<4, 1, 1>::info, 5);  // shared by all samples
  CHECK(channel.inner == 6);
  CHECK(channel.count == 4);
  const auto channel_of_sample = bound(image, Batched<4, 1, 1>::info, 5);
  CHECK(channel_of_sample.inner == 6);
  CHECK(channel_of_sample.count == 20);
  const auto row = bound(image, Fixed<3>::info, 5);
  CHECK(row.inner == 1);
  CHECK(row.count == 3);
  CHECK(bound(image, Scalar::info, 5).count == 1);
}

TEST_CASE("a region behind a kernel runs on the range that the kernel has written", "[element]") {
  struct Call {
    long first, last, stride, repeat;
    const float* accumulator;
  };
  static std::vector<Call> calls;
  static const ElementArguments* seen;
  calls.clear();
  const ElementRange range = [](const ElementArguments& arguments, long first, long last, long stride, long repeat,
                                float* accumulator) {
    seen = &arguments;
    calls.push_back({first, last, stride, repeat, accumulator});
  };
  const ElementArguments arguments{};
  const RegionEpilogue region{range, &arguments};
  const Epilogue epilogue = region.epilogue();
  CHECK(static_cast<bool>(epilogue));
  epilogue(3, 8);
  epilogue(8, 8);  // nothing was written
  REQUIRE(calls.size() == 1);
  CHECK(seen == &arguments);
  CHECK(calls[0].first == 3);
  CHECK(calls[0].last == 8);
  CHECK(calls[0].stride == 0);
  CHECK(calls[0].repeat == 1);
  CHECK(calls[0].accumulator == nullptr);
}
