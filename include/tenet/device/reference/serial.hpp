#pragma once

#include <tenet/core/worker_sum.hpp>

/// The oracle: every kernel as plain loops over its definition, on one thread. Other devices are tested against it.
namespace tenet::reference {

/// The reference device's executor; its kernels run where they are called.
struct Serial {
  WorkerSum worker_sum;
};

}  // namespace tenet::reference
