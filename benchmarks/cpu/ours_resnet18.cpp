#include "../../examples/models/resnet18.hpp"
#include "../network.hpp"

int main(int argc, char** argv) { return serve_precisions<ResNet18<>, tenet::Image<1, 28, 28>>(argc, argv); }
