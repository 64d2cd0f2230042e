#include "../../examples/models/lenet.hpp"
#include "../network.hpp"

int main(int argc, char** argv) {
  return serve_precisions<LeNet, tenet::Image<1, 28, 28>, tenet::PlainSgd, tenet::OneSampleAlways>(argc, argv);
}
