module @unary {
  func.func public @main(%arg0: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xi1>, tensor<3xi1>, tensor<3xi1>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
    %0 = stablehlo.floor %arg0 : tensor<3xf32>
    %1 = stablehlo.ceil %arg0 : tensor<3xf32>
    %2 = stablehlo.constant dense<0.0> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %4 = stablehlo.compare LT, %arg0, %3 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %5 = stablehlo.select %4, %1, %0 : tensor<3xi1>, tensor<3xf32>
    %6 = stablehlo.sign %arg0 : tensor<3xf32>
    %7 = stablehlo.abs %arg0 : tensor<3xf32>
    %8 = stablehlo.compare NE, %arg0, %arg0 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %9 = stablehlo.abs %arg0 : tensor<3xf32>
    %10 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %12 = stablehlo.compare EQ, %9, %11 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %13 = stablehlo.is_finite %arg0 : (tensor<3xf32>) -> tensor<3xi1>
    %14 = stablehlo.constant dense<1.0> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %16 = stablehlo.divide %15, %arg0 : tensor<3xf32>
    %17 = chlo.erf %arg0 : tensor<3xf32> -> tensor<3xf32>
    %18 = stablehlo.exponential_minus_one %arg0 : tensor<3xf32>
    return %5, %6, %7, %8, %12, %13, %16, %17, %18 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xi1>, tensor<3xi1>, tensor<3xi1>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
  }
}
