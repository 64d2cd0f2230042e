#include <tenet/parallel/distributed.hpp>

#include "../../support/thread_world.hpp"
#include "matrix.hpp"

using namespace tenet;
using Threads = combinations::Of<Distributed<ThreadWorld>>;
static_assert(Threads::count == combinations::Count{49, 239});

TEST_CASE("ranks that are threads train as one device does", "[combinations]") { Threads::check_all(); }
