module @convolution {
  func.func public @main(%arg0: tensor<1x4x6x6xf32>, %arg1: tensor<8x2x3x3xf32>, %arg2: tensor<2x3x4xbf16>, %arg3: tensor<2x5x3xbf16>) -> (tensor<1x8x3x6xf32>, tensor<2x4x4xbf16>) {
    %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<1x4x6x6xf32>, tensor<8x2x3x3xf32>) -> tensor<1x8x3x6xf32>
    %1 = stablehlo.convolution(%arg3, %arg2) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1], pad = [[0, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x5x3xbf16>, tensor<2x3x4xbf16>) -> tensor<2x4x4xf32>
    %2 = stablehlo.convert %1 : (tensor<2x4x4xf32>) -> tensor<2x4x4xbf16>
    return %0, %2 : tensor<1x8x3x6xf32>, tensor<2x4x4xbf16>
  }
}
