#pragma once

/// The device policy `Cuda<i>`: the component tenet::cuda.
#include <tenet/device/cuda.hpp>
#include <tenet/exec/resident_execution.hpp>
