#pragma once

#include <algorithm>
#include <tenet/device/cuda/team.hpp>
#include <tenet/ops/region.hpp>

/// Long sums on a GPU, in two steps: each number's terms are added up in parts, at once, and then the parts.
namespace tenet::gpu {

/// How many parts a sum of `length` terms is computed in, beside those of other numbers, `count` in all: enough threads
/// for a large GPU, but parts that are worth starting. The same on every device, so that the order of the sum is.
constexpr long parts_of_sum(Role role, long count, long length) {
  constexpr long threads = 1 << 17;  // what a GPU of 132 processors can hold is twice as many
  const long wanted = role == Role::sum_rows ? threads / count : threads / 128 / count;
  const long most = role == Role::sum_rows ? length / 32 : length / 2048;
  return std::clamp(wanted, 1l, std::max(most, 1l));
}

/// Calls `work` for each of `count` numbers that are sums of so many terms, as the work of an element or of a row: by a
/// thread each, or by a team where one thread would wait for too many terms.
template <class Executor, class Work>
void for_each_sum(Executor& executor, long count, long terms, const Work& work) {
  if (terms < 32)
    for_each(executor, count, work);
  else
    for_each_row(executor, count, terms, work);
}

namespace detail {

/// result[c] = the sum of all parts of number c, or so much more; part p of it is at from[p·count + c].
struct SumOfParts {
  const float* from;
  long count, parts;
  bool adds;
  float* result;

  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long number) const {
    float sum = 0;
    for (long part = team.rank(); part < parts; part += Members::size) sum += from[part * count + number];
    sum = team.sum(sum);
    if (team.rank() == 0) result[number] = adds ? result[number] + sum : sum;
  }
  TENET_HOST_DEVICE void operator()(long number) const { (*this)(Alone{}, number); }
};

}  // namespace detail

/// result[c] (+)= the sum over p < parts of from[p·count + c].
template <class Executor>
void add_up_parts(Executor& executor, const float* from, long count, long parts, float* result, bool adds = false) {
  for_each_sum(executor, count, parts, detail::SumOfParts{from, count, parts, adds, result});
}

}  // namespace tenet::gpu
