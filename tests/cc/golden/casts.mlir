module @casts {
  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<4xcomplex<f32>>, %arg2: tensor<4xf8E5M2>) -> (tensor<4xi1>, tensor<4xui8>, tensor<4xui64>, tensor<4xcomplex<f64>>, tensor<4xi1>, tensor<4xi32>, tensor<4xi16>, tensor<4xf16>, tensor<4xi32>, tensor<4x4xui8>) {
    %0 = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %2 = stablehlo.compare NE, %arg0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %3 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xi32>
    %4 = stablehlo.convert %3 : (tensor<4xi32>) -> tensor<4xui8>
    %5 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xi64>
    %6 = stablehlo.convert %5 : (tensor<4xi64>) -> tensor<4xui64>
    %7 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xui64>
    %8 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %9 = stablehlo.compare LT, %arg0, %8 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %10 = stablehlo.select %9, %6, %7 : tensor<4xi1>, tensor<4xui64>
    %11 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xf64>
    %12 = stablehlo.convert %11 : (tensor<4xf64>) -> tensor<4xcomplex<f64>>
    %13 = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
    %14 = stablehlo.broadcast_in_dim %13, dims = [] : (tensor<complex<f32>>) -> tensor<4xcomplex<f32>>
    %15 = stablehlo.compare NE, %arg1, %14 : (tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>) -> tensor<4xi1>
    %16 = stablehlo.real %arg1 : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
    %17 = stablehlo.convert %16 : (tensor<4xf32>) -> tensor<4xi32>
    %18 = stablehlo.convert %arg2 : (tensor<4xf8E5M2>) -> tensor<4xf32>
    %19 = stablehlo.convert %18 : (tensor<4xf32>) -> tensor<4xi32>
    %20 = stablehlo.convert %19 : (tensor<4xi32>) -> tensor<4xi16>
    %21 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xi64>
    %22 = stablehlo.convert %21 : (tensor<4xi64>) -> tensor<4xf32>
    %23 = stablehlo.convert %22 : (tensor<4xf32>) -> tensor<4xf16>
    %24 = stablehlo.bitcast_convert %arg0 : (tensor<4xf32>) -> tensor<4xi32>
    %25 = stablehlo.bitcast_convert %arg0 : (tensor<4xf32>) -> tensor<4x4xui8>
    return %2, %4, %10, %12, %15, %17, %20, %23, %24, %25 : tensor<4xi1>, tensor<4xui8>, tensor<4xui64>, tensor<4xcomplex<f64>>, tensor<4xi1>, tensor<4xi32>, tensor<4xi16>, tensor<4xf16>, tensor<4xi32>, tensor<4x4xui8>
  }
}
