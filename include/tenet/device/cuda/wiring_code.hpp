#pragma once

#include <tenet/ops/region.hpp>
#include <utility>

/// A region's wiring as a template argument of kernels.
namespace tenet::gpu::detail {

/// Bytes of a wiring's code before those of its operations.
inline constexpr int code_header = 24;

/// A wiring as integers. nvcc repeats the template arguments of every kernel in code that it makes for the host, and
/// writes objects of classes in a way that no compiler reads.
template <unsigned long... words>
struct WiringCode {
  static constexpr int byte(int i) {
    constexpr unsigned long all[]{words...};
    return static_cast<int>(all[i / 8] >> (i % 8 * 8) & 0xff);
  }
  static constexpr Wiring decoded() {
    Wiring w;
    const auto number = [](int i) { return static_cast<signed char>(byte(i)); };
    w.operations = number(0), w.inputs = number(1), w.outputs = number(2);
    w.narrow_outputs = static_cast<unsigned char>(byte(3));
    for (int k = 0; k < max_region_outputs; ++k) w.output[k] = number(k < 4 ? 4 + k : 14 + k);
    w.narrow_inputs = static_cast<unsigned short>(byte(8) | byte(9) << 8);
    for (int k = 0; k < max_region_inputs; ++k) w.uniform[k] = (byte(10 + k / 8) >> k % 8 & 1) != 0;
    w.turned_inputs = static_cast<unsigned short>(byte(12) | byte(13) << 8);
    w.summed = number(14), w.moments = byte(15) != 0;
    w.rows = static_cast<unsigned short>(byte(16) | byte(17) << 8);
    w.repeated_inputs = static_cast<unsigned short>(byte(20) | byte(21) << 8);
    for (int i = 0; i < w.operations; ++i)
      for (int k = 0; k < 4; ++k) w.source[i][k] = number(code_header + 4 * i + k);
    return w;
  }
};

/// Word `at` of a wiring's code.
constexpr unsigned long code_word(const Wiring& w, int at) {
  unsigned char bytes[code_header + 4 * max_region_operations]{};
  const auto put = [&](int i, int number) { bytes[i] = static_cast<unsigned char>(number); };
  put(0, w.operations), put(1, w.inputs), put(2, w.outputs), put(3, w.narrow_outputs);
  for (int k = 0; k < max_region_outputs; ++k) put(k < 4 ? 4 + k : 14 + k, w.output[k]);
  put(8, w.narrow_inputs & 0xff), put(9, w.narrow_inputs >> 8);
  put(12, w.turned_inputs & 0xff), put(13, w.turned_inputs >> 8), put(14, w.summed), put(15, w.moments);
  put(16, w.rows & 0xff), put(17, w.rows >> 8);
  put(20, w.repeated_inputs & 0xff), put(21, w.repeated_inputs >> 8);
  for (int k = 0; k < max_region_inputs; ++k) put(10 + k / 8, bytes[10 + k / 8] | w.uniform[k] << k % 8);
  for (int i = 0; i < w.operations; ++i)
    for (int k = 0; k < 4; ++k) put(code_header + 4 * i + k, w.source[i][k]);
  unsigned long word = 0;
  for (int i = 0; i < 8; ++i) word |= static_cast<unsigned long>(bytes[8 * at + i]) << 8 * i;
  return word;
}

template <Wiring wiring, int... I>
auto code_of(std::integer_sequence<int, I...>) -> WiringCode<code_word(wiring, I)...>;
template <Wiring wiring>
using CodeOf =
    decltype(code_of<wiring>(std::make_integer_sequence<int, code_header / 8 + (wiring.operations + 1) / 2>{}));

}  // namespace tenet::gpu::detail
