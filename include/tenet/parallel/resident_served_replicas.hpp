#pragma once

#include <tenet/parallel/resident_replicas.hpp>
#include <tenet/parallel/resident_servers.hpp>

/// `DataParallel` with `ParameterServer<OnCpu>` on devices with memories of their own.
namespace tenet {

/// A training step: the devices are ranks to each other, with servers in the host's memory, which they share. Each
/// device's gradients come to the host, bucket by bucket while backward goes on; there a thread for each device adds up
/// its part of each bucket, and updates it; and the parameters go to all devices. The same interface as
/// `ResidentExecution`, but `run` waits for the passes; the parameters are still to come.
template <class Program, class Synchronisation, class Device, int count, long bucket_bytes, class Cut>
class ResidentServedReplicas
    : public PartsOfReplicas<ResidentServedStep<Program, Synchronisation, bucket_bytes, ThreadTransport, Cut>, Device,
                             typename Program::Kernels> {
  using Part = ResidentServedStep<Program, Synchronisation, bucket_bytes, ThreadTransport, Cut>;
  using Base = PartsOfReplicas<Part, Device, typename Program::Kernels>;

 public:
  using Group = typename Base::Group;

  explicit ResidentServedReplicas(Group& replicas) : Base(replicas), sums_(count, replicas.limit()) {
    run_each([&](int r) {
      parts_[index(r)] = std::make_unique<Part>(replicas.executor(r), replicas.arenas(r), this->transport_inside(r),
                                                std::make_unique<ThreadTransport>(sums_, r));
    });
  }
  /// All at the same time, as each waits for what the others still want of its server.
  ~ResidentServedReplicas() {
    try {
      run_each([&](int r) { parts_[index(r)].reset(); });
    } catch (...) {  // said already to whoever made the step that failed
    }
  }

  void bind(Arena arena, float* host) {
    if (arena == Arena::gradients) gradients_ = host;
    Base::bind(arena, host);
  }
  void run(int batch) {
    run_each([&](int r) {
      const int samples = shard_of(batch, r, count).samples;
      weights_[index(r)] = Program::is_on_part ? 1 : static_cast<float>(samples) / static_cast<float>(batch);
      try {
        parts_[index(r)]->run({Cut::of_worker, r, count}, batch, samples);
      } catch (...) {
        sums_.abandon();
        throw;
      }
    });
  }
  void complete() {
    run_each([&](int r) { parts_[index(r)]->complete(); });
  }
  /// They become those of the whole batch.
  void collect_gradients() {
    std::array<const float*, static_cast<std::size_t>(count)> terms;
    for (int r = 0; r < count; ++r) terms[index(r)] = parts_[index(r)]->gradients_here();
    detail::weighted_sum(terms.data(), weights_.data(), count, gradients_, 0, Program::slots.parameter_floats);
  }
  /// They are the same for all.
  const float* result(int i) const { return parts_[0]->result(i); }

 private:
  using Base::index, Base::parts_, Base::run_each;

  ThreadNetwork sums_;                                            // of SyncBatchNorm
  std::array<float, static_cast<std::size_t>(count)> weights_{};  // of each one's gradients in the last step
  float* gradients_ = nullptr;
};

}  // namespace tenet
