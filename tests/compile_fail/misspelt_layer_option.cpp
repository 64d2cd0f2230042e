// An option whose name is misspelt: the compiler's own message.
// expect: \bPaddin\b
#include <tenet/tenet.hpp>

#ifdef FAULT
tenet::Conv2d<1, 4, 3, tenet::Paddin<1>> layer;
#else
tenet::Conv2d<1, 4, 3, tenet::Padding<1>> layer;
#endif
