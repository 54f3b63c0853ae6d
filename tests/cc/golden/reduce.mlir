module @reduce {
  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xi8>) -> (tensor<1x1xf32>, tensor<3xf32>, tensor<2x1xi8>, tensor<1x3xi1>, tensor<i1>, tensor<1x3xi8>) {
    %0 = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.reduce(%arg0 init: %0) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
    %2 = stablehlo.reshape %1 : (tensor<f32>) -> tensor<1x1xf32>
    %3 = stablehlo.constant dense<1.0> : tensor<f32>
    %4 = stablehlo.reduce(%arg0 init: %3) applies stablehlo.multiply across dimensions = [0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
    %5 = stablehlo.constant dense<127> : tensor<i8>
    %6 = stablehlo.reduce(%arg1 init: %5) applies stablehlo.minimum across dimensions = [1] : (tensor<2x3xi8>, tensor<i8>) -> tensor<2xi8>
    %7 = stablehlo.reshape %6 : (tensor<2xi8>) -> tensor<2x1xi8>
    %8 = stablehlo.constant dense<true> : tensor<i1>
    %9 = stablehlo.constant dense<0> : tensor<i8>
    %10 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<i8>) -> tensor<2x3xi8>
    %11 = stablehlo.compare NE, %arg1, %10, SIGNED : (tensor<2x3xi8>, tensor<2x3xi8>) -> tensor<2x3xi1>
    %12 = stablehlo.reduce(%11 init: %8) applies stablehlo.and across dimensions = [0] : (tensor<2x3xi1>, tensor<i1>) -> tensor<3xi1>
    %13 = stablehlo.reshape %12 : (tensor<3xi1>) -> tensor<1x3xi1>
    %14 = stablehlo.constant dense<false> : tensor<i1>
    %15 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %16 = stablehlo.compare NE, %arg0, %15 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
    %17 = stablehlo.reduce(%16 init: %14) applies stablehlo.or across dimensions = [0, 1] : (tensor<2x3xi1>, tensor<i1>) -> tensor<i1>
    %18 = stablehlo.constant dense<-128> : tensor<i8>
    %19 = stablehlo.reduce(%arg1 init: %18) applies stablehlo.maximum across dimensions = [0] : (tensor<2x3xi8>, tensor<i8>) -> tensor<3xi8>
    %20 = stablehlo.reshape %19 : (tensor<3xi8>) -> tensor<1x3xi8>
    return %2, %4, %7, %13, %17, %20 : tensor<1x1xf32>, tensor<3xf32>, tensor<2x1xi8>, tensor<1x3xi1>, tensor<i1>, tensor<1x3xi8>
  }
}
