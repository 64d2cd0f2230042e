#pragma once

#include <tenet/parallel/single.hpp>
#include <tenet/parallel/synchronisation.hpp>
#include <type_traits>

namespace tenet::detail {

/// Of which trainers `predict_step_time` has a model of the step.
template <class Trainer>
class ModelledStep {
  using Program = typename Trainer::Training;
  using Chosen = typename Trainer::Chosen;
  using Strategy = typename Chosen::Strategy;
  using Synchronisation = typename Chosen::Synchronisation;
  static constexpr Traffic traffic = Chosen::traffic();
  static constexpr bool serves_ranks = Chosen::has_ranks && HasServers<Synchronisation>;

 public:
  /// Whether several devices of a process run one program together.
  static constexpr bool shares_program = Program::order.devices > 1;
  static constexpr bool knows_strategy = std::is_same_v<Strategy, Single> || shares_program || Chosen::has_ranks ||
                                         requires { requires Strategy::replicates; };
  /// Whether a rank's training step is a known one.
  static constexpr bool knows_step = [] {
    if constexpr (!Chosen::has_ranks)
      return true;
    else
      return !HasStepOfRank<Synchronisation> || HasServers<Synchronisation> || SharesWithoutLocks<Synchronisation> ||
             AveragesParameters<Synchronisation> || ScattersGradients<Synchronisation>;
  }();
  static constexpr bool knows_traffic = serves_ranks || (traffic.served == nullptr && traffic.has_formula());
  static constexpr bool serves_other_memory = Chosen::has_own_memory && Chosen::asks_servers;
  static constexpr bool has_sparse_tables = Program::slots.table_count > 0;

  /// Seconds of what moves neither as a collective does whose messages are known, nor to servers; else null.
  static constexpr auto formula() {
    const Moving* const moving = traffic.gradients != nullptr ? traffic.gradients : traffic.parameters;
    const bool has_messages = serves_ranks || HasLevels<Synchronisation> || moving == nullptr ||
                              moving == &all_reduce_moves || moving == &ring_moves || moving == &scatter_moves;
    return has_messages ? nullptr : moving->seconds;
  }
};

}  // namespace tenet::detail
