module @if_nested {
  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<i1>) -> (tensor<4xf32>) {
    %0 = "stablehlo.if"(%arg1) ({
      %1 = stablehlo.constant dense<1.0> : tensor<f32>
      %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<4xf32>
      %3 = stablehlo.add %arg0, %2 : tensor<4xf32>
      stablehlo.return %3 : tensor<4xf32>
    }, {
      %4 = stablehlo.not %arg1 : tensor<i1>
      %5 = "stablehlo.if"(%4) ({
        %6 = stablehlo.constant dense<0.0> : tensor<f32>
        %7 = stablehlo.reduce(%arg0 init: %6) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
        %8 = stablehlo.reshape %7 : (tensor<f32>) -> tensor<1xf32>
        %9 = stablehlo.broadcast_in_dim %8, dims = [0] : (tensor<1xf32>) -> tensor<4xf32>
        %10 = stablehlo.multiply %9, %arg0 : tensor<4xf32>
        stablehlo.return %10 : tensor<4xf32>
      }, {
        stablehlo.return %arg0 : tensor<4xf32>
      }) : (tensor<i1>) -> tensor<4xf32>
      stablehlo.return %5 : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
