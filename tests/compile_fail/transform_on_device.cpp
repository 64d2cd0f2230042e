// A transform that draws random numbers and does not say what it does element by element, for a device.
// expect: Resident: samples that differ from epoch to epoch are made on the device
// expect: one of your own with elements\(layout\) \(docs/data.md\)
#include <tenet/data/generated_images.hpp>
#include <tenet/data/resident.hpp>

using namespace tenet;

#ifdef FAULT
struct Brighten {
  void operator()(const SampleView& sample, Random& random) const { sample.input()[0] += random.uniform(); }
};
#else
struct Brighten : RandomFlip {};
#endif

auto data() { return Resident{Map{GeneratedImages::train(), Brighten{}}}; }
