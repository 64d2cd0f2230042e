// The peer of resnet18.cpp: 3x3 stem, four stages of two residual units (64, 128, 256, 512 channels), global average
// pooling and one fully connected layer, with its trainer, as dlib writes them (the input comes last in the type).
#include <dlib/dnn.h>

#include <vector>

using namespace dlib;

template <long channels, int stride, typename Input>
using conv3x3 = add_layer<con_<channels, 3, 3, stride, stride, 1, 1>, Input>;

template <long channels, int stride, typename Input>
using block = bn_con<conv3x3<channels, 1, relu<bn_con<conv3x3<channels, stride, Input>>>>>;

template <long channels, typename Input>
using residual = relu<add_prev1<block<channels, 1, tag1<Input>>>>;

// The unit that halves the image and doubles the channels has a 1x1 convolution on its other branch.
template <long channels, typename Input>
using residual_down = relu<add_prev2<bn_con<con<channels, 1, 1, 2, 2, skip1<tag2<block<channels, 2, tag1<Input>>>>>>>>;

template <long channels, typename Input>
using stage = residual<channels, residual_down<channels, Input>>;

template <typename Input>
using stem = relu<bn_con<conv3x3<64, 1, Input>>>;

using ResNet18 = loss_multiclass_log<
    fc<10, avg_pool_everything<
               stage<512, stage<256, stage<128, residual<64, residual<64, stem<input<matrix<unsigned char>>>>>>>>>>>;

int main() {
  std::vector<matrix<unsigned char>> images(32, matrix<unsigned char>(28, 28));
  std::vector<unsigned long> labels(32, 0);
  ResNet18 net;
  dnn_trainer<ResNet18> trainer(net, sgd(0.0, 0.9));
  trainer.set_learning_rate(0.1);
  trainer.train_one_step(images, labels);
  trainer.get_net();  // waits for the step, which runs in a thread of its own
  return static_cast<int>(net(images)[0]);
}
