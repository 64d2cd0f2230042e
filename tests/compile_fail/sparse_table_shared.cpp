// The table of an embedding whose updates are sparse is used a second time.
// expect: Embedding<..., Sparse>: the tokens have to be the network's input, and one call of the layer has to
// expect(g++): SparseTableMisused<.*Layer<.*"words"
// expect(clang): SparseTableMisused<.*Layer<.*"words"
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net {
#ifdef FAULT
  Embedding<100, 8, Sparse> words;
#else
  Embedding<100, 8> words;
#endif
  constexpr auto forward(auto tokens) const {
    return matmul<false, true>(mean<1>(words(tokens)), words.weight.in(tokens));
  }
};

int main() { Trainer<Net, CrossEntropy, PlainSgd, Tokens<5>> trainer; }
