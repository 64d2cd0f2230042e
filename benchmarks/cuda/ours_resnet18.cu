#include "../../examples/models/resnet18.hpp"
#include "gpu.hpp"

int main(int argc, char** argv) { return serve_on_gpu<ResNet18<>, tenet::Image<1, 28, 28>>(argc, argv); }
