// 32-64-64-10
#include "../network.hpp"

using namespace tenet;

struct Small : Sequential<Linear<32, 64>, ReLU, Linear<64, 64>, ReLU, Linear<64, 10>> {};

int main(int argc, char** argv) { return serve_precisions<Small, Features<32>>(argc, argv); }
