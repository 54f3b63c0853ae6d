module @while_captures {
  func.func public @main(%arg0: tensor<f32>, %arg1: tensor<f32>) -> (tensor<f32>, tensor<i64>) {
    %0 = stablehlo.constant dense<2.0> : tensor<f32>
    %1 = stablehlo.multiply %arg0, %0 : tensor<f32>
    %2 = stablehlo.constant dense<0.0> : tensor<f32>
    %3 = stablehlo.constant dense<0> : tensor<i64>
    %4:2 = "stablehlo.while"(%2, %3) ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<i64>):
      %5 = stablehlo.compare LT, %arg2, %arg1 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %5 : tensor<i1>
    }, {
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<i64>):
      %6 = stablehlo.add %arg4, %1 : tensor<f32>
      %7 = stablehlo.constant dense<1> : tensor<i64>
      %8 = stablehlo.add %arg5, %7 : tensor<i64>
      stablehlo.return %6, %8 : tensor<f32>, tensor<i64>
    }) : (tensor<f32>, tensor<i64>) -> (tensor<f32>, tensor<i64>)
    return %4#0, %4#1 : tensor<f32>, tensor<i64>
  }
}
