module @argmax {
  func.func public @main(%arg0: tensor<4x5xf32>) -> (tensor<4x1xf32>, tensor<4x1xi64>) {
    %0 = stablehlo.iota dim = 1 : tensor<4x5xi32>
    %1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %2 = stablehlo.constant dense<2147483647> : tensor<i32>
    %3:2 = "stablehlo.reduce"(%arg0, %0, %1, %2) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<i32>, %arg3: tensor<f32>, %arg4: tensor<i32>):
      %4 = stablehlo.compare GT, %arg1, %arg3 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %5 = stablehlo.compare EQ, %arg1, %arg3 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = stablehlo.compare NE, %arg1, %arg1 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %7 = stablehlo.compare NE, %arg3, %arg3 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %8 = stablehlo.not %7 : tensor<i1>
      %9 = stablehlo.and %6, %8 : tensor<i1>
      %10 = stablehlo.or %4, %9 : tensor<i1>
      %11 = stablehlo.and %6, %7 : tensor<i1>
      %12 = stablehlo.or %5, %11 : tensor<i1>
      %13 = stablehlo.compare LT, %arg2, %arg4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %14 = stablehlo.and %12, %13 : tensor<i1>
      %15 = stablehlo.or %10, %14 : tensor<i1>
      %16 = stablehlo.or %10, %12 : tensor<i1>
      %17 = stablehlo.select %16, %arg1, %arg3 : tensor<i1>, tensor<f32>
      %18 = stablehlo.select %15, %arg2, %arg4 : tensor<i1>, tensor<i32>
      stablehlo.return %17, %18 : tensor<f32>, tensor<i32>
    }) : (tensor<4x5xf32>, tensor<4x5xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
    %19 = stablehlo.reshape %3#0 : (tensor<4xf32>) -> tensor<4x1xf32>
    %20 = stablehlo.reshape %3#1 : (tensor<4xi32>) -> tensor<4x1xi32>
    %21 = stablehlo.convert %20 : (tensor<4x1xi32>) -> tensor<4x1xi64>
    return %19, %21 : tensor<4x1xf32>, tensor<4x1xi64>
  }
}
