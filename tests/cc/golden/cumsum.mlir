module @cumsum {
  func.func public @main(%arg0: tensor<7xf32>) -> (tensor<7xf32>) {
    %0 = stablehlo.slice %arg0 [1:7:2] : (tensor<7xf32>) -> tensor<3xf32>
    %1 = stablehlo.slice %arg0 [0:6:2] : (tensor<7xf32>) -> tensor<3xf32>
    %2 = stablehlo.add %1, %0 : tensor<3xf32>
    %3 = stablehlo.slice %2 [1:3:2] : (tensor<3xf32>) -> tensor<1xf32>
    %4 = stablehlo.slice %2 [0:2:2] : (tensor<3xf32>) -> tensor<1xf32>
    %5 = stablehlo.add %4, %3 : tensor<1xf32>
    %6 = stablehlo.slice %2 [0:1] : (tensor<3xf32>) -> tensor<1xf32>
    %7 = stablehlo.slice %2 [2:3:2] : (tensor<3xf32>) -> tensor<1xf32>
    %8 = stablehlo.add %5, %7 : tensor<1xf32>
    %9 = stablehlo.concatenate %6, %8, dim = 0 : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>
    %10 = stablehlo.constant dense<-0.0> : tensor<f32>
    %11 = stablehlo.pad %9, %10, low = [0], high = [0], interior = [1] : (tensor<2xf32>, tensor<f32>) -> tensor<3xf32>
    %12 = stablehlo.pad %5, %10, low = [1], high = [1], interior = [1] : (tensor<1xf32>, tensor<f32>) -> tensor<3xf32>
    %13 = stablehlo.add %11, %12 : tensor<3xf32>
    %14 = stablehlo.slice %arg0 [0:1] : (tensor<7xf32>) -> tensor<1xf32>
    %15 = stablehlo.slice %arg0 [2:7:2] : (tensor<7xf32>) -> tensor<3xf32>
    %16 = stablehlo.add %13, %15 : tensor<3xf32>
    %17 = stablehlo.concatenate %14, %16, dim = 0 : (tensor<1xf32>, tensor<3xf32>) -> tensor<4xf32>
    %18 = stablehlo.pad %17, %10, low = [0], high = [0], interior = [1] : (tensor<4xf32>, tensor<f32>) -> tensor<7xf32>
    %19 = stablehlo.pad %13, %10, low = [1], high = [1], interior = [1] : (tensor<3xf32>, tensor<f32>) -> tensor<7xf32>
    %20 = stablehlo.add %18, %19 : tensor<7xf32>
    return %20 : tensor<7xf32>
  }
}
