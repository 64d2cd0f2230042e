// 32-64-64-10 in Eigen's products of fixed size: inference of one sample, and one step of stochastic gradient descent.
// program (train|infer) 1 FOLDER
#include <Eigen/Core>
#include <cmath>

#include "../serve.hpp"
#include "tenet/io/safetensors.hpp"

template <int Rows, int Columns>
using Matrix = Eigen::Matrix<float, Rows, Columns, Columns == 1 ? Eigen::ColMajor : Eigen::RowMajor>;

template <int Inputs, int Outputs>
struct Layer {
  Eigen::Matrix<float, Outputs, Inputs> weight;  // by columns: a product adds scaled columns, which are vectors
  Matrix<Outputs, 1> bias;

  void load(const tenet::SafetensorsFile& file, const std::string& name) {
    weight =
        Eigen::Map<const Matrix<Outputs, Inputs>>(reinterpret_cast<const float*>(file.find(name + ".weight")->data));
    bias = Eigen::Map<const Matrix<Outputs, 1>>(reinterpret_cast<const float*>(file.find(name + ".bias")->data));
  }
  Matrix<Outputs, 1> operator()(const Matrix<Inputs, 1>& x) const {
    Matrix<Outputs, 1> y = bias;
    y.noalias() += weight * x;
    return y;
  }
  /// Moves the parameters; the gradient by x with those before.
  Matrix<Inputs, 1> back(const Matrix<Inputs, 1>& x, const Matrix<Outputs, 1>& gradient, float rate) {
    Matrix<Inputs, 1> result;
    result.noalias() = weight.transpose() * gradient;
    weight.noalias() -= (rate * gradient) * x.transpose();
    bias -= rate * gradient;
    return result;
  }
};

struct Net {
  Layer<32, 64> first;
  Layer<64, 64> second;
  Layer<64, 10> third;

  Matrix<10, 1> infer(const Matrix<32, 1>& x) const { return third(second(first(x).cwiseMax(0.0f)).cwiseMax(0.0f)); }
  float step(const Matrix<32, 1>& x, int label, float rate) {
    const Matrix<64, 1> a = first(x).cwiseMax(0.0f), b = second(a).cwiseMax(0.0f);
    const Matrix<10, 1> scores = third(b);
    const float largest = scores.maxCoeff();
    Matrix<10, 1> gradient = (scores.array() - largest).exp();
    const float sum = gradient.sum(), loss = std::log(sum) + largest - scores[label];
    gradient /= sum;
    gradient[label] -= 1;
    Matrix<64, 1> behind = third.back(b, gradient, rate);
    behind = (b.array() > 0).select(behind, 0.0f);
    behind = second.back(a, behind, rate);
    behind = (a.array() > 0).select(behind, 0.0f);
    first.weight.noalias() -= (rate * behind) * x.transpose();
    first.bias -= rate * behind;
    return loss;
  }
};

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string folder = std::string(argv[3]) + "/";
  static Net net;
  static Matrix<32, 1> x;
  static float rate;
  static int label;
  static volatile float sink;
  const auto load = [&] {
    const tenet::SafetensorsFile file(folder + "weights.safetensors");
    net.first.load(file, "0"), net.second.load(file, "2"), net.third.load(file, "4");
    x = Eigen::Map<const Matrix<32, 1>>(numbers_of<float>(folder + "inputs.bin").data());
    rate = numbers_of<float>(folder + "learning_rate.bin").at(0);
    label = numbers_of<std::int32_t>(folder + "targets.bin").at(0);
  };
  if (std::string(argv[1]) == "train") {
    const auto step = [] { sink = net.step(x, label, rate); };
    return serve({{"eigen",
                   [&] {
                     load();
                     std::vector<double> losses;
                     for (int i = 0; i < 3; ++i) losses.push_back(static_cast<double>(net.step(x, label, rate)));
                     rate *= 1e-3f;
                     return losses;
                   },
                   [&](long calls) { return seconds_of(step, calls); }}});
  }
  const auto run = [] { sink = net.infer(x)[0]; };
  return serve({{"eigen",
                 [&] {
                   load();
                   const Matrix<10, 1> scores = net.infer(x);
                   return std::vector<double>(scores.data(), scores.data() + 10);
                 },
                 [&](long calls) { return seconds_of(run, calls); }}});
}
