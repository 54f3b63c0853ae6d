module @shapes {
  func.func public @main(%arg0: tensor<2x3x4xf32>, %arg1: tensor<1x2x2xf32>) -> (tensor<24xf32>, tensor<4x3x2xf32>, tensor<2x3x4x1xf32>, tensor<2x2x4xf32>, tensor<2x3x4xf32>, tensor<2x6x4xf32>, tensor<1x7x4xf32>, tensor<2x3x4xf32>) {
    %0 = stablehlo.reshape %arg0 : (tensor<2x3x4xf32>) -> tensor<24xf32>
    %1 = stablehlo.transpose %arg0, dims = [2, 1, 0] : (tensor<2x3x4xf32>) -> tensor<4x3x2xf32>
    %2 = stablehlo.reshape %arg0 : (tensor<2x3x4xf32>) -> tensor<2x3x4x1xf32>
    %3 = stablehlo.slice %arg0 [0:2, 0:3:2, 0:4] : (tensor<2x3x4xf32>) -> tensor<2x2x4xf32>
    %4 = stablehlo.reverse %arg0, dims = [2] : tensor<2x3x4xf32>
    %5 = stablehlo.concatenate %arg0, %arg0, dim = 1 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x6x4xf32>
    %6 = stablehlo.constant dense<0.0> : tensor<f32>
    %7 = stablehlo.pad %arg0, %6, low = [-1, 0, 1], high = [0, 2, -1], interior = [0, 1, 0] : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<1x7x4xf32>
    %8 = stablehlo.constant dense<1> : tensor<i64>
    %9 = stablehlo.constant dense<0> : tensor<i64>
    %10 = stablehlo.dynamic_update_slice %arg0, %arg1, %8, %8, %9 : (tensor<2x3x4xf32>, tensor<1x2x2xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<2x3x4xf32>
    return %0, %1, %2, %3, %4, %5, %7, %10 : tensor<24xf32>, tensor<4x3x2xf32>, tensor<2x3x4x1xf32>, tensor<2x2x4xf32>, tensor<2x3x4xf32>, tensor<2x6x4xf32>, tensor<1x7x4xf32>, tensor<2x3x4xf32>
  }
}
