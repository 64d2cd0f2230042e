// Imperative mode updates all parameters.
// expect: Imperative::step updates whole tables: train Embedding<..., Sparse> by a Trainer, or leave Sparse out
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net {
#ifdef FAULT
  Embedding<100, 8, Sparse> words;
#else
  Embedding<100, 8> words;
#endif
  constexpr auto forward(auto tokens) const { return mean<1>(words(tokens)); }
};

void step(Imperative<Net>& net) { net.step(PlainSgd{}); }
