#include "../../examples/models/lenet.hpp"
#include "gpu.hpp"

int main(int argc, char** argv) { return serve_on_gpu<LeNet, tenet::Image<1, 28, 28>>(argc, argv); }
