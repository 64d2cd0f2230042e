#pragma once

#include <memory>
#include <tenet/comm/machine_topology.hpp>
#include <vector>

#include "thread_world.hpp"

namespace ranks {

/// Ranks that are threads, of which a test says on which machines they are. What is sent is counted.
struct OnMachines : tenet::ThreadTransport {
  OnMachines(const tenet::ThreadTransport& own, const std::vector<int>& machine_of_rank,
             const tenet::LinkCost& between = {2e-5, 1e-8, 4e-10}, const tenet::LinkCost& inside = {1e-6, 1e-9, 4e-10})
      : ThreadTransport(own),
        cost(between),
        of_ranks(std::make_shared<const tenet::MachineTopology>(machine_of_rank, inside)) {
    if (of_ranks->count() == 1)
      cost = inside;
    else
      cost.machine = of_ranks->cost();
  }

  tenet::LinkCost link() const { return cost; }
  const tenet::MachineTopology* machines() const { return of_ranks->count() == 1 ? nullptr : of_ranks.get(); }
  void send(int to, const float* data, long floats, tenet::MessageLabel label) {
    (of_ranks->are_together(rank(), to) ? sent_inside : sent_between) += floats;
    ++messages;
    ThreadTransport::send(to, data, floats, label);
  }

  tenet::LinkCost cost;
  std::shared_ptr<const tenet::MachineTopology> of_ranks;
  long sent_inside = 0, sent_between = 0;
  int messages = 0;
};

/// For `Distributed`: so many consecutive ranks are on each machine.
template <int ranks_of_machine>
struct MachineWorld {
  static OnMachines connect() {
    std::vector<int> machine_of_rank;
    for (int rank = 0; rank < ThreadWorld::joined->size(); ++rank) machine_of_rank.push_back(rank / ranks_of_machine);
    return {*ThreadWorld::joined, machine_of_rank};
  }
};

}  // namespace ranks
