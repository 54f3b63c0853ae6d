// Convolution, its transpose and both gradients, for any number of spatial dimensions: [N, C, spatial...].
#include "lowering/lowering.h"

namespace tpu::lowering {
namespace {

struct Geometry {
  Ints stride, padding, dilation, output_padding;
  int64_t groups = 1;
};

// A convolution's operands have one element type, as PyTorch's kernels want it.
void RequireOneType(Value x, Value other, std::string_view name) {
  if (x.dtype() == other.dtype()) return;
  throw hlo::BuildError("Input type (" + std::string(Name(x.dtype())) + ") and " + std::string(name) + " type (" +
                        std::string(Name(other.dtype())) + ") should be the same. Convert one of them with to().");
}

// PyTorch lets one number stand for all spatial dimensions.
Ints Spread(const Ints& list, int64_t n, int64_t fill) {
  if (list.empty()) return Ints(n, fill);
  return list.size() == 1 ? Ints(n, list[0]) : list;
}

Geometry MakeGeometry(int64_t n, const Ints& stride, const Ints& padding, const Ints& dilation,
                      const Ints& output_padding, int64_t groups) {
  return {Spread(stride, n, 1), Spread(padding, n, 0), Spread(dilation, n, 1), Spread(output_padding, n, 0), groups};
}

// An input smaller than the window is padded beforehand: only then has the CPU plugin fast code (6 times faster).
Value Convolve(Builder& b, Value x, Value weight, hlo::ConvDims conv) {
  bool small = false;
  Ints low(x.rank()), high(x.rank());
  for (size_t d = 0; d < conv.padding_low.size(); ++d) {
    const int64_t dim = static_cast<int64_t>(d) + 2;
    if (conv.padding_low[d] < 0 || conv.padding_high[d] < 0) return b.Convolution(x, weight, conv);
    if (!conv.lhs_dilation.empty() && conv.lhs_dilation[d] != 1) return b.Convolution(x, weight, conv);
    small |= x.dim(dim) < weight.dim(dim);
    low[dim] = conv.padding_low[d], high[dim] = conv.padding_high[d];
  }
  if (!small) return b.Convolution(x, weight, conv);
  conv.padding_low.assign(conv.padding_low.size(), 0);
  conv.padding_high = conv.padding_low;
  return b.Convolution(b.Pad(x, b.ConstLike(0, x), low, high), weight, conv);
}

// y[n, o, p] = sum over i, k of x[n, i, p * stride + k * dilation - padding] * weight[o, i, k]
Value Forward(Builder& b, Value x, Value weight, const Geometry& g) {
  int64_t n = x.rank() - 2;
  if (x.numel() == 0 || weight.numel() == 0) {
    Ints dims = {x.dim(0), weight.dim(0)};
    for (int64_t d = 0; d < n; ++d) {
      int64_t span = g.dilation[d] * (weight.dim(d + 2) - 1) + 1;
      dims.push_back((x.dim(d + 2) + 2 * g.padding[d] - span) / g.stride[d] + 1);
    }
    return b.Full(dims, 0.0, x.dtype());
  }
  hlo::ConvDims conv;
  conv.strides = g.stride;
  conv.padding_low = conv.padding_high = g.padding;
  conv.rhs_dilation = g.dilation;
  conv.feature_groups = g.groups;
  return Convolve(b, x, weight, conv);
}

// The adjoint of Forward in x; weight is [C of x, O / groups, k...].
Value Transposed(Builder& b, Value x, Value weight, const Geometry& g) {
  int64_t n = x.rank() - 2;
  int64_t in = weight.dim(0), out_per_group = weight.dim(1);
  Ints dims = {x.dim(0), out_per_group * g.groups};
  hlo::ConvDims conv;
  for (int64_t d = 0; d < n; ++d) {
    int64_t span = g.dilation[d] * (weight.dim(d + 2) - 1);
    conv.padding_low.push_back(span - g.padding[d]);
    conv.padding_high.push_back(span - g.padding[d] + g.output_padding[d]);
    dims.push_back((x.dim(d + 2) - 1) * g.stride[d] - 2 * g.padding[d] + span + g.output_padding[d] + 1);
  }
  if (x.numel() == 0 || weight.numel() == 0) return b.Full(dims, 0.0, x.dtype());
  conv.lhs_dilation = g.stride;
  conv.rhs_dilation = g.dilation;
  conv.feature_groups = g.groups;
  // Not the convolution's own window reversal: the CPU plugin has no fast code for that (20 to 40 times slower).
  Ints window;
  for (int64_t d = 0; d < n; ++d) window.push_back(d + 2);
  weight = b.Reverse(weight, window);
  if (g.groups == 1) {
    conv.rhs_layout = {1, 0};
    conv.rhs_layout.insert(conv.rhs_layout.end(), window.begin(), window.end());
    return Convolve(b, x, weight, conv);
  }
  // [groups * I, O, k...] -> [groups * O, I, k...]
  Ints spatial(weight.dims().begin() + 2, weight.dims().end());
  Ints split = {g.groups, in / g.groups, out_per_group};
  Ints merged = {g.groups * out_per_group, in / g.groups};
  split.insert(split.end(), spatial.begin(), spatial.end());
  merged.insert(merged.end(), spatial.begin(), spatial.end());
  Value swapped = b.Reshape(b.SwapDims(b.Reshape(weight, split), 1, 2), merged);
  return Convolve(b, x, swapped, conv);
}

// dL/dweight[o, i, k] = sum over n, p of grad[n, o, p] * x[n, i, p * stride + k * dilation - padding]: a convolution
// whose contracted feature is the batch, and whose stride and dilation change places.
Value WeightGradient(Builder& b, Value grad, Value x, const Ints& weight_dims, const Geometry& g) {
  if (grad.numel() == 0 || x.numel() == 0) return b.Full(weight_dims, 0.0, x.dtype());
  int64_t n = x.rank() - 2;
  hlo::ConvDims conv;
  conv.lhs_layout = conv.rhs_layout = conv.out_layout = {1, 0};
  for (int64_t d = 0; d < n; ++d) {
    int64_t span = (grad.dim(d + 2) - 1) * g.stride[d] + 1;
    conv.padding_low.push_back(g.padding[d]);
    conv.padding_high.push_back((weight_dims[d + 2] - 1) * g.dilation[d] + span - x.dim(d + 2) - g.padding[d]);
    for (Ints* layout : {&conv.lhs_layout, &conv.rhs_layout, &conv.out_layout}) layout->push_back(d + 2);
  }
  conv.strides = g.dilation;
  conv.rhs_dilation = g.stride;
  conv.batch_groups = g.groups;
  return b.Convolution(x, grad, conv);
}

Value Convolution(Builder& b, Value x, Value weight, std::optional<Value> bias, Ints stride, Ints padding,
                  Ints dilation, bool transposed, Ints output_padding, int64_t groups) {
  RequireOneType(x, weight, "weight");
  if (bias) RequireOneType(x, *bias, "bias");
  Geometry g = MakeGeometry(x.rank() - 2, stride, padding, dilation, output_padding, groups);
  Value y = transposed ? Transposed(b, x, weight, g) : Forward(b, x, weight, g);
  if (!bias) return y;
  Ints dims(y.rank(), 1);
  dims[1] = y.dim(1);
  return y + b.Reshape(*bias, dims);
}
LOWER("convolution", Convolution, kExact);
LOWER("convolution_overrideable", Convolution, kExact);

Value ConvolutionWithFlags(Builder& b, Value x, Value weight, std::optional<Value> bias, Ints stride, Ints padding,
                           Ints dilation, bool transposed, Ints output_padding, int64_t groups, Ignore /*benchmark*/,
                           Ignore /*deterministic*/, Ignore /*cudnn_enabled*/, Ignore /*allow_tf32*/) {
  return Convolution(b, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
}
LOWER("_convolution", ConvolutionWithFlags, kExact);

Results ConvolutionGradients(Builder& b, Value grad, Value x, Value weight, Ints stride, Ints padding, Ints dilation,
                             bool transposed, Ints output_padding, int64_t groups, Ints mask) {
  int64_t n = x.rank() - 2;
  Geometry g = MakeGeometry(n, stride, padding, dilation, output_padding, groups);
  Results out(3);
  if (mask[0]) {
    if (transposed) {
      // Output padding of a whole stride or more lets the window reach past x.
      out[0] = b.Slice(Forward(b, grad, weight, g), Ints(x.rank(), 0), x.dims());
    } else {
      // What the strides left over at the end of x.
      for (int64_t d = 0; d < n; ++d) {
        int64_t reached =
            (grad.dim(d + 2) - 1) * g.stride[d] - 2 * g.padding[d] + g.dilation[d] * (weight.dim(d + 2) - 1) + 1;
        g.output_padding[d] = x.dim(d + 2) - reached;
      }
      out[0] = Transposed(b, grad, weight, g);
    }
  }
  if (mask[1]) {
    out[1] = transposed ? WeightGradient(b, x, grad, weight.dims(), g) : WeightGradient(b, grad, x, weight.dims(), g);
  }
  if (mask[2]) {
    Ints dims = {0};
    for (int64_t d = 0; d < n; ++d) dims.push_back(d + 2);
    out[2] = b.Sum(IsHalf(grad.dtype()) ? b.Cast(grad, DType::kF32) : grad, dims, false);
  }
  return out;
}
LOWER("convolution_backward_overrideable", ConvolutionGradients, kExact);

Results ConvolutionBackward(Builder& b, Value grad, Value x, Value weight, std::optional<Ints> /*bias_sizes*/,
                            Ints stride, Ints padding, Ints dilation, bool transposed, Ints output_padding,
                            int64_t groups, Ints mask) {
  return ConvolutionGradients(b, grad, x, weight, stride, padding, dilation, transposed, output_padding, groups, mask);
}
LOWER("convolution_backward", ConvolutionBackward, kExact);

// y[t, n, o] = sum over k, i of x[t + k - pad, n, i] * weight[k, i, o] + bias[o]
Value ConvTbc(Builder& b, Value x, Value weight, Value bias, int64_t pad) {
  RequireOneType(x, weight, "weight");
  RequireOneType(x, bias, "bias");
  hlo::ConvDims conv;
  conv.padding_low = conv.padding_high = {pad};
  conv.lhs_layout = conv.out_layout = {1, 2, 0};
  conv.rhs_layout = {2, 1, 0};
  return b.Convolution(x, weight, conv) + bias;
}
LOWER("conv_tbc", ConvTbc, kExact);

}  // namespace
}  // namespace tpu::lowering
