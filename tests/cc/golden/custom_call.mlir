module @custom_call {
  func.func public @main(%arg0: tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>, tensor<4xf32>) {
    %0:2 = stablehlo.custom_call @"ProbeTarget"(%arg0) {api_version = 2 : i32, backend_config = "a%b"} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>)
    %1 = stablehlo.optimization_barrier %0#0 : tensor<4xf32>
    return %0#1, %0#0, %1 : tensor<f32>, tensor<4xf32>, tensor<4xf32>
  }
}
