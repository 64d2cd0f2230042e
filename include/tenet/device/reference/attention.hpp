#pragma once

#include <cmath>
#include <vector>

#include "tenet/core/attention_geometry.hpp"
#include "tenet/device/reference/serial.hpp"

namespace tenet::reference {

constexpr long scratch_attention(const Serial*, const AttentionGeometry&) { return 0; }
constexpr long scratch_attention_gradient(const Serial*, const AttentionGeometry&) { return 0; }

namespace detail {

inline float dot(const float* a, const float* b, int width) {
  float sum = 0;
  for (int c = 0; c < width; ++c) sum += a[c] * b[c];
  return sum;
}

/// The weights of the keys that query `r` sees, softmax(scale·query·keyᵀ).
inline std::vector<float> attention_weights(const AttentionGeometry& g, int r, const float* query, const float* key) {
  std::vector<float> weights(static_cast<std::size_t>(g.seen(r + 1)));
  float largest = -__builtin_inff(), sum = 0;
  for (float& weight : weights) {
    weight = g.scale * dot(query, key, g.width);
    largest = weight > largest ? weight : largest;
    key += g.key.row;
  }
  for (float& weight : weights) sum += weight = std::exp(weight - largest);
  for (float& weight : weights) weight /= sum;
  return weights;
}

}  // namespace detail

/// result = softmax(scale·query·keyᵀ)·value, see `AttentionGeometry`.
inline void run_attention(Serial&, const AttentionGeometry& g, int batch, const float* query, const float* key,
                          const float* value, float* result) {
  for (long s = 0; s < batch; ++s)
    for (long h = 0; h < g.heads; ++h)
      for (int r = 0; r < g.queries; ++r) {
        const float* from = value + g.value.at(s, h);
        float* to = result + g.result.at(s, h) + r * g.result.row;
        for (int c = 0; c < g.width; ++c) to[c] = 0;
        for (const float weight :
             detail::attention_weights(g, r, query + g.query.at(s, h) + r * g.query.row, key + g.key.at(s, h))) {
          for (int c = 0; c < g.width; ++c) to[c] += weight * from[c];
          from += g.value.row;
        }
      }
}

/// The gradients of the three operands; `upstream` lies as the result does. With weights p = softmax(s):
/// dvalue = pᵀ·upstream,  dp = upstream·valueᵀ,  ds = p·(dp - sum(p·dp)),  dquery = scale·ds·key,  dkey =
/// scale·dsᵀ·query.
inline void run_attention_gradient(Serial&, const AttentionGeometry& g, int batch, const float* query, const float* key,
                                   const float* value, const float* upstream, float* query_gradient,
                                   float* key_gradient, float* value_gradient) {
  for (long s = 0; s < batch; ++s)
    for (long h = 0; h < g.heads; ++h) {
      float* const dk = key_gradient + g.key_gradient.at(s, h);
      float* const dv = value_gradient + g.value_gradient.at(s, h);
      for (int j = 0; j < g.keys; ++j)
        for (int c = 0; c < g.width; ++c) dk[j * g.key_gradient.row + c] = dv[j * g.value_gradient.row + c] = 0;
      for (int r = 0; r < g.queries; ++r) {
        const float* const q = query + g.query.at(s, h) + r * g.query.row;
        const float* const dy = upstream + g.result.at(s, h) + r * g.result.row;
        float* const dq = query_gradient + g.query_gradient.at(s, h) + r * g.query_gradient.row;
        for (int c = 0; c < g.width; ++c) dq[c] = 0;
        const std::vector<float> weights = detail::attention_weights(g, r, q, key + g.key.at(s, h));
        const auto weight_gradient = [&](std::size_t j) {
          return detail::dot(dy, value + g.value.at(s, h) + static_cast<long>(j) * g.value.row, g.width);
        };
        float sum = 0;
        for (std::size_t j = 0; j < weights.size(); ++j) sum += weights[j] * weight_gradient(j);
        for (std::size_t j = 0; j < weights.size(); ++j) {
          const auto row = static_cast<long>(j);
          const float* const k = key + g.key.at(s, h) + row * g.key.row;
          const float score_gradient = g.scale * weights[j] * (weight_gradient(j) - sum);
          for (int c = 0; c < g.width; ++c) {
            dq[c] += score_gradient * k[c];
            dk[row * g.key_gradient.row + c] += score_gradient * q[c];
            dv[row * g.value_gradient.row + c] += weights[j] * dy[c];
          }
        }
      }
    }
}

}  // namespace tenet::reference
