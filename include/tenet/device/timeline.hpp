#pragma once

#include <tenet/core/timeline.hpp>

namespace tenet {

/// A device's executor, with the row in which its steps are recorded; null: they are not.
template <class Executor>
struct RecordedExecutor : Executor {
  using Executor::Executor;
  using WithoutRow = Executor;
  TimelineRow* timeline_row = nullptr;
};

/// A device's kernels, for programs whose steps are recorded while they run.
template <class Kernels>
struct WithTimeline : Kernels {
  using Executor = RecordedExecutor<typename Kernels::Executor>;
  using Kernel = void (*)(Executor&, const typename Kernels::Arguments&);
};

}  // namespace tenet
