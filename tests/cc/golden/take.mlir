module @take {
  func.func public @main(%arg0: tensor<5x3xf32>, %arg1: tensor<2x2xi64>, %arg2: tensor<4x2xi64>) -> (tensor<2x2x3xf32>, tensor<4x2xf32>) {
    %0 = stablehlo.convert %arg1 : (tensor<2x2xi64>) -> tensor<2x2xi32>
    %1 = "stablehlo.gather"(%arg0, %0) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], operand_batching_dims = [], start_indices_batching_dims = [], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 3>}> : (tensor<5x3xf32>, tensor<2x2xi32>) -> tensor<2x2x3xf32>
    %2 = stablehlo.slice %arg0 [0:5, 0:2] : (tensor<5x3xf32>) -> tensor<5x2xf32>
    %3 = stablehlo.convert %arg2 : (tensor<4x2xi64>) -> tensor<4x2xi32>
    %4 = "stablehlo.gather"(%2, %3) <{dimension_numbers = #stablehlo.gather<offset_dims = [], collapsed_slice_dims = [0], operand_batching_dims = [1], start_indices_batching_dims = [1], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<5x2xf32>, tensor<4x2xi32>) -> tensor<4x2xf32>
    return %1, %4 : tensor<2x2x3xf32>, tensor<4x2xf32>
  }
}
