#include <tenet/parallel/distributed.hpp>

#include "matrix.hpp"

using namespace tenet;
using Processes = combinations::Of<Distributed<SharedMemory>>;
static_assert(Processes::count == combinations::Count{49, 239});

TEST_CASE("processes of one machine train as one device does", "[combinations]") { Processes::check_all(); }
