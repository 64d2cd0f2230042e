#pragma once

/// The oracle: every kernel as plain loops over its definition, on one thread. Other devices are tested against it.
namespace tenet::reference {

/// The reference device's executor; its kernels run where they are called.
struct Serial {};

}  // namespace tenet::reference
