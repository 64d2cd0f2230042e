// What a synchronisation moves, and how long that takes, is not known where it does not say so.
// expect: predict_step_time: there is no model of this synchronisation: its traffic does not say how long what it
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/step_time.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

struct Mine {
  static constexpr const char* name = "mine";
  static constexpr bool sends_buckets = true;
#ifndef FAULT
  static constexpr Traffic traffic = AllReduce::traffic;
#endif
  template <class T>
  static void reduce(T& transport, float* data, long floats, MessageLabel label, float weight) {
    all_reduce(transport, data, floats, label, weight);
  }
};

double step() {
  return predict_step_time<Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, Distributed<Imagined>, Mine>>().step;
}
