// The compile-time graph as a picture: the training step and the inference program in Graphviz' language.
// test: --network mlp
#include <tenet/tenet.hpp>

#include "common/json.hpp"
#include "common/options.hpp"
#include "models/lenet.hpp"

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
  std::printf("\n%s", Training().summary().c_str());

  using Program = typename Training::Training;  // every pass is a constant that a program may ask
  options.write_json(Json()
                         .add("nodes", Program::graph.count)
                         .add("steps", Program::lowered.used.steps)
                         .add("merged", Program::trace.merged)
                         .add("simplified", Program::trace.simplified)
                         .add("floats_a_sample", static_cast<double>(Program::per_sample_floats))
                         .text());
}

int main(int argc, char** argv) {
  Options options(argc, argv, "Writes the graphs of a network and prints its plan.",
                  {{"network", "lenet", "lenet or mlp"}, {"prefix", "", "what the files' names begin with"}});
  if (options.text("network") == "mlp")
    draw<Mlp, Features<784>>(options);
  else
    draw<LeNet, Image<1, 28, 28>>(options);
}
