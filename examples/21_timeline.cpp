// What ran when: two ranks train LeNet, and with the tag `Timeline<>` each records its steps, and what it sends. The
// file opens in ui.perfetto.dev or chrome://tracing: a process for each rank, with a row for its device and one for its
// communication, and beside them the schedule as it was planned at compile time.
// ranks: 2
// test: --steps 6 --batch-size 64 --file timeline_example.json
#include <tenet/comm/mpi.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/train/timeline.hpp>

#include "common/images.hpp"
#include "common/json.hpp"
#include "common/options.hpp"
#include "models/lenet.hpp"

using namespace tenet;

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  Options options(argc, argv, "Records a training of LeNet on all ranks that mpirun starts, for Perfetto.",
                  {{"steps", "50", "training steps"},
                   {"batch-size", "256", "images in a step of one rank"},
                   {"file", "timeline.json", "to write, from all ranks"}});
  const int batch = options.integer("batch-size"), steps = options.integer("steps");
  const ExampleImages images = ExampleImages::load();
  const auto train = first(images.train, steps * batch * mpi.size());

  Trainer<LeNet, CrossEntropy, Sgd, Image<1, 28, 28>, Distributed<Mpi>, BucketBytes<32768>, Timeline<>> trainer{
      {.learning_rate = 0.05f, .momentum = 0.9f}};
  const DistributedSampler share(RandomSampler(train.size()), mpi.rank(), mpi.size(), batch);
  trainer.fit(DataLoader{train, share, {.batch_size = batch, .workers = 1}}, {.progress = nullptr});

  // Each rank writes what it has seen; the first one puts all of it into one file when all are done.
  const auto file_of = [&](int rank) { return options.text("file") + ".rank" + std::to_string(rank); };
  const TimelineReport timeline = trainer.timeline();
  timeline.write(file_of(mpi.rank()));
  auto others = Mpi::connect();
  barrier(others, {"files of all ranks"});
  if (mpi.rank() != 0) return 0;
  std::vector<std::string> files;
  for (int rank = 0; rank < mpi.size(); ++rank) files.push_back(file_of(rank));
  TraceEvents::merge(files, options.text("file"));
  for (const std::string& file : files) std::remove(file.c_str());

  std::fputs(timeline.text().c_str(), stdout);
  std::printf("written to %s: open it in https://ui.perfetto.dev\n", options.text("file").c_str());
  const CommunicationOverlap overlap = timeline.overlap();
  options.write_json(Json()
                         .add("communication_seconds", overlap.seconds)
                         .add("hidden_share", overlap.hidden_share())
                         .add("file", options.text("file"))
                         .text());
}
