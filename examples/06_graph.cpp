// The compile-time graph as a picture: the training step and the inference program in Graphviz' language.
// test: --network mlp
#include <tenet/tenet.hpp>

#include "common/json.hpp"
#include "common/options.hpp"
#include "models/lenet.hpp"
#include "models/resnet18.hpp"

using namespace tenet;

/// The smallest network with something to fuse: its graph fits on a page.
struct Mlp : Sequential<Linear<784, 256>, ReLU, Linear<256, 10>> {};

void write(const std::string& path, const std::string& text) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (file == nullptr || std::fputs(text.c_str(), file) < 0 || std::fclose(file) != 0)
    fail("06_graph", "a file", "to be written", "'" + path + "' cannot be");
  std::printf("wrote %s: dot -Tsvg -O %s\n", path.c_str(), path.c_str());
}

template <class Net, class Input>
void draw(Options& options) {
  using Training = Trainer<Net, CrossEntropy, Sgd, Input>;
  const std::string prefix = options.text("prefix") + options.text("network");
  write(prefix + "_training.dot", Training::graph());
  write(prefix + "_inference.dot", graph<Net, Input>());
  std::printf("\n%s\n%s", Training().summary().c_str(), summary<Net, Input>().c_str());

  using Program = typename Training::Training;  // the result of every pass is a constant that may be asked
  int operations = 0;                           // a view, as a reshape, costs nothing and does not count
  for (const auto& node : Program::graph.nodes) operations += node.is_computed() && node.operation->kind != Kind::view;
  std::printf("\ntraced %d nodes (%d merged, %d simplified away); %d live: %d forward, %d operations in all\n",
              Program::trace.count, Program::trace.merged, Program::trace.simplified, Program::graph.count,
              Program::graph.forward_count, operations);
  std::printf("planned %ld floats a sample instead of %ld; %zu bytes of program\n", Program::plan.per_sample_floats,
              Program::plan.unplanned_per_sample_floats, sizeof Program::lowered);
  options.write_json(Json()
                         .add("nodes", Program::graph.count)
                         .add("operations", operations)
                         .add("steps", Program::lowered.used.steps)
                         .add("planned_floats", static_cast<double>(Program::plan.per_sample_floats))
                         .add("unplanned_floats", static_cast<double>(Program::plan.unplanned_per_sample_floats))
                         .text());
}

int main(int argc, char** argv) {
  Options options(argc, argv, "Writes the graphs of a network and prints its plan.",
                  {{"network", "lenet", "mlp, lenet or resnet18"}, {"prefix", "", "what the files' names begin with"}});
  const std::string& network = options.text("network");
  if (network == "mlp") return draw<Mlp, Features<784>>(options), 0;
  if (network == "lenet") return draw<LeNet, Image<1, 28, 28>>(options), 0;
  if (network == "resnet18") return draw<ResNet18<>, Image<1, 28, 28>>(options), 0;
  std::fprintf(stderr, "no network '%s'; there are mlp, lenet and resnet18\n", network.c_str());
  return 2;
}
