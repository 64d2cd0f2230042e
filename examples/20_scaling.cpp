// How far does a training scale? The time of its step for up to 16,384 workers, by policy, on a network that is not
// there: as a table, and with --svg FILE as a picture.
// test: --network lenet --workers 64
// test: --network resnet18 --workers 16 --jitter 0.2
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/hierarchical.hpp>
#include <tenet/parallel/local_sgd.hpp>
#include <tenet/parallel/parameter_server.hpp>
#include <tenet/parallel/step_time.hpp>
#include <tenet/tenet.hpp>

#include "common/json.hpp"
#include "common/options.hpp"
#include "common/plot.hpp"
#include "models/lenet.hpp"
#include "models/resnet18.hpp"

using namespace tenet;

/// What a policy's curve is made of.
struct Scaling {
  std::string name;
  std::vector<StepTime> points{};
};

template <class Net, class... Tags>
using Rank = Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, Cpu<0, 1>, Tags...>;

template <class Trainer>
Scaling scaling(const char* name, StepTimeOptions options, int most) {
  Scaling found{name};
  for (int workers = 1; workers <= most; workers *= 4) {
    if (workers % Trainer::Chosen::Strategy::replicas != 0) continue;
    options.workers = workers;
    found.points.push_back(predict_step_time<Trainer>(options));
    const StepTime& point = found.points.back();
    std::printf("%-38s %6d %12.3f %12.3f %12.3f %14.0f %6.1f %%\n", name, workers, 1e3 * point.step,
                1e3 * point.communication, 1e3 * point.exposed, point.samples_per_second, 100 * point.efficiency);
    std::fflush(stdout);
  }
  return found;
}

template <class Net>
std::vector<Scaling> all_policies(const StepTimeOptions& options, int most) {
  std::printf("%-38s %6s %12s %12s %12s %14s %8s\n", "policy", "worker", "step, ms", "exchange, ms", "exposed, ms",
              "samples / s", "efficiency");
  using World = Distributed<Imagined>;
  StepTimeOptions of_machines = options;
  of_machines.ranks_of_machine = 8;
  return {
      scaling<Rank<Net, World>>("AllReduce", options, most),
      scaling<Rank<Net, World, Ring>>("Ring", options, most),
      scaling<Rank<Net, Distributed<Imagined, DataParallel<4>>>>("DataParallel<4> in each rank", options, most),
      scaling<Rank<Net, World, LocalSgd<8>>>("LocalSgd<8>", options, most),
      scaling<Rank<Net, World, Hierarchical<AllReduce, LocalSgd<8>>>>("… of machines of 8 ranks", of_machines, most),
      scaling<Rank<Net, World, ParameterServer<>>>("ParameterServer, sharded", options, most),
      scaling<Rank<Net, World, ParameterServer<Sharded, Asynchronous>>>("… asynchronous", options, most),
      scaling<Rank<Net, World, ParameterServer<OnRank<0>>>>("ParameterServer on one rank", options, most)};
}

int main(int argc, char** argv) {
  Options options(argc, argv, "Predicts the step time of a training for many workers, by policy.",
                  {{"network", "resnet18", "lenet or resnet18"},
                   {"workers", "16384", "the most"},
                   {"batch", "32", "samples of each worker in a step"},
                   {"link", "10", "Gbit/s between workers: 1, 10, 100 or any other number"},
                   {"latency", "0", "microseconds; 0: 50, 10 or 2, as the link is slow or quick"},
                   {"device", "accelerator", "accelerator (10 TFLOP/s), core, or this: each step measured here"},
                   {"jitter", "0", "deviation of the logarithm of a worker's time in a step"},
                   {"svg", "", "file to draw the curves into"}});
  const std::string network = options.text("network"), device = options.text("device");
  const double gigabits = static_cast<double>(options.number("link"));
  const int most = options.integer("workers");

  StepTimeOptions given{.batch_of_worker = options.integer("batch")};
  given.link.bytes_per_second = gigabits * 1e9 / 8;
  given.link.latency = 1e-6 * static_cast<double>(options.number("latency"));
  if (given.link.latency == 0) given.link.latency = gigabits < 10 ? 5e-5 : gigabits < 100 ? 1e-5 : 2e-6;
  if (device == "accelerator") {
    given.machine = {.flops_per_second = 1e13, .bytes_per_second = 1e12, .seconds_of_call = 5e-6};
    given.inside = {.latency = 5e-6, .bytes_per_second = 1e11};
  }
  if (options.number("jitter") > 0) given.slowness = with_jitter(static_cast<double>(options.number("jitter")));
  if (device == "this")
    given.seconds_of_steps = network == "lenet"
                                 ? measured_on_this_machine<Rank<LeNet>>()
                                 : Function<std::vector<double>(int)>(measured_on_this_machine<Rank<ResNet18<>>>(2));
  const std::vector<Scaling> found =
      network == "lenet" ? all_policies<LeNet>(given, most) : all_policies<ResNet18<>>(given, most);

  Json json;
  char subtitle[160];
  std::snprintf(subtitle, sizeof subtitle, "%d samples a worker; %.1f ms a step alone; links of %g Gbit/s and %g µs",
                given.batch_of_worker, 1e3 * found[0].points[0].step, gigabits, 1e6 * given.link.latency);
  Plot plot((network == "lenet" ? "LeNet" : "ResNet-18") + std::string(": what is predicted, by policy"), subtitle);
  Plot::Panel samples{"Samples a second", "workers", "samples a second"},
      efficiency{"Efficiency: over as many workers by themselves", "workers", "efficiency", false};
  Plot::Curve ideal{{}, {}, true};
  for (const StepTime& point : found[0].points) {
    ideal.x.push_back(point.workers);
    ideal.y.push_back(point.workers * found[0].points[0].samples_per_second);
  }
  samples.names.push_back("ideal");
  samples.curves.push_back(ideal);
  for (const Scaling& policy : found) {
    Plot::Curve of_samples, of_efficiency;
    for (const StepTime& point : policy.points) {
      of_samples.x.push_back(point.workers);
      of_efficiency.x.push_back(point.workers);
      of_samples.y.push_back(point.samples_per_second);
      of_efficiency.y.push_back(point.efficiency);
    }
    json.add(policy.name, of_efficiency.y)
        .add(policy.name + ", workers", of_samples.x)
        .add(policy.name + ", samples a second", of_samples.y);
    samples.names.push_back(policy.name);
    samples.curves.push_back(of_samples);
    efficiency.names.push_back(policy.name);
    efficiency.curves.push_back(of_efficiency);
  }
  plot.add(samples);
  plot.add(efficiency);
  if (const std::string& path = options.text("svg"); !path.empty()) {
    std::FILE* const file = std::fopen(path.c_str(), "w");
    if (file == nullptr || std::fputs(plot.svg().c_str(), file) < 0 || std::fclose(file) != 0) {
      std::fprintf(stderr, "cannot write '%s'\n", path.c_str());
      return 1;
    }
  }
  options.write_json(json.text());
  return 0;
}
