// Causal attention over a paged KV cache, for decode rows and prefill chunks alike.
//
// A work item is (sequence, KV head, tile of query tokens). Its rows are the query heads that
// share the KV head, for each token of the tile. Keys are walked in panels of whole blocks
// with an online softmax. Panels start at position 0 whatever the chunk, and rows never mix,
// so a row's result is the same bit by bit alone, in a batch, decoded or prefilled. With a
// window a row reads the panels that hold one of its last tokens, and no other.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "vector.h"

namespace {

using paceline::kLanes;

constexpr int64_t kTileTokens = 16;   // query tokens in a work item
constexpr int64_t kPanelTokens = 64;  // keys between two rescalings of the output
constexpr int kRowGroup = 6;          // rows held in registers: 6 x 2 of 16 AVX2 registers

struct Shape {
  int64_t heads, kv_heads, head_dim, block_size, q_stride;
  int64_t group() const { return heads / kv_heads; }
  int64_t block_elements() const { return head_dim * block_size; }
};

struct Item {
  int64_t sequence, head, first, tokens;  // first: index of the tile's token in its chunk
};

// Buffers of one thread.
struct Scratch {
  std::vector<float> query, scores, out, maximum, total;
  void fit(int64_t rows, const Shape& shape, int64_t panel) {
    query.resize(rows * shape.head_dim);
    scores.resize(rows * panel);
    out.assign(rows * shape.head_dim, 0.0f);
    maximum.assign(rows, -std::numeric_limits<float>::infinity());
    total.assign(rows, 0.0f);
  }
};

// c[R, 8 C] (+)= a[R, depth] b[depth, 8 C]
template <int R, int C, bool kAccumulate>
void multiply_tile(const float* a, int64_t a_stride, const float* b, int64_t b_stride, float* c,
                   int64_t c_stride, int64_t depth) {
  __m256 acc[R][C];
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < C; ++j)
      acc[r][j] =
          kAccumulate ? _mm256_loadu_ps(c + r * c_stride + j * kLanes) : _mm256_setzero_ps();
  for (int64_t k = 0; k < depth; ++k) {
    __m256 row[C];
    for (int j = 0; j < C; ++j) row[j] = _mm256_loadu_ps(b + k * b_stride + j * kLanes);
    for (int r = 0; r < R; ++r) {
      const __m256 factor = _mm256_broadcast_ss(a + r * a_stride + k);
      for (int j = 0; j < C; ++j) acc[r][j] = _mm256_fmadd_ps(factor, row[j], acc[r][j]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < C; ++j) _mm256_storeu_ps(c + r * c_stride + j * kLanes, acc[r][j]);
}

template <int R, bool kAccumulate>
void multiply_rows(const float* a, int64_t a_stride, const float* b, int64_t b_stride, float* c,
                   int64_t c_stride, int64_t depth, int64_t columns) {
  int64_t column = 0;
  for (; column + 2 * kLanes <= columns; column += 2 * kLanes)
    multiply_tile<R, 2, kAccumulate>(a, a_stride, b + column, b_stride, c + column, c_stride,
                                     depth);
  if (column < columns)
    multiply_tile<R, 1, kAccumulate>(a, a_stride, b + column, b_stride, c + column, c_stride,
                                     depth);
}

// c[rows, columns] (+)= a[rows, depth] b[depth, columns]; columns is a multiple of 8.
template <bool kAccumulate>
void multiply(const float* a, int64_t a_stride, const float* b, int64_t b_stride, float* c,
              int64_t c_stride, int64_t rows, int64_t depth, int64_t columns) {
  for (; rows > 0; rows -= kRowGroup, a += kRowGroup * a_stride, c += kRowGroup * c_stride) {
    switch (std::min<int64_t>(rows, kRowGroup)) {
      case 1: multiply_rows<1, kAccumulate>(a, a_stride, b, b_stride, c, c_stride, depth, columns); break;
      case 2: multiply_rows<2, kAccumulate>(a, a_stride, b, b_stride, c, c_stride, depth, columns); break;
      case 3: multiply_rows<3, kAccumulate>(a, a_stride, b, b_stride, c, c_stride, depth, columns); break;
      case 4: multiply_rows<4, kAccumulate>(a, a_stride, b, b_stride, c, c_stride, depth, columns); break;
      case 5: multiply_rows<5, kAccumulate>(a, a_stride, b, b_stride, c, c_stride, depth, columns); break;
      default: multiply_rows<6, kAccumulate>(a, a_stride, b, b_stride, c, c_stride, depth, columns); break;
    }
  }
}

// Scores of one row to probabilities relative to the row's running maximum; keys before
// `first` and at or beyond `visible` get probability 0.
void soften(float* scores, int64_t first, int64_t visible, int64_t panel, float* maximum,
            float* total, float* out, int64_t head_dim) {
  std::fill(scores, scores + first, -std::numeric_limits<float>::infinity());
  std::fill(scores + visible, scores + panel, -std::numeric_limits<float>::infinity());
  __m256 lane_max = _mm256_loadu_ps(scores);
  for (int64_t i = kLanes; i < panel; i += kLanes)
    lane_max = _mm256_max_ps(lane_max, _mm256_loadu_ps(scores + i));
  alignas(32) float lanes[kLanes];
  _mm256_store_ps(lanes, lane_max);
  const float peak = std::max(*maximum, *std::max_element(lanes, lanes + kLanes));
  const float rescale = paceline::exp(*maximum - peak);
  __m256 sum = _mm256_setzero_ps();
  const __m256 shift = _mm256_set1_ps(peak);
  for (int64_t i = 0; i < panel; i += kLanes) {
    const __m256 p = paceline::exp(_mm256_sub_ps(_mm256_loadu_ps(scores + i), shift));
    _mm256_storeu_ps(scores + i, p);
  }
  std::fill(scores, scores + first, 0.0f);
  std::fill(scores + visible, scores + panel, 0.0f);
  for (int64_t i = 0; i < panel; i += kLanes)
    sum = _mm256_add_ps(sum, _mm256_loadu_ps(scores + i));
  *total = *total * rescale + paceline::sum(sum);
  if (peak != *maximum)
    for (int64_t d = 0; d < head_dim; ++d) out[d] *= rescale;
  *maximum = peak;
}

class PagedAttention {
 public:
  // A token sees the last `window` tokens, itself included.
  PagedAttention(const Shape& shape, const float* keys, const float* values, float scale,
                 int64_t window)
      : shape_(shape), keys_(keys), values_(values), scale_(scale), window_(window),
        panel_blocks_(std::max<int64_t>(1, kPanelTokens / shape.block_size)) {}

  // query and out point at the tile's first token; position is that token's position.
  void run(const Item& item, const float* query, const int64_t* table, int64_t position,
           float* out, int64_t out_stride, Scratch& scratch) const {
    const int64_t rows = item.tokens * shape_.group();
    scratch.fit(rows, shape_, panel_blocks_ * shape_.block_size);
    load(item, query, scratch);
    const int64_t length = position + item.tokens;
    const int64_t panel = panel_blocks_ * shape_.block_size;
    for (int64_t start = oldest(position) / panel * panel; start < length; start += panel)
      advance(item, table, start, position, std::min(panel, length - start), scratch);
    store(item, out, out_stride, scratch);
  }

 private:
  void load(const Item& item, const float* query, Scratch& scratch) const {
    const int64_t width = shape_.group() * shape_.head_dim;
    for (int64_t t = 0; t < item.tokens; ++t) {
      const float* from = query + t * shape_.q_stride + item.head * width;
      for (int64_t i = 0; i < width; ++i) scratch.query[t * width + i] = from[i] * scale_;
    }
  }

  // First token that the token at `position` sees.
  int64_t oldest(int64_t position) const { return std::max<int64_t>(0, position - window_ + 1); }

  const float* block(const float* cache, const int64_t* table, int64_t index, int64_t head) const {
    return cache + (table[index] * shape_.kv_heads + head) * shape_.block_elements();
  }

  // One panel of `count` keys from position `start`.
  void advance(const Item& item, const int64_t* table, int64_t start, int64_t position,
               int64_t count, Scratch& scratch) const {
    const int64_t group = shape_.group(), size = shape_.block_size, dim = shape_.head_dim;
    const int64_t panel = panel_blocks_ * size;
    // Tokens before the panel see nothing of it, nor do those whose window begins after it.
    const int64_t skipped = std::max<int64_t>(0, start - position) * group;
    const int64_t past = start + count - 1 + window_ - position;
    const int64_t rows = std::min(item.tokens, past) * group;
    const int64_t blocks = (count + size - 1) / size, base = start / size;
    for (int64_t b = 0; b < blocks; ++b)
      multiply<false>(&scratch.query[skipped * dim], dim, block(keys_, table, base + b, item.head),
                      size, &scratch.scores[skipped * panel + b * size], panel, rows - skipped,
                      dim, size);
    for (int64_t row = skipped; row < rows; ++row) {
      const int64_t at = position + row / group;
      soften(&scratch.scores[row * panel], std::max<int64_t>(0, oldest(at) - start),
             std::min(count, at + 1 - start), panel, &scratch.maximum[row], &scratch.total[row],
             &scratch.out[row * dim], dim);
    }
    for (int64_t b = 0; b < blocks; ++b)
      multiply<true>(&scratch.scores[skipped * panel + b * size], panel,
                     block(values_, table, base + b, item.head), dim, &scratch.out[skipped * dim],
                     dim, rows - skipped, std::min(size, count - b * size), dim);
  }

  void store(const Item& item, float* out, int64_t out_stride, const Scratch& scratch) const {
    const int64_t group = shape_.group(), dim = shape_.head_dim;
    for (int64_t row = 0; row < item.tokens * group; ++row) {
      float* to = out + row / group * out_stride + (item.head * group + row % group) * dim;
      const float inverse = 1.0f / scratch.total[row];
      for (int64_t d = 0; d < dim; ++d) to[d] = scratch.out[row * dim + d] * inverse;
    }
  }

  Shape shape_;
  const float *keys_, *values_;
  float scale_;
  int64_t window_, panel_blocks_;
};

std::vector<Item> work_items(const int64_t* starts, int64_t sequences, int64_t kv_heads) {
  std::vector<Item> items;
  for (int64_t s = 0; s < sequences; ++s)
    for (int64_t first = 0, length = starts[s + 1] - starts[s]; first < length;
         first += kTileTokens)
      for (int64_t h = 0; h < kv_heads; ++h)
        items.push_back({s, h, first, std::min(kTileTokens, length - first)});
  return items;
}

}  // namespace

// query    [rows, q_stride], of which the first heads * head_dim are read
// keys     [blocks, kv_heads, head_dim, block_size]
// values   [blocks, kv_heads, block_size, head_dim]
// tables   [sequences, table_stride] block ids
// starts   [sequences + 1] first row of each sequence's chunk
// contexts [sequences] tokens already in the cache before the chunk
// window   tokens that a token sees, itself included; 0 for all
// out      [rows, heads * head_dim]
extern "C" void paceline_paged_attention(
    const float* query, const float* keys, const float* values, const int64_t* tables,
    const int64_t* starts, const int64_t* contexts, float* out, float scale, int64_t sequences,
    int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t block_size, int64_t q_stride,
    int64_t table_stride, int64_t window) {
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max() / 4;
  const PagedAttention attention({heads, kv_heads, head_dim, block_size, q_stride}, keys, values,
                                 scale, window > 0 ? window : kAll);
  const std::vector<Item> items = work_items(starts, sequences, kv_heads);
  const int64_t count = static_cast<int64_t>(items.size()), out_stride = heads * head_dim;
#pragma omp parallel if (count > 1)
  {
    Scratch scratch;
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < count; ++i) {
      const Item& item = items[i];
      const int64_t row = starts[item.sequence] + item.first;
      attention.run(item, query + row * q_stride, tables + item.sequence * table_stride,
                    contexts[item.sequence] + item.first, out + row * out_stride, out_stride,
                    scratch);
    }
  }
}
