#include <tenet/tenet.hpp>

int main() {}
