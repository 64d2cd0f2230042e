// Replicas that add up gradients would add up whole tables.
// expect: Embedding<..., Sparse> is trained on one Cpu, or by Hogwild<samples> with DataParallel<k>, and not
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/hogwild.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net {
  Embedding<100, 8, Sparse> words;
  Linear<8, 3> scores;
  constexpr auto forward(auto tokens) const { return scores(mean<1>(words(tokens))); }
};

#ifdef FAULT
using Synchronisation = AllReduce;
#else
using Synchronisation = Hogwild<16>;
#endif

float loss(Trainer<Net, CrossEntropy, PlainSgd, Tokens<5>, DataParallel<2>, Synchronisation>& trainer, const int* words,
           const int* classes) {
  return trainer.step(words, classes, 32).loss;
}
