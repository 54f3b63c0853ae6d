module @constants_other {
  func.func public @main() -> (tensor<ui8>, tensor<ui64>, tensor<ui8>, tensor<i64>, tensor<i1>, tensor<complex<f32>>, tensor<complex<f64>>, tensor<3xi32>, tensor<0xi64>, tensor<3xf32>, tensor<2x0xf32>, tensor<2x3xi32>, tensor<4xbf16>) {
    %0 = stablehlo.constant dense<44> : tensor<ui8>
    %1 = stablehlo.constant dense<18446744073709551615> : tensor<ui64>
    %2 = stablehlo.constant dense<255> : tensor<ui8>
    %3 = stablehlo.constant dense<-9223372036854775808> : tensor<i64>
    %4 = stablehlo.constant dense<true> : tensor<i1>
    %5 = stablehlo.constant dense<(0.5, 0xFF800000)> : tensor<complex<f32>>
    %6 = stablehlo.constant dense<(2.0, 0.0)> : tensor<complex<f64>>
    %7 = stablehlo.constant dense<[1, -2, 3]> : tensor<3xi32>
    %8 = stablehlo.constant dense<> : tensor<0xi64>
    %9 = stablehlo.constant dense<[1.0, 0x7FC00000, 0.25]> : tensor<3xf32>
    %10 = stablehlo.constant dense<1.0> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [] : (tensor<f32>) -> tensor<2x0xf32>
    %12 = stablehlo.iota dim = 1 : tensor<2x3xi32>
    %13 = stablehlo.iota dim = 0 : tensor<4xf32>
    %14 = stablehlo.convert %13 : (tensor<4xf32>) -> tensor<4xbf16>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %11, %12, %14 : tensor<ui8>, tensor<ui64>, tensor<ui8>, tensor<i64>, tensor<i1>, tensor<complex<f32>>, tensor<complex<f64>>, tensor<3xi32>, tensor<0xi64>, tensor<3xf32>, tensor<2x0xf32>, tensor<2x3xi32>, tensor<4xbf16>
  }
}
