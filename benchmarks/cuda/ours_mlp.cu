// 784-256-10
#include "gpu.hpp"

using namespace tenet;

struct Mlp : Sequential<Linear<784, 256>, ReLU, Linear<256, 10>> {};

int main(int argc, char** argv) { return serve_on_gpu<Mlp, Features<784>>(argc, argv); }
