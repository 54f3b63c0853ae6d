module @complex {
  func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> (tensor<3xcomplex<f32>>, tensor<3xf32>, tensor<3xf32>, tensor<3xi1>, tensor<3xi1>) {
    %0 = stablehlo.complex %arg1, %arg0 : tensor<3xcomplex<f32>>
    %1 = stablehlo.imag %0 : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
    %2 = stablehlo.negate %1 : tensor<3xf32>
    %3 = stablehlo.real %0 : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
    %4 = stablehlo.complex %3, %2 : tensor<3xcomplex<f32>>
    %5 = stablehlo.abs %0 : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
    %6 = stablehlo.exponential %0 : tensor<3xcomplex<f32>>
    %7 = stablehlo.imag %6 : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
    %8 = stablehlo.imag %0 : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
    %9 = stablehlo.is_finite %8 : (tensor<3xf32>) -> tensor<3xi1>
    %10 = stablehlo.real %0 : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
    %11 = stablehlo.is_finite %10 : (tensor<3xf32>) -> tensor<3xi1>
    %12 = stablehlo.and %11, %9 : tensor<3xi1>
    %13 = stablehlo.constant dense<0.0> : tensor<f32>
    %14 = stablehlo.convert %13 : (tensor<f32>) -> tensor<complex<f32>>
    %15 = stablehlo.broadcast_in_dim %14, dims = [] : (tensor<complex<f32>>) -> tensor<3xcomplex<f32>>
    %16 = stablehlo.compare EQ, %0, %15 : (tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>) -> tensor<3xi1>
    return %4, %5, %7, %12, %16 : tensor<3xcomplex<f32>>, tensor<3xf32>, tensor<3xf32>, tensor<3xi1>, tensor<3xi1>
  }
}
