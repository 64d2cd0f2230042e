// A data set that stays on a device inside a map, where a trainer would not see it.
// expect: Map: Resident is the outermost data set: Resident\{Map\{dataset, \.\.\.\}\}
#include <tenet/data/generated_images.hpp>
#include <tenet/data/resident.hpp>

using namespace tenet;

#ifdef FAULT
auto data() { return Map{Resident{GeneratedImages::train()}, RandomFlip{}}; }
#else
auto data() { return Resident{Map{GeneratedImages::train(), RandomFlip{}}}; }
#endif
