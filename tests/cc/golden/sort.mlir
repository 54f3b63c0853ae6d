module @sort {
  func.func public @main(%arg0: tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xi64>) {
    %0 = stablehlo.iota dim = 1 : tensor<4x5xi64>
    %1:2 = "stablehlo.sort"(%arg0, %0) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>, %arg3: tensor<i64>, %arg4: tensor<i64>):
      %2 = stablehlo.compare LT, %arg1, %arg2 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    }) : (tensor<4x5xf32>, tensor<4x5xi64>) -> (tensor<4x5xf32>, tensor<4x5xi64>)
    return %1#0, %1#1 : tensor<4x5xf32>, tensor<4x5xi64>
  }
}
