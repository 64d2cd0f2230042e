#pragma once

#include <tenet/exec/sparse_execution.hpp>

/// Where the parts of a training run: the policies of the axis `strategy`. Each of the others has a header of its own,
/// so that only those who name it compile it: data_parallel.hpp, inter_op_parallel.hpp, distributed.hpp.
namespace tenet {
namespace detail {

template <class Program, class OneSample>
struct StepOfOne {
  using type = Execution<Program, OneSample>;
};
template <class Program, class OneSample>
  requires(Program::slots.table_count > 0 && updates_parameters<Program>())
struct StepOfOne<Program, OneSample> {
  using type = SparseExecution<Program>;
};
template <class Program, class OneSample>
  requires HasOwnMemory<typename Program::Kernels::Executor>
struct StepOfOne<Program, OneSample> {
  using type = ResidentExecution<Program>;
};

}  // namespace detail

/// On one device.
struct Single {
  static constexpr int replicas = 1;
  using Synchronisation = void;
  template <class Device, class Kernels>
  using Devices = std::conditional_t<HasOwnMemory<typename Kernels::Executor>, ResidentDevice<Device, Kernels>,
                                     OneDevice<Device, Kernels>>;
  template <class Definition>
  using DefinitionOf = Definition;
  template <class Program, class Policies>
  using ExecutionOf = typename detail::StepOfOne<Program, typename Policies::OneSample>::type;
  /// What each rank of a `Distributed` runs by itself.
  template <class Program, class Policies>
  using ExecutionOfRank = ExecutionOf<Program, Policies>;
};

}  // namespace tenet
