// 32-64-64-10
#include "network.hpp"

using namespace tenet;

struct Small : Sequential<Linear<32, 64>, ReLU, Linear<64, 64>, ReLU, Linear<64, 10>> {};

// As Eigen's program beside it: no momentum, and each weight moves as soon as its gradient is known.
int main(int argc, char** argv) { return serve_network<Small, Features<32>, PlainSgd, UpdateInBackward>(argc, argv); }
