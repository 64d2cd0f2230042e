// The whole trainer of one network in one translation unit.
#include "models/resnet18.hpp"

int main() {
  tenet::Trainer<ResNet18<>, tenet::CrossEntropy, tenet::Sgd, tenet::Image<1, 28, 28>> trainer{{.learning_rate = 0.1f}};
  const tenet::TensorDataset images(std::vector<float>(256 * 28 * 28), {1, 28, 28}, std::vector<std::int32_t>(256));
  trainer.fit(tenet::DataLoader{images, {.batch_size = 32}});
}
