// The optimizer stands behind the input.
// expect: the third template argument is no optimizer: the order is Trainer<Net, Loss, Optimizer
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

#ifdef FAULT
using Training = Trainer<Net, CrossEntropy, Image<1, 28, 28>, Sgd>;
#else
using Training = Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>>;
#endif

int main() { Training trainer; }
