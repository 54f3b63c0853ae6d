module @promote_int_half {
  func.func public @main(%arg0: tensor<4xbf16>, %arg1: tensor<4xi64>) -> (tensor<4xbf16>) {
    %0 = stablehlo.convert %arg1 : (tensor<4xi64>) -> tensor<4xf32>
    %1 = stablehlo.convert %0 : (tensor<4xf32>) -> tensor<4xbf16>
    %2 = stablehlo.multiply %1, %arg0 : tensor<4xbf16>
    %3 = stablehlo.constant dense<0.10009765625> : tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<bf16>) -> tensor<4xbf16>
    %5 = stablehlo.subtract %2, %4 : tensor<4xbf16>
    return %5 : tensor<4xbf16>
  }
}
