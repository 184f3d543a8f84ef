// RMSNorm of rows and of heads, rotary embedding with KV store, SiLU gate. One row is one
// token; all fp32.
#include <cmath>
#include <cstring>

#include "vector.h"

namespace {

using paceline::kLanes;
using paceline::kParallelElements;

// out = x / sqrt(mean(x^2) + eps) * weight
void normalise(const float* x, const float* weight, float* out, int64_t width, float eps) {
  __m256 squares = _mm256_setzero_ps();
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    const __m256 v = _mm256_loadu_ps(x + i);
    squares = _mm256_fmadd_ps(v, v, squares);
  }
  float total = paceline::sum(squares);
  for (; i < width; ++i) total += x[i] * x[i];
  const float scale = 1.0f / std::sqrt(total / static_cast<float>(width) + eps);
  for (i = 0; i < width; ++i) out[i] = x[i] * scale * weight[i];
}

// Rotates one head: (a, b) -> (a cos - b sin, b cos + a sin) over halves a and b.
void rotate(float* head, const float* cosine, const float* sine, int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = head[i], b = head[i + half];
    head[i] = a * cosine[i] - b * sine[i];
    head[i + half] = b * cosine[i] + a * sine[i];
  }
}

void gate(const float* gate, const float* up, float* out, int64_t width) {
  int64_t i = 0;
  const __m256 one = _mm256_set1_ps(1.0f), zero = _mm256_setzero_ps();
  for (; i + kLanes <= width; i += kLanes) {
    const __m256 g = _mm256_loadu_ps(gate + i);
    const __m256 denominator = _mm256_add_ps(one, paceline::exp(_mm256_sub_ps(zero, g)));
    const __m256 silu = _mm256_div_ps(g, denominator);
    _mm256_storeu_ps(out + i, _mm256_mul_ps(silu, _mm256_loadu_ps(up + i)));
  }
  for (; i < width; ++i) out[i] = gate[i] / (1.0f + paceline::exp(-gate[i])) * up[i];
}

}  // namespace

extern "C" {

void paceline_rms_norm(const float* x, const float* weight, float* out, int64_t rows,
                       int64_t width, float eps) {
#pragma omp parallel for if (rows * width >= kParallelElements)
  for (int64_t row = 0; row < rows; ++row)
    normalise(x + row * width, weight, out + row * width, width, eps);
}

// residual += x; out = rms_norm(residual)
void paceline_add_rms_norm(const float* x, float* residual, const float* weight, float* out,
                           int64_t rows, int64_t width, float eps) {
#pragma omp parallel for if (rows * width >= kParallelElements)
  for (int64_t row = 0; row < rows; ++row) {
    float* sum = residual + row * width;
    for (int64_t i = 0; i < width; ++i) sum[i] += x[row * width + i];
    normalise(sum, weight, out + row * width, width, eps);
  }
}

// Normalises the first `heads` heads of each row in place.
//   qkv      [rows, width]
//   weight   [heads, head_dim]
void paceline_head_norm(float* qkv, const float* weight, int64_t rows, int64_t width,
                        int64_t heads, int64_t head_dim, float eps) {
#pragma omp parallel for if (rows * width >= kParallelElements)
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t h = 0; h < heads; ++h) {
      float* head = qkv + row * width + h * head_dim;
      normalise(head, weight + h * head_dim, head, head_dim, eps);
    }
}

// Rotates queries in place, writes rotated keys and values of each row into its slot.
//   qkv      [rows, (heads + 2 kv_heads) * head_dim]
//   cosine, sine   [positions, head_dim / 2]
//   keys     [blocks, kv_heads, head_dim, block_size]
//   values   [blocks, kv_heads, block_size, head_dim]
//   slots    [rows] = block * block_size + offset
void paceline_rope_store(float* qkv, const float* cosine, const float* sine,
                         const int64_t* positions, const int64_t* slots, float* keys,
                         float* values, int64_t rows, int64_t heads, int64_t kv_heads,
                         int64_t head_dim, int64_t block_size) {
  const int64_t half = head_dim / 2, width = (heads + 2 * kv_heads) * head_dim;
#pragma omp parallel for if (rows * width >= kParallelElements)
  for (int64_t row = 0; row < rows; ++row) {
    float* query = qkv + row * width;
    const float* c = cosine + positions[row] * half;
    const float* s = sine + positions[row] * half;
    for (int64_t h = 0; h < heads + kv_heads; ++h) rotate(query + h * head_dim, c, s, half);
    const int64_t block = slots[row] / block_size, offset = slots[row] % block_size;
    for (int64_t h = 0; h < kv_heads; ++h) {
      const float* key = query + (heads + h) * head_dim;
      const float* value = key + kv_heads * head_dim;
      const int64_t base = (block * kv_heads + h) * head_dim * block_size;
      for (int64_t d = 0; d < head_dim; ++d) keys[base + d * block_size + offset] = key[d];
      std::memcpy(values + base + offset * head_dim, value, head_dim * sizeof(float));
    }
  }
}

// out = silu(gate) * up, where a row of gate_up is [gate | up]
void paceline_silu_mul(const float* gate_up, float* out, int64_t rows, int64_t width) {
#pragma omp parallel for if (rows * width >= kParallelElements)
  for (int64_t row = 0; row < rows; ++row) {
    const float* start = gate_up + row * 2 * width;
    gate(start, start + width, out + row * width, width);
  }
}

}  // extern "C"
