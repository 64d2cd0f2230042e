// The peer of lenet.cpp: LeNet and its trainer, as dlib writes them (the input comes last in the type).
#include <dlib/dnn.h>

#include <vector>

using namespace dlib;

template <long channels, typename Input>
using stage = avg_pool<2, 2, 2, 2, relu<con<channels, 5, 5, 1, 1, Input>>>;

using LeNet =
    loss_multiclass_log<fc<10, relu<fc<84, relu<fc<120, stage<16, stage<6, input<matrix<unsigned char>>>>>>>>>>;

int main() {
  std::vector<matrix<unsigned char>> images(256, matrix<unsigned char>(28, 28));
  std::vector<unsigned long> labels(256, 0);
  LeNet net;
  dnn_trainer<LeNet> trainer(net, sgd(0.0, 0.9));
  trainer.set_learning_rate(0.1);
  trainer.train_one_step(images, labels);
  trainer.get_net();  // waits for the step, which runs in a thread of its own
  return static_cast<int>(net(images)[0]);
}
