// Predicted and measured step times of one device and of two: pieces of a batch, updates without waiting, sums over the
// batch, a program on two devices. What it prints: prediction.hpp.
#include <tenet/parallel/hogwild.hpp>
#include <tenet/parallel/inter_op_parallel.hpp>
#include <tenet/parallel/micro_batches.hpp>

#include "../../examples/models/lenet.hpp"
#include "prediction.hpp"

using namespace prediction;

namespace {

/// With sums over the batch in it.
struct Normalized : Sequential<Conv2d<1, 16, 5>, BatchNorm2d<16>, ReLU, MaxPool2d<2>, Conv2d<16, 32, 5>,
                               BatchNorm2d<32>, ReLU, MaxPool2d<2>, Flatten, Linear<512, 10>> {};
/// Two ways through it that do not depend on each other.
struct Tower : Sequential<Linear<784, 512>, ReLU, Linear<512, 512>, ReLU, Linear<512, 256>, ReLU> {};
struct Towers {
  Flatten flatten;
  Tower left, right;
  Linear<256, 10> head;
  constexpr auto forward(auto x) const {
    const auto row = flatten(x);
    return head(left(row) + right(row));
  }
};

}  // namespace

/// program [ROUNDS [STEPS]]
int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 6, steps = argc > 2 ? std::atoi(argv[2]) : 300;
  const StepTimeOptions options = constants<LeNet>();
  for (const int batch : {32, 128})
    compare("LeNet, batch " + std::to_string(batch), batch, steps * 32 / batch, rounds, options,
            Policy<Rank<LeNet, MicroBatches<4>>>{"MicroBatches<4>"}, Policy<Rank<LeNet, Reproducible>>{"Reproducible"},
            Policy<Rank<LeNet, DataParallel<2>, Reproducible>>{"DataParallel<2>, Reproducible"},
            Policy<Rank<LeNet, DataParallel<2>, Hogwild<8>>>{"DataParallel<2>, Hogwild<8>"});
  compare("two convolutions with batch norm, batch 32", 32, steps, rounds, options,
          Policy<Rank<Normalized, DataParallel<2>, SyncBatchNorm>>{"DataParallel<2>, SyncBatchNorm"},
          Policy<Rank<Normalized, Distributed<Threads>, SyncBatchNorm>,
                 Rank<Normalized, Distributed<Imagined>, SyncBatchNorm>>{"Distributed, SyncBatchNorm"});
  compare("two towers, batch 64", 64, steps, rounds, options,
          Policy<Rank<Towers, InterOpParallel<2>>>{"InterOpParallel<2>"});
  std::printf("}\n");
}
