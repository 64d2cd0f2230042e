#include "../support/hybrid.hpp"

TEST_CASE("networks drawn at random give the same numbers in both modes on the reference device", "[hybrid]") {
  hybrid::check_all_drawn<tenet::Reference, 12>();
}

TEST_CASE("the networks drawn hold every kind of layer", "[hybrid]") {
  for (const char* layer : {"Conv2d", "MaxPool2d", "AvgPool2d", "GlobalAvgPool2d", "BatchNorm2d", "Residual", "Concat",
                            "Dropout", "GELU", "Sigmoid", "Tanh", "ReLU", "Flatten", "Linear", "LayerNorm"}) {
    CAPTURE(layer);
    CHECK(hybrid::networks_with<12>(layer) > 0);
  }
}
