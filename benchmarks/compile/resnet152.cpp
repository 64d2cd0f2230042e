// The training step of a deep network in one translation unit.
#include <vector>

#include "models/resnet.hpp"

int main() {
  tenet::Trainer<resnet::ResNet152, tenet::CrossEntropy, tenet::Sgd, tenet::Image<3, 224, 224>> trainer{
      {.learning_rate = 0.1f}};
  const std::vector<float> image(3 * 224 * 224);
  const int label = 0;
  trainer.step(image.data(), &label, 1);
}
