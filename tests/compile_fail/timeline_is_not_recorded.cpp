// A timeline that was not asked for.
// expect: nothing is recorded without the policy Timeline<>
#include <tenet/tenet.hpp>
#include <tenet/train/timeline.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

#ifdef FAULT
using Shown = NoTimeline;
#else
using Shown = Timeline<1000>;
#endif

void show(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, Shown>& trainer) { trainer.timeline().write("trace.json"); }
