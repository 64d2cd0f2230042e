#pragma once

#include <cstdio>
#include <string>
#include <tenet/tenet.hpp>

#include "images.hpp"
#include "options.hpp"

/// What a run of an image classifier found, printed and written as JSON.
inline void report(Options& options, const char* network, const char* data, const tenet::FitReport& fit,
                   const tenet::Evaluation& test) {
  std::string epochs;
  double seconds = 0;
  for (const tenet::EpochReport& epoch : fit.epochs) {
    char line[160];
    std::snprintf(line, sizeof line, "%s{\"epoch\": %d, \"loss\": %.6f, \"accuracy\": %.6f, \"seconds\": %.3f}",
                  epochs.empty() ? "" : ", ", epoch.epoch, epoch.loss, epoch.accuracy, epoch.seconds);
    epochs += line;
    seconds += epoch.seconds;
  }
  std::printf("%s on %s: test accuracy %.4f, test loss %.4f on %ld images, %.1f s of training\n", network, data,
              test.accuracy, test.loss, test.samples, seconds);
  char rest[160];
  std::snprintf(rest, sizeof rest, "\"test_accuracy\": %.6f, \"test_loss\": %.6f, \"seconds\": %.3f}", test.accuracy,
                test.loss, seconds);
  options.write_json(std::string("{\"network\": \"") + network + "\", \"data\": \"" + data + "\", \"epochs\": [" +
                     epochs + "], " + rest);
}
