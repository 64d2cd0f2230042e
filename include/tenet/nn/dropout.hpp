#pragma once

#include <tenet/ops/dropout.hpp>

namespace tenet {

/// In training mode each element is zero with a probability of Percent / 100, the others are scaled so that the mean
/// stays. (Srivastava et al., JMLR 15, 2014.)
template <int Percent = 50>
struct Dropout {
  static_assert(Percent >= 0 && Percent < 100, "Dropout<Percent>: a whole number of per cent from 0 to 99");
  constexpr auto operator()(AnySymbol auto x) const { return dropout(x, static_cast<float>(Percent) / 100.0f); }
};

}  // namespace tenet
