module @matmul {
  func.func public @main(%arg0: tensor<5x2x3xf32>, %arg1: tensor<3x4xf32>, %arg2: tensor<2x3xbf16>, %arg3: tensor<1x3x4xf32>) -> (tensor<5x2x4xf32>, tensor<5x2x4xf32>, tensor<2x4xbf16>, tensor<2x4xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0], precision = [HIGHEST, HIGHEST] : (tensor<5x2x3xf32>, tensor<3x4xf32>) -> tensor<5x2x4xf32>
    %1 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 2] : (tensor<1x3x4xf32>) -> tensor<5x3x4xf32>
    %2 = stablehlo.dot_general %arg0, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
    %3 = stablehlo.convert %arg1 : (tensor<3x4xf32>) -> tensor<3x4xbf16>
    %4 = stablehlo.dot_general %arg2, %3, contracting_dims = [1] x [0] : (tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xf32>
    %5 = stablehlo.convert %4 : (tensor<2x4xf32>) -> tensor<2x4xbf16>
    %6 = stablehlo.convert %arg1 : (tensor<3x4xf32>) -> tensor<3x4xbf16>
    %7 = stablehlo.dot_general %arg2, %6, contracting_dims = [1] x [0] : (tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xf32>
    return %0, %2, %5, %7 : tensor<5x2x4xf32>, tensor<5x2x4xf32>, tensor<2x4xbf16>, tensor<2x4xf32>
  }
}
