#include <tenet/parallel/distributed.hpp>

#include "../../support/thread_world.hpp"
#include "matrix.hpp"

using namespace tenet;
using Both = combinations::Of<Distributed<ThreadWorld, DataParallel<2>>>;
static_assert(Both::count == combinations::Count{49, 239});

TEST_CASE("ranks that have replicas train as one device does", "[combinations]") { Both::check_all(); }
