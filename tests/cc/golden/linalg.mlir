module @linalg {
  func.func public @main(%arg0: tensor<2x3x3xf32>, %arg1: tensor<2x3x1xf32>, %arg2: tensor<2x8xf32>, %arg3: tensor<4x5xcomplex<f32>>) -> (tensor<2x3x3xf32>, tensor<2x3x1xf32>, tensor<2x5xcomplex<f32>>, tensor<4x8xf32>) {
    %0 = "stablehlo.cholesky"(%arg0) <{lower = true}> : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
    %1 = "stablehlo.triangular_solve"(%arg0, %arg1) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<2x3x3xf32>, tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
    %2 = stablehlo.fft %arg2, type = RFFT, length = [8] : (tensor<2x8xf32>) -> tensor<2x5xcomplex<f32>>
    %3 = stablehlo.fft %arg3, type = IRFFT, length = [8] : (tensor<4x5xcomplex<f32>>) -> tensor<4x8xf32>
    return %0, %1, %2, %3 : tensor<2x3x3xf32>, tensor<2x3x1xf32>, tensor<2x5xcomplex<f32>>, tensor<4x8xf32>
  }
}
