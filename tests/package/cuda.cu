#include <cstdio>
#include <string>
#include <tenet/cuda.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Linear<4, 3>, ReLU, Linear<3, 2>> {};

int main() {
  try {
    Model<Net, Features<4>, Cuda<0>> model;
    const float numbers[4]{1, 2, 3, 4};
    std::printf("%g\n", model(numbers)[0]);
  } catch (const Error& error) {  // no GPU: it has been compiled and linked
    std::printf("%s\n", error.what());
    return std::string(error.what()).find("no such device") == std::string::npos;
  }
}
