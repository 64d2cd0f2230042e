#pragma once

#include <nvtx3/nvToolsExt.h>

/// Ranges that NVIDIA's profilers show (NVTX). Where none is attached, a call is a look at a pointer that is null.
namespace tenet::gpu {

/// What the library's ranges are shown as: "tenet".
inline nvtxDomainHandle_t range_domain() {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("tenet");
  return domain;
}

/// Of this thread: all until its `end_range` belongs to `name`, which need not outlive the call.
inline void begin_range(const char* name) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(range_domain(), &attributes);
}
inline void end_range() { nvtxDomainRangePop(range_domain()); }

}  // namespace tenet::gpu
