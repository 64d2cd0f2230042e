#include <tenet/parallel/data_parallel.hpp>

#include "matrix.hpp"

using namespace tenet;
using Two = combinations::Of<DataParallel<2>>;
using Four = combinations::Of<DataParallel<4>>;
static_assert(Two::count == combinations::Count{31, 257});
static_assert(Four::count == combinations::Count{31, 257});

TEST_CASE("two replicas train as one device does", "[combinations]") { Two::check_all(); }
TEST_CASE("four replicas train as one device does", "[combinations]") { Four::check_all(); }
