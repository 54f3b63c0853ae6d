module @constants_float {
  func.func public @main() -> (tensor<f16>, tensor<f16>, tensor<f16>, tensor<f16>, tensor<f16>, tensor<f16>, tensor<f16>, tensor<bf16>, tensor<bf16>, tensor<bf16>, tensor<bf16>, tensor<bf16>, tensor<bf16>, tensor<bf16>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>) {
    %0 = stablehlo.constant dense<0.0999755859375> : tensor<f16>
    %1 = stablehlo.constant dense<-0.0> : tensor<f16>
    %2 = stablehlo.constant dense<0x7C00> : tensor<f16>
    %3 = stablehlo.constant dense<0xFC00> : tensor<f16>
    %4 = stablehlo.constant dense<0x7E00> : tensor<f16>
    %5 = stablehlo.constant dense<65504.0> : tensor<f16>
    %6 = stablehlo.constant dense<0.10009765625> : tensor<bf16>
    %7 = stablehlo.constant dense<-0.0> : tensor<bf16>
    %8 = stablehlo.constant dense<0x7F80> : tensor<bf16>
    %9 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %10 = stablehlo.constant dense<0x7FC0> : tensor<bf16>
    %11 = stablehlo.constant dense<1.0002555517425873e+30> : tensor<bf16>
    %12 = stablehlo.constant dense<65536.0> : tensor<bf16>
    %13 = stablehlo.constant dense<0.1> : tensor<f32>
    %14 = stablehlo.constant dense<-0.0> : tensor<f32>
    %15 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %16 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %17 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %18 = stablehlo.constant dense<1.0e+30> : tensor<f32>
    %19 = stablehlo.constant dense<65519.0> : tensor<f32>
    %20 = stablehlo.constant dense<0.1> : tensor<f64>
    %21 = stablehlo.constant dense<-0.0> : tensor<f64>
    %22 = stablehlo.constant dense<0x7FF0000000000000> : tensor<f64>
    %23 = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
    %24 = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %25 = stablehlo.constant dense<1.0e+30> : tensor<f64>
    %26 = stablehlo.constant dense<65519.0> : tensor<f64>
    return %0, %1, %2, %3, %4, %2, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26 : tensor<f16>, tensor<f16>, tensor<f16>, tensor<f16>, tensor<f16>, tensor<f16>, tensor<f16>, tensor<bf16>, tensor<bf16>, tensor<bf16>, tensor<bf16>, tensor<bf16>, tensor<bf16>, tensor<bf16>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>
  }
}
