#pragma once

#include <tenet/device/epilogue.hpp>

namespace tenet {

/// What one run of a kernel is given: its operands, where to write, the batch.
struct KernelArguments {
  const void* operands[4]{};
  void* written = nullptr;
  int batch = 1;
  int attribute = 0;  ///< the number given with the operation, as a dropout's salt
  Epilogue epilogue{};

  template <class Element>
  const Element* operand(int i) const {
    return static_cast<const Element*>(operands[i]);
  }
  template <class Element>
  Element* result() const {
    return static_cast<Element*>(written);
  }
};

}  // namespace tenet
