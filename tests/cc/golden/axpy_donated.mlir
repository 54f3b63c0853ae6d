module @axpy_donated {
  func.func public @main(%arg0: tensor<8xf32>, %arg1: tensor<8xf32> {tf.aliasing_output = 0 : i32}, %arg2: tensor<f32>) -> (tensor<8xf32>) {
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %1 = stablehlo.multiply %0, %arg0 : tensor<8xf32>
    %2 = stablehlo.add %arg1, %1 : tensor<8xf32>
    return %2 : tensor<8xf32>
  }
}
