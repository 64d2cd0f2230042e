#pragma once

#include <tenet/core/span.hpp>
#include <tenet/data/data_loader.hpp>
#include <tenet/train/fit_options.hpp>
#include <tenet/train/interrupt.hpp>
#include <tenet/train/progress.hpp>

/// The loops of a trainer over the batches of a loader.
namespace tenet::detail {

/// Trains for some epochs: start(batch) starts a step with each batch of batches_of(epoch), of which there are
/// `steps_of_epoch`, and finish() gives the result of the oldest one that is under way. There are `ahead` + 1 of them
/// at most, four in all, and none behind an epoch. `factor` is that of the learning rate, which a schedule sets before
/// each step. Ctrl-C ends it after the steps that are under way.
template <class Executor, class BatchesOf, class Start, class Finish>
FitReport run_epochs(const FitOptions& options, long steps_of_epoch, Executor& executor, float& factor, int ahead,
                     BatchesOf batches_of, Start start, Finish finish) {
  FitReport report;
  const InterruptGuard guard;
  const struct Reset {  // also where a callback throws
    float& factor;
    ~Reset() { factor = 1.0f; }
  } reset{factor};
  Progress progress(options.progress, options.epochs, steps_of_epoch);
  RepeatedSpan waiting(executor, {.name = "a batch", .kind = SpanKind::wait});
  constexpr int most = 4;
  if (ahead >= most) fail("run_epochs", "steps ahead", "at most 3", ahead);
  int sizes[most];  // of the steps under way, by their numbers
  long started = 0, finished = 0;
  for (int epoch = 0; epoch < options.epochs && !report.interrupted; ++epoch) {
    const std::int64_t begin = timeline_now();
    EpochReport done{epoch + 1, 0, 0, 0, 0};
    const auto finish_until = [&](long under_way) {
      while (started - finished > under_way) {
        const int size = sizes[finished % most];
        const StepResult result = finish();
        done.loss += result.loss * size;
        done.accuracy += result.accuracy * size;
        done.samples += size;
        progress.step(result.loss, result.accuracy, size);
        ++finished;
        if (options.on_step) options.on_step(finished, result);
      }
    };
    waiting.begin();
    for (const Batch& batch : batches_of(epoch)) {
      waiting.end();
      factor = options.schedule ? options.schedule({started, options.epochs * steps_of_epoch, epoch}) : 1.0f;
      start(batch);
      sizes[started++ % most] = batch.size;
      finish_until(ahead);
      if (InterruptGuard::requested()) {
        report.interrupted = true;
        break;
      }
      waiting.begin();
    }
    finish_until(0);
    done.loss /= static_cast<double>(done.samples);
    done.accuracy /= static_cast<double>(done.samples);
    done.seconds = 1e-9 * static_cast<double>(timeline_now() - begin);
    report.epochs.push_back(done);
    if (!report.interrupted) progress.finish_epoch();
    if (options.on_epoch) options.on_epoch(done);
    if (options.stop_after && options.stop_after(done)) break;
  }
  return report;
}

/// Loss and accuracy over all batches, of which evaluate(batch) gives those of one.
template <class Executor, class Batches, class Evaluate>
Evaluation evaluate_all(Executor& executor, Batches&& batches, Evaluate evaluate) {
  Evaluation total{0, 0, 0};
  RepeatedSpan waiting(executor, {.name = "a batch", .kind = SpanKind::wait});
  waiting.begin();
  for (const Batch& batch : batches) {
    waiting.end();
    const StepResult result = evaluate(batch);
    total.loss += static_cast<double>(result.loss) * batch.size;
    total.accuracy += static_cast<double>(result.accuracy) * batch.size;
    total.samples += batch.size;
    waiting.begin();
  }
  total.loss /= static_cast<double>(total.samples);
  total.accuracy /= static_cast<double>(total.samples);
  return total;
}

}  // namespace tenet::detail
