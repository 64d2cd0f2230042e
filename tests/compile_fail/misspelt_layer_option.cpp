// An option whose name is misspelt: the compiler's own message.
// expect: \bPaddin\b
#include <tenet/tenet.hpp>

using namespace tenet;

#ifdef FAULT
Conv2d<1, 4, 3, Paddin<1>> layer;
#else
Conv2d<1, 4, 3, Padding<1>> layer;
#endif
