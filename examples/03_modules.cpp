// Modules of one's own: a struct with named members and an ordinary forward(x).
#include <tenet/tenet.hpp>

#include "common/json.hpp"
#include "common/options.hpp"

using namespace tenet;

/// Scales every channel by a number from 0 to 1 that depends on all channels' means (Hu et al., arXiv 1709.01507).
template <int Channels>
struct ChannelGate {
  Linear<Channels, Channels / 4> reduce;
  Linear<Channels / 4, Channels> expand;

  constexpr auto forward(auto x) const {
    const auto gate = sigmoid(expand(relu(reduce(global_avg_pool2d(x)))));
    return x * reshape<Channels, 1, 1>(gate);
  }
};

/// A residual unit whose convolution is used twice: one member is one set of parameters, however often it is called.
template <int Channels>
struct Unit {
  Conv2d<Channels, Channels, 3, Padding<1>, Bias<false>> conv;
  BatchNorm2d<Channels> norm1, norm2;
  ChannelGate<Channels> gate;

  constexpr auto forward(auto x) const {
    const auto y = norm2(conv(relu(norm1(conv(x)))));
    return relu(x + gate.forward(y));
  }
};

/// Members may be modules, arrays of modules, and parameters.
struct Net {
  Conv2d<1, 16, 3, Padding<1>, Stride<2>> stem;
  Repeat<2, Unit<16>> units;
  Linear<16, 10> head;
  Parameter<Fixed<1>, Constant<1>> scale;

  constexpr auto forward(auto x) const {
    const auto features = global_avg_pool2d(units(relu(stem(x))));
    return head(features) * scale.in(x);
  }
};

int main(int argc, char** argv) {
  Options options(argc, argv, "Prints the plan and the names of a network of modules of one's own.", {});
  std::printf("%s\n", summary<Net, Image<1, 28, 28>>().c_str());

  Trainer<Net, CrossEntropy, Adam, Image<1, 28, 28>> trainer;
  std::printf("names, as in PyTorch's state_dict:\n");
  for (const std::string& name : trainer.weights().names()) std::printf("  %s\n", name.c_str());

  std::vector<double> losses;
  FitOptions fit;
  fit.epochs = 4;
  fit.on_epoch = [&](const EpochReport& epoch) { losses.push_back(epoch.loss); };
  trainer.fit(DataLoader{GeneratedImages::train(640), {.batch_size = 32, .shuffle = true}}, fit);
  std::printf("loss of the first epoch %.4f, of the last %.4f\n", losses.front(), losses.back());
  options.write_json(Json().add("names", trainer.weights().names()).add("losses", losses).text());
  return losses.back() < losses.front() ? 0 : 1;
}
