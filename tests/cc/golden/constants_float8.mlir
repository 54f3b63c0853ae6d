module @constants_float8 {
  func.func public @main() -> (tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<f8E5M2>, tensor<f8E5M2>, tensor<f8E5M2>, tensor<f8E5M2>, tensor<f8E5M2>, tensor<f8E5M2>, tensor<f8E4M3FNUZ>, tensor<f8E4M3FNUZ>, tensor<f8E4M3FNUZ>, tensor<f8E4M3FNUZ>, tensor<f8E4M3FNUZ>, tensor<f8E4M3FNUZ>, tensor<f8E5M2FNUZ>, tensor<f8E5M2FNUZ>, tensor<f8E5M2FNUZ>, tensor<f8E5M2FNUZ>, tensor<f8E5M2FNUZ>, tensor<f8E5M2FNUZ>) {
    %0 = stablehlo.constant dense<0.1015625> : tensor<f8E4M3FN>
    %1 = stablehlo.constant dense<-0.0> : tensor<f8E4M3FN>
    %2 = stablehlo.constant dense<0x7F> : tensor<f8E4M3FN>
    %3 = stablehlo.constant dense<-1.5> : tensor<f8E4M3FN>
    %4 = stablehlo.constant dense<0.09375> : tensor<f8E5M2>
    %5 = stablehlo.constant dense<-0.0> : tensor<f8E5M2>
    %6 = stablehlo.constant dense<0x7C> : tensor<f8E5M2>
    %7 = stablehlo.constant dense<0x7E> : tensor<f8E5M2>
    %8 = stablehlo.constant dense<-1.5> : tensor<f8E5M2>
    %9 = stablehlo.constant dense<0.1015625> : tensor<f8E4M3FNUZ>
    %10 = stablehlo.constant dense<0.0> : tensor<f8E4M3FNUZ>
    %11 = stablehlo.constant dense<0x80> : tensor<f8E4M3FNUZ>
    %12 = stablehlo.constant dense<-1.5> : tensor<f8E4M3FNUZ>
    %13 = stablehlo.constant dense<0.09375> : tensor<f8E5M2FNUZ>
    %14 = stablehlo.constant dense<0.0> : tensor<f8E5M2FNUZ>
    %15 = stablehlo.constant dense<0x80> : tensor<f8E5M2FNUZ>
    %16 = stablehlo.constant dense<-1.5> : tensor<f8E5M2FNUZ>
    return %0, %1, %2, %2, %2, %3, %4, %5, %6, %7, %6, %8, %9, %10, %11, %11, %11, %12, %13, %14, %15, %15, %15, %16 : tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<f8E5M2>, tensor<f8E5M2>, tensor<f8E5M2>, tensor<f8E5M2>, tensor<f8E5M2>, tensor<f8E5M2>, tensor<f8E4M3FNUZ>, tensor<f8E4M3FNUZ>, tensor<f8E4M3FNUZ>, tensor<f8E4M3FNUZ>, tensor<f8E4M3FNUZ>, tensor<f8E4M3FNUZ>, tensor<f8E5M2FNUZ>, tensor<f8E5M2FNUZ>, tensor<f8E5M2FNUZ>, tensor<f8E5M2FNUZ>, tensor<f8E5M2FNUZ>, tensor<f8E5M2FNUZ>
  }
}
