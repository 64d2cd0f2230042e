#pragma once

/// The device policy `Cuda<i>`: the component tenet::cuda.
#include <tenet/device/cuda.hpp>
#include <tenet/exec/resident_execution.hpp>
#include <tenet/parallel/nccl.hpp>
#include <tenet/parallel/resident_ranks.hpp>
#include <tenet/parallel/resident_replicas.hpp>
#include <tenet/parallel/resident_served_replicas.hpp>
#include <tenet/parallel/resident_servers.hpp>
