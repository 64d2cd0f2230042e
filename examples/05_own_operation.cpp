// Operations of one's own: an empty struct each, nothing is registered; gradients are checked by finite differences.
#include <cmath>
#include <tenet/tenet.hpp>

#include "common/json.hpp"
#include "common/options.hpp"

using namespace tenet;

/// swish(x) = x·sigmoid(x), element by element: fused with its neighbours (Ramachandran et al., arXiv 1710.05941).
struct Swish : ElementOperation {
  static constexpr const char* name = "swish";
  static constexpr auto element(auto x) { return x * sigmoid(x); }
  static constexpr auto gradient(auto y, auto upstream, auto x) {
    return gradients([=] {
      const auto s = sigmoid(x);
      return upstream * (s + y * (1.0f - s));
    });
  }
};
constexpr auto swish(AnySymbol auto x) { return apply<Swish>(x); }

/// y[…, j] = x[…, 0] + … + x[…, j], or from the end if Reverse: an operation with a kernel of its own.
template <bool Reverse>
struct CumulativeSum : KernelOperation {
  static constexpr const char* name = Reverse ? "cumulative_sum_reverse" : "cumulative_sum";
  template <class X>
  static constexpr X result(X) {
    return {};
  }
  template <class X>
  static void run(auto& /*executor*/, const auto& arguments, X) {
    constexpr long columns = X::info.extents[X::rank - 1];
    const float* x = arguments.template operand<float>(0);
    float* y = arguments.template result<float>();
    const long rows = X::size / columns * (X::batched ? arguments.batch : 1);
    for (long row = 0; row < rows; ++row, x += columns, y += columns) {
      float sum = 0;
      for (long j = 0; j < columns; ++j) {
        const long at = Reverse ? columns - 1 - j : j;
        y[at] = sum += x[at];
      }
    }
  }
  static constexpr auto gradient(auto, auto upstream, auto) {
    return gradients([=] { return apply<CumulativeSum<!Reverse>>(upstream); });
  }
};
constexpr auto cumulative_sum(AnySymbol auto x) { return apply<CumulativeSum<false>>(x); }

struct Both {
  constexpr auto forward(auto x) const { return cumulative_sum(swish(x)); }
};

int main(int argc, char** argv) {
  Options options(argc, argv, "Checks the gradients of two operations of one's own.", {});
  constexpr int batch = 3, columns = 7;
  float x[batch * columns], worst = 0;
  for (int i = 0; i < batch * columns; ++i) x[i] = std::sin(1.7f * static_cast<float>(i)) * 2.0f;

  Imperative<Both> net;
  const auto loss_of = [&](auto input) { return sum(square(net(input))); };
  const auto input = net.tensor<Features<columns>>(x, batch, true);
  net.context().backward(loss_of(input));
  const auto found = net.context().gradient(input);
  const std::vector<float> gradient(found.begin(), found.end());

  for (int i = 0; i < batch * columns; ++i) {  // (loss(x + h) - loss(x - h)) / 2h
    constexpr float h = 1e-2f;
    float loss[2];
    for (int side = 0; side < 2; ++side) {
      const float before = x[i];
      x[i] += side == 0 ? h : -h;
      net.clear();
      loss[side] = loss_of(net.tensor<Features<columns>>(x, batch)).item();
      x[i] = before;
    }
    const float difference = (loss[0] - loss[1]) / (2 * h);
    worst =
        std::fmax(worst, std::fabs(difference - gradient[static_cast<std::size_t>(i)]) / (1 + std::fabs(difference)));
  }
  std::printf("gradient against finite differences: largest relative error %.2g\n", worst);
  std::printf("%s", summary<Both, Features<columns>>().c_str());
  options.write_json(Json().add("largest_error", worst).text());
  return worst < 5e-3f ? 0 : 1;
}
