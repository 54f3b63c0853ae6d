module @index_check {
  func.func public @main(%arg0: tensor<5x3xf32>, %arg1: tensor<2xi64>) -> (tensor<2x3xf32>, tensor<2xi64>) {
    %0 = stablehlo.constant dense<5> : tensor<i64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<i64>) -> tensor<2xi64>
    %2 = stablehlo.compare GE, %arg1, %1, SIGNED : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi1>
    %3 = stablehlo.constant dense<-5> : tensor<i64>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<i64>) -> tensor<2xi64>
    %5 = stablehlo.compare LT, %arg1, %4, SIGNED : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi1>
    %6 = stablehlo.or %5, %2 : tensor<2xi1>
    %7 = stablehlo.constant dense<2> : tensor<i64>
    %8 = stablehlo.iota dim = 0 : tensor<2xi64>
    %9 = stablehlo.broadcast_in_dim %7, dims = [] : (tensor<i64>) -> tensor<2xi64>
    %10 = stablehlo.select %6, %8, %9 : tensor<2xi1>, tensor<2xi64>
    %11 = stablehlo.constant dense<9223372036854775807> : tensor<i64>
    %12 = stablehlo.reduce(%10 init: %11) applies stablehlo.minimum across dimensions = [0] : (tensor<2xi64>, tensor<i64>) -> tensor<i64>
    %13 = stablehlo.compare LT, %12, %7, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %14 = stablehlo.convert %13 : (tensor<i1>) -> tensor<i64>
    %15 = stablehlo.dynamic_slice %arg1, %12, sizes = [1] : (tensor<2xi64>, tensor<i64>) -> tensor<1xi64>
    %16 = stablehlo.reshape %15 : (tensor<1xi64>) -> tensor<i64>
    %17 = stablehlo.reshape %14 : (tensor<i64>) -> tensor<1xi64>
    %18 = stablehlo.reshape %16 : (tensor<i64>) -> tensor<1xi64>
    %19 = stablehlo.concatenate %17, %18, dim = 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
    %20 = stablehlo.convert %arg1 : (tensor<2xi64>) -> tensor<2xi32>
    %21 = "stablehlo.gather"(%arg0, %20) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], operand_batching_dims = [], start_indices_batching_dims = [], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 3>}> : (tensor<5x3xf32>, tensor<2xi32>) -> tensor<2x3xf32>
    return %21, %19 : tensor<2x3xf32>, tensor<2xi64>
  }
}
