#pragma once

#include <tenet/tenet.hpp>

/// Networks for tests: small ones in which all passes have something to do.
namespace networks {

/// A transformer block behind an embedding: layer norm, attention, two-layer perceptron, residual sums, dropout.
struct Transformer {
  tenet::Embedding<17, 16> words;
  tenet::LayerNorm<16> norm1, norm2;
  tenet::MultiheadAttention<16, 2, tenet::Causal<true>> attention;
  tenet::Linear<16, 32> widen;
  tenet::Linear<32, 16> narrow;
  tenet::Linear<16, 17> head;
  constexpr auto forward(auto tokens) const {
    const auto x = words(tokens);
    const auto y = x + attention(norm1(x));
    return head(y + tenet::dropout(narrow(gelu(widen(norm2(y)))), 0.1f));
  }
};

/// A residual unit with batch norm between two convolutions.
struct Residual {
  tenet::Conv2d<2, 4, 3, tenet::Padding<1>> stem;
  tenet::Conv2d<4, 4, 3, tenet::Padding<1>> conv;
  tenet::BatchNorm2d<4> norm1, norm2;
  tenet::Linear<4, 3> head;
  constexpr auto forward(auto x) const {
    const auto y = relu(norm1(stem(x)));
    return head(tenet::global_avg_pool2d(relu(norm2(conv(y)) + y)));
  }
};

/// Linear layers whose rows are whole vectors, of any width; a row is one vector, a few or many of them.
struct WholeRows : tenet::Sequential<tenet::Linear<16, 32>, tenet::ReLU, tenet::Linear<32, 36>, tenet::Tanh,
                                     tenet::Linear<36, 80>, tenet::ReLU, tenet::Linear<80, 3>> {};

/// Convolutions whose weights outweigh the images: one that is used once, and one twice.
struct WideConvolutions {
  tenet::Conv2d<128, 256, 3, tenet::Padding<1>> once;
  tenet::Conv2d<256, 256, 3, tenet::Padding<1>> twice;
  tenet::Linear<256, 3> head;
  constexpr auto forward(auto x) const {
    return head(tenet::global_avg_pool2d(relu(twice(relu(twice(relu(once(x))))))));
  }
};

/// Linear layers whose weights outweigh a batch: one that is used once, and one twice.
struct WideLinears {
  tenet::Linear<16, 520> first;
  tenet::Linear<520, 300> once;
  tenet::Linear<300, 300> twice;
  tenet::Linear<300, 3> head;
  constexpr auto forward(auto x) const { return head(relu(twice(tanh(twice(relu(once(relu(first(x))))))))); }
};

/// Two towers of linear layers that do not depend on each other, and their sum.
struct Towers {
  tenet::Linear<16, 64> left1, right1;
  tenet::Linear<64, 64> left2, right2;
  tenet::Linear<64, 3> head;
  constexpr auto forward(auto x) const {
    return head(relu(relu(left2(relu(left1(x)))) + tanh(right2(tanh(right1(x))))));
  }
};

/// Three towers behind a common stem: convolutions with batch norm, dropout, pooling; their channels side by side.
struct ConvTowers {
  tenet::Conv2d<2, 4, 3, tenet::Padding<1>> stem, first, second;
  tenet::Conv2d<4, 4, 3, tenet::Padding<1>> third;
  tenet::BatchNorm2d<4> norm1, norm2;
  tenet::Linear<12, 3> head;
  constexpr auto forward(auto x) const {
    const auto a = tenet::dropout(relu(norm1(first(x))), 0.2f);
    const auto b = relu(second(x));
    const auto c = tanh(norm2(third(relu(stem(x)))));
    return head(tenet::global_avg_pool2d(tenet::concatenate<1>(a, b, c)));
  }
};

/// A product of the batch's sum and what depends on a parameter alone, over the same elements, all without a batch.
template <auto function, int Width>
struct Scaled {
  tenet::Parameter<tenet::Fixed<Width>, tenet::Constant<1>> weight;
  constexpr auto forward(auto x) const {
    const auto total = tenet::sum_keep<0>(x);
    return x + total * function(weight.in(x));
  }
};

/// A network of `Depth` operations drawn at compile time, on values of shape (batch, 3, 4).
template <unsigned seed, int Depth = 14>
struct Drawn {
  tenet::Parameter<tenet::Fixed<3, 4>, tenet::KaimingUniform<1>> full;
  tenet::Parameter<tenet::Fixed<4>, tenet::KaimingUniform<1>> row;
  tenet::Parameter<tenet::Fixed<3, 1>, tenet::KaimingUniform<1>> column;
  tenet::Parameter<tenet::Scalar, tenet::KaimingUniform<1>> scalar;
  tenet::Linear<4, 4> linear;

  constexpr auto forward(auto x) const { return grow<0>(x, tanh(x * full.in(x))); }

 private:
  static constexpr unsigned drawn(int depth) { return tenet::philox(static_cast<unsigned>(depth), seed)[0] % 14; }

  template <int depth>
  constexpr auto grow(auto y, auto z) const {
    if constexpr (depth == Depth)
      return linear(y * row.in(y) + z) + column.in(y)*scalar.in(y);
    else
      return grow<depth + 1>(z, next<drawn(depth)>(y, z));
  }

  template <unsigned choice>
  constexpr auto next(auto y, auto z) const {
    if constexpr (choice == 0)
      return y + z;
    else if constexpr (choice == 1)
      return tanh(y) * row.in(y);
    else if constexpr (choice == 2)
      return y * z * 0.5f - z;
    else if constexpr (choice == 3)
      return linear(z);
    else if constexpr (choice == 4)
      return y - tenet::mean_keep<-1>(z);
    else if constexpr (choice == 5)
      return z * rsqrt(tenet::mean_keep<0, 2>(square(z)) + 1.0f);
    else if constexpr (choice == 6)
      return relu(z) + column.in(z);
    else if constexpr (choice == 7)
      return softmax(z) * y;
    else if constexpr (choice == 8)
      return y / (2.0f + square(z));
    else if constexpr (choice == 9)
      return gelu(z + scalar.in(z));
    else if constexpr (choice == 10)
      return y * row.in(y) + z * column.in(y);
    else if constexpr (choice == 11)
      return tenet::reshape<3, 4>(tenet::transpose<1, 2>(z));
    else if constexpr (choice == 12)
      return maximum(y, z);
    else
      return tenet::sum_keep<1>(y) * 0.3f * z;  // (1, 4): has to be expanded by a copy
  }
};

}  // namespace networks
