#include "agreement.hpp"
#include "tenet/device/cuda/launch.hpp"

namespace {

struct Index {
  float* to;
  TENET_HOST_DEVICE void operator()(long i) const { to[i] = static_cast<float>(i % 1000 + 1); }
  TENET_HOST_DEVICE void operator()(auto, long i) const { (*this)(i); }
};
void for_each(tenet::reference::Serial&, long count, const Index& work) {
  for (long i = 0; i < count; ++i) work(i);
}

}  // namespace

TEST_CASE("every element is visited", "[cuda][launch]") {
  for (const long count : {1L, 255L, 256L, 257L, 3000000L}) {
    CAPTURE(count);
    check_agreement(count, 0, [&](auto& place, float* to) { for_each(place.executor, count, Index{to}); });
  }
}

TEST_CASE("no elements are no kernel", "[cuda][launch]") {
  tenet::gpu::SerialHost host;
  for_each(host, 0, Index{nullptr});
  if (tenet::gpu::device_count() == 0) return;
  tenet::gpu::Stream stream(0);
  for_each(stream, 0, Index{nullptr});
  for_each_row(stream, 0, 10, Index{nullptr});
  stream.synchronize();
}
