module @add_broadcast {
  func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<2x3xf32>) -> (tensor<2x3xf32>) {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.add %arg1, %0 : tensor<2x3xf32>
    return %1 : tensor<2x3xf32>
  }
}
