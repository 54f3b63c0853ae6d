// The fused LSTM and GRU cells: gates are [batch, gates * hidden], and `workspace` is what the backward needs.
#include "lowering/lowering.h"

namespace tpu::lowering {
namespace {

// Column block i of `count`.
Value Block(Builder& b, Value x, int64_t i, int64_t count) {
  int64_t size = x.dim(1) / count;
  return b.SliceDim(x, 1, i * size, (i + 1) * size);
}

Value WithBias(Value gates, std::optional<Value> bias) { return bias ? gates + *bias : gates; }

std::optional<Value> BiasGradient(Builder& b, Value gates, bool has_bias) {
  if (!has_bias) return std::nullopt;
  return b.Sum(gates, Ints{0}, false);
}

// cy = f cx + i g;  hy = o tanh(cy). {hy, cy, [i f g o]}
std::vector<Value> LstmCell(Builder& b, Value input, Value hidden, Value cx, std::optional<Value> input_bias,
                            std::optional<Value> hidden_bias) {
  Value gates = WithBias(WithBias(input + hidden, input_bias), hidden_bias);
  Value i = b.Logistic(Block(b, gates, 0, 4)), f = b.Logistic(Block(b, gates, 1, 4));
  Value g = b.Tanh(Block(b, gates, 2, 4)), o = b.Logistic(Block(b, gates, 3, 4));
  Value cy = f * cx + i * g;
  return {o * b.Tanh(cy), cy, b.Concat(std::vector<Value>{i, f, g, o}, 1)};
}
LOWER("_thnn_fused_lstm_cell", LstmCell);

// {d gates, d cx, d bias}
Results LstmCellBackward(Builder& b, std::optional<Value> grad_hy, std::optional<Value> grad_cy, Value cx, Value cy,
                         Value workspace, bool has_bias) {
  if (!grad_hy && !grad_cy) return Results(3);
  Value i = Block(b, workspace, 0, 4), f = Block(b, workspace, 1, 4);
  Value g = Block(b, workspace, 2, 4), o = Block(b, workspace, 3, 4);
  Value dh = grad_hy ? *grad_hy : b.ZerosLike(cx);
  Value t = b.Tanh(cy);
  Value dc = dh * o * (1.0 - t * t);
  if (grad_cy) dc = dc + *grad_cy;
  Value gates = b.Concat(std::vector<Value>{dc * g * (1.0 - i) * i, dc * cx * (1.0 - f) * f, dc * i * (1.0 - g * g),
                                            dh * t * (1.0 - o) * o},
                         1);
  return {gates, dc * f, BiasGradient(b, gates, has_bias)};
}
LOWER("_thnn_fused_lstm_cell_backward_impl", LstmCellBackward);

// n = tanh(in + r hn);  hy = n + z (hx - n). {hy, [r z n hx hn]}
std::pair<Value, Value> GruCell(Builder& b, Value input, Value hidden, Value hx, std::optional<Value> input_bias,
                                std::optional<Value> hidden_bias) {
  input = WithBias(input, input_bias), hidden = WithBias(hidden, hidden_bias);
  Value r = b.Logistic(Block(b, input, 0, 3) + Block(b, hidden, 0, 3));
  Value z = b.Logistic(Block(b, input, 1, 3) + Block(b, hidden, 1, 3));
  Value hn = Block(b, hidden, 2, 3);
  Value n = b.Tanh(Block(b, input, 2, 3) + r * hn);
  return {n + z * (hx - n), b.Concat(std::vector<Value>{r, z, n, hx, hn}, 1)};
}
LOWER("_thnn_fused_gru_cell", GruCell);

// {d input gates, d hidden gates, d hx, d input bias, d hidden bias}
Results GruCellBackward(Builder& b, Value grad, Value workspace, bool has_bias) {
  Value r = Block(b, workspace, 0, 5), z = Block(b, workspace, 1, 5), n = Block(b, workspace, 2, 5);
  Value hx = Block(b, workspace, 3, 5), hn = Block(b, workspace, 4, 5);
  Value dz = grad * (hx - n) * (1.0 - z) * z;
  Value dn = grad * (1.0 - z) * (1.0 - n * n);
  Value dr = dn * hn * (1.0 - r) * r;
  Value input = b.Concat(std::vector<Value>{dr, dz, dn}, 1);
  Value hidden = b.Concat(std::vector<Value>{dr, dz, dn * r}, 1);
  return {input, hidden, grad * z, BiasGradient(b, input, has_bias), BiasGradient(b, hidden, has_bias)};
}
LOWER("_thnn_fused_gru_cell_backward", GruCellBackward);

}  // namespace
}  // namespace tpu::lowering
