// Three networks in dlib, whose products are OpenBLAS': program NETWORK (train|infer) BATCH FOLDER.
#include <dlib/dnn.h>

#include <cmath>
#include <cstdint>

#include "../serve.hpp"
#include "tenet/io/safetensors.hpp"

namespace {

using Input = dlib::input<dlib::matrix<float>>;

using Mlp = dlib::fc<10, dlib::relu<dlib::fc<256, Input>>>;

template <int outputs, int size, int stride, class Below, int padding = size / 2>
using Convolution = dlib::add_layer<dlib::con_<outputs, size, size, stride, stride, padding, padding>, Below>;

template <class Below>
using Halved = dlib::avg_pool<2, 2, 2, 2, dlib::relu<Below>>;
using Features = Halved<Convolution<16, 5, 1, Halved<Convolution<6, 5, 1, Input>>, 0>>;
using LeNet = dlib::fc<10, dlib::relu<dlib::fc<84, dlib::relu<dlib::fc<120, Features>>>>>;

template <class Norm, int outputs, int stride, class Below>
using Main = dlib::add_layer<
    Norm, Convolution<outputs, 3, 1, dlib::relu<dlib::add_layer<Norm, Convolution<outputs, 3, stride, Below>>>>>;
template <class Norm, int outputs, class Below>
using Unit = dlib::relu<dlib::add_prev1<Main<Norm, outputs, 1, dlib::tag1<Below>>>>;
template <class Norm, int outputs, class Below>
using Narrowing = dlib::relu<
    dlib::add_prev2<Convolution<outputs, 1, 2, dlib::skip1<dlib::tag2<Main<Norm, outputs, 2, dlib::tag1<Below>>>>>>>;
template <class Norm, int outputs, class Below>
using Stage = Unit<Norm, outputs, Narrowing<Norm, outputs, Below>>;
template <class Norm, class Below>
using Stem = dlib::relu<dlib::add_layer<Norm, Convolution<64, 3, 1, Below>>>;
template <class Norm>
using ResNet18 = dlib::fc<
    10, dlib::avg_pool_everything<
            Stage<Norm, 512, Stage<Norm, 256, Stage<Norm, 128, Unit<Norm, 64, Unit<Norm, 64, Stem<Norm, Input>>>>>>>>;

// dlib's bn_ takes the batch's statistics whenever there is more than one sample, and the running ones when there is
// one: inference takes affine_ instead, and ResNet-18's step of one sample cannot be had.
struct BatchNorm : dlib::bn_<dlib::CONV_MODE> {
  BatchNorm() : bn_(10, 1e-5) {}
};
struct Affine : dlib::affine_ {
  Affine() : affine_(dlib::CONV_MODE) {}
};

/// The layers that have weights, from the input on.
std::vector<std::string> names_of(const std::string& network) {
  if (network == "MLP 784-256-10") return {"0", "2"};
  if (network == "LeNet") return {"0", "3", "7", "9", "11"};
  std::vector<std::string> names = {"0.0", "0.1"};
  for (const char* const unit : {"1.0.", "1.1.", "2.0.", "2.1.", "3.0.", "3.1.", "4.0.", "4.1."}) {
    for (const char* const layer : {"conv1", "bn1", "conv2", "bn2"}) names.push_back(std::string(unit) + layer);
    if (unit[0] != '1' && unit[2] == '0') names.push_back(std::string(unit) + "conv3");
  }
  names.push_back("7");
  return names;
}

/// Visits the layers from the input on; each that has weights takes those of the next name.
struct Loader {
  const tenet::SafetensorsFile& file;
  std::vector<std::string>::const_iterator& name;

  const float* part(const std::string& suffix) const {
    return reinterpret_cast<const float*>(file.find(*name + suffix)->data);
  }
  template <class Layer, class Below>
  void operator()(dlib::add_layer<Layer, Below>& layer) const {
    load(layer.layer_details());
  }
  template <class Layer>
  void load(Layer&) const {}
  void load(BatchNorm& layer) const { copy(layer.get_layer_params(), layer.get_layer_params().size() / 2); }
  template <long outputs, long size, int stride, int padding>
  void load(dlib::con_<outputs, size, size, stride, stride, padding, padding>& layer) const {
    copy(layer.get_layer_params(), outputs);
  }
  /// Weights, then biases.
  void copy(dlib::tensor& to, std::size_t biases) const {
    std::copy_n(part(".bias"), biases, std::copy_n(part(".weight"), to.size() - biases, to.host()));
    ++name;
  }
  /// dlib's rows are inputs.
  template <unsigned long outputs, dlib::fc_bias_mode mode>
  void load(dlib::fc_<outputs, mode>& layer) const {
    float* to = layer.get_layer_params().host();
    const std::size_t inputs = layer.get_layer_params().size() / outputs - 1;
    for (std::size_t i = 0; i < inputs; ++i)
      for (std::size_t j = 0; j < outputs; ++j) *to++ = part(".weight")[j * inputs + i];
    std::copy_n(part(".bias"), outputs, to);
    ++name;
  }
  void load(Affine& layer) const {
    auto scale = layer.get_gamma(), shift = layer.get_beta();
    for (std::size_t i = 0; i < scale.size(); ++i) {
      const float factor = part(".weight")[i] / std::sqrt(part(".running_var")[i] + 1e-5f);
      scale.host()[i] = factor;
      shift.host()[i] = part(".bias")[i] - factor * part(".running_mean")[i];
    }
    ++name;
  }
};

struct Arguments {
  std::string network, kind, folder;
  int batch;
};

/// The input, after whose first pass the layers have their sizes and get their weights.
template <class Net>
dlib::resizable_tensor prepare(Net& net, const Arguments& given) {
  const std::vector<float> pixels = numbers_of<float>(given.folder + "inputs.bin");
  std::vector<dlib::matrix<float>> images;
  for (int i = 0; i < given.batch; ++i) images.push_back(dlib::mat(pixels.data() + 784 * i, 28, 28));
  dlib::resizable_tensor input;
  net.to_tensor(images.begin(), images.end(), input);
  net.forward(input);
  const tenet::SafetensorsFile file(given.folder + "weights.safetensors");
  const std::vector<std::string> names = names_of(given.network);
  auto name = names.begin();
  dlib::visit_layers_backwards(net, Loader{file, name});
  if (name != names.end()) throw std::runtime_error("weights are left");
  return input;
}

template <class Layers>
int serve_training(const Arguments& given) {
  using Net = dlib::loss_multiclass_log<Layers>;
  static Net net;
  static dlib::resizable_tensor input;
  static std::vector<unsigned long> labels;
  static std::vector<dlib::sgd> solvers(Net::num_computational_layers, dlib::sgd(0, 0));
  static double rate = 0;
  const auto step = [] {
    const double loss = net.compute_parameter_gradients(input, labels.begin());
    net.update_parameters(solvers, rate);
    return loss;
  };
  const auto check = [&] {
    input = prepare(net, given);
    const auto targets = numbers_of<std::int32_t>(given.folder + "targets.bin");
    labels.assign(targets.begin(), targets.end());
    rate = static_cast<double>(numbers_of<float>(given.folder + "learning_rate.bin").at(0));
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) losses.push_back(step());
    rate *= 1e-3;  // timing is not to wear the batch out
    return losses;
  };
  return serve({{"dlib", check, [&](long calls) { return seconds_of(step, calls); }}});
}

template <class Net>
int serve_inference(const Arguments& given) {
  static Net net;
  static dlib::resizable_tensor input;
  static volatile float sink;
  const auto run = [] { sink = net.forward(input).host()[0]; };
  const auto check = [&] {
    input = prepare(net, given);
    const dlib::tensor& output = net.forward(input);
    return std::vector<double>(output.host(), output.host() + std::min<std::size_t>(output.size(), 640));
  };
  return serve({{"dlib", check, [&](long calls) { return seconds_of(run, calls); }}});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const Arguments given{argv[1], argv[2], std::string(argv[4]) + "/", std::atoi(argv[3])};
  const bool train = given.kind == "train";
  if (given.network == "MLP 784-256-10") return train ? serve_training<Mlp>(given) : serve_inference<Mlp>(given);
  if (given.network == "LeNet") return train ? serve_training<LeNet>(given) : serve_inference<LeNet>(given);
  return train ? serve_training<ResNet18<BatchNorm>>(given) : serve_inference<ResNet18<Affine>>(given);
}
