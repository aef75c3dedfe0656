//! Names of operators, for display.

use super::{
    Binary, Cell, Extreme, Op, Pooling, Reduction, SignalWindow, Softmax, Unary, Variadic,
};

impl Op {
    /// Returns the name of the operator in ONNX, for display.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unary(op) => op.name(),
            Self::Binary(op) => op.name(),
            Self::Variadic(op) => match op {
                Variadic::Max => "Max",
                Variadic::Mean => "Mean",
                Variadic::Min => "Min",
                Variadic::Sum => "Sum",
            },
            Self::Where => "Where",
            Self::Clip { .. } => "Clip",
            Self::Cast(_) => "Cast",
            Self::CastLike => "CastLike",
            Self::Identity => "Identity",
            Self::Constant(_) => "Constant",
            Self::Reduce { reduction, .. } => match reduction {
                Reduction::L1 => "ReduceL1",
                Reduction::L2 => "ReduceL2",
                Reduction::LogSum => "ReduceLogSum",
                Reduction::LogSumExp => "ReduceLogSumExp",
                Reduction::Max => "ReduceMax",
                Reduction::Mean => "ReduceMean",
                Reduction::Min => "ReduceMin",
                Reduction::Prod => "ReduceProd",
                Reduction::Sum => "ReduceSum",
                Reduction::SumSquare => "ReduceSumSquare",
            },
            Self::ArgReduce { extreme: Extreme::Max, .. } => "ArgMax",
            Self::ArgReduce { extreme: Extreme::Min, .. } => "ArgMin",
            Self::Softmax { function, .. } => match function {
                Softmax::Softmax => "Softmax",
                Softmax::LogSoftmax => "LogSoftmax",
                Softmax::Hardmax => "Hardmax",
            },
            Self::CumSum { .. } => "CumSum",
            Self::CumProd { .. } => "CumProd",
            Self::TopK { .. } => "TopK",
            Self::MatMul => "MatMul",
            Self::Gemm { .. } => "Gemm",
            Self::Conv { .. } => "Conv",
            Self::ConvTranspose { .. } => "ConvTranspose",
            Self::Einsum { .. } => "Einsum",
            Self::QuantizeLinear { .. } => "QuantizeLinear",
            Self::DequantizeLinear { .. } => "DequantizeLinear",
            Self::DynamicQuantizeLinear => "DynamicQuantizeLinear",
            Self::MatMulInteger => "MatMulInteger",
            Self::ConvInteger { .. } => "ConvInteger",
            Self::QLinearMatMul { .. } => "QLinearMatMul",
            Self::QLinearConv { .. } => "QLinearConv",
            Self::Pool { pooling, .. } => match pooling {
                Pooling::Average { .. } => "AveragePool",
                Pooling::Max { .. } => "MaxPool",
                Pooling::Lp { .. } => "LpPool",
            },
            Self::GlobalPool(pooling) => match pooling {
                Pooling::Average { .. } => "GlobalAveragePool",
                Pooling::Max { .. } => "GlobalMaxPool",
                Pooling::Lp { .. } => "GlobalLpPool",
            },
            Self::MaxUnpool { .. } => "MaxUnpool",
            Self::BatchNormalization { .. } => "BatchNormalization",
            Self::InstanceNormalization { .. } => "InstanceNormalization",
            Self::GroupNormalization { .. } => "GroupNormalization",
            Self::LayerNormalization { .. } => "LayerNormalization",
            Self::RmsNormalization { .. } => "RMSNormalization",
            Self::LpNormalization { .. } => "LpNormalization",
            Self::Lrn { .. } => "LRN",
            Self::MeanVarianceNormalization { .. } => "MeanVarianceNormalization",
            Self::Dropout { .. } => "Dropout",
            Self::Reshape { .. } => "Reshape",
            Self::Flatten { .. } => "Flatten",
            Self::Squeeze { .. } => "Squeeze",
            Self::Unsqueeze { .. } => "Unsqueeze",
            Self::Transpose { .. } => "Transpose",
            Self::Expand => "Expand",
            Self::Tile => "Tile",
            Self::Concat { .. } => "Concat",
            Self::Split { .. } => "Split",
            Self::Slice { .. } => "Slice",
            Self::Pad { .. } => "Pad",
            Self::Gather { .. } => "Gather",
            Self::GatherElements { .. } => "GatherElements",
            Self::GatherNd { .. } => "GatherND",
            Self::ScatterElements { .. } => "ScatterElements",
            Self::ScatterNd { .. } => "ScatterND",
            Self::Compress { .. } => "Compress",
            Self::OneHot { .. } => "OneHot",
            Self::Trilu { .. } => "Trilu",
            Self::EyeLike { .. } => "EyeLike",
            Self::NonZero => "NonZero",
            Self::DepthToSpace { .. } => "DepthToSpace",
            Self::SpaceToDepth { .. } => "SpaceToDepth",
            Self::ReverseSequence { .. } => "ReverseSequence",
            Self::CenterCropPad { .. } => "CenterCropPad",
            Self::Col2Im { .. } => "Col2Im",
            Self::Unique { .. } => "Unique",
            Self::Shape { .. } => "Shape",
            Self::Size => "Size",
            Self::ConstantOfShape { .. } => "ConstantOfShape",
            Self::Range => "Range",
            Self::Resize(_) => "Resize",
            Self::Upsample { .. } => "Upsample",
            Self::GridSample { .. } => "GridSample",
            Self::Recurrent(recurrent) => match recurrent.cell {
                Cell::Rnn => "RNN",
                Cell::Gru { .. } => "GRU",
                Cell::Lstm { .. } => "LSTM",
            },
            Self::Attention(_) => "Attention",
            Self::RotaryEmbedding { .. } => "RotaryEmbedding",
            Self::SwiGlu { .. } => "SwiGLU",
            Self::Det => "Det",
            Self::Dft { .. } => "DFT",
            Self::Stft { .. } => "STFT",
            Self::SignalWindow { function, .. } => match function {
                SignalWindow::Hann => "HannWindow",
                SignalWindow::Hamming => "HammingWindow",
                SignalWindow::Blackman => "BlackmanWindow",
            },
            Self::NonMaxSuppression { .. } => "NonMaxSuppression",
            Self::If { .. } => "If",
            Self::Loop { .. } => "Loop",
        }
    }
}

macro_rules! names {
    ($type:ident: $($variant:ident $name:literal)*) => {
        impl $type {
            /// Returns the name of the operator of ONNX.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $name),*
                }
            }
        }
    };
}

names! { Unary:
    Abs "Abs" Acos "Acos" Acosh "Acosh" Asin "Asin" Asinh "Asinh" Atan "Atan" Atanh "Atanh" BitwiseNot "BitwiseNot"
    Ceil "Ceil" Celu "Celu" Cos "Cos" Cosh "Cosh" Elu "Elu" Erf "Erf" Exp "Exp" Floor "Floor" Gelu "Gelu" GeluTanh "Gelu"
    HardSigmoid "HardSigmoid" HardSwish "HardSwish" IsInf "IsInf" IsNan "IsNaN" LeakyRelu "LeakyRelu" Log "Log" Mish "Mish"
    Neg "Neg" Not "Not" Reciprocal "Reciprocal" Relu "Relu" Round "Round" Selu "Selu" Shrink "Shrink" Sigmoid "Sigmoid"
    Sign "Sign" Sin "Sin" Sinh "Sinh" Softplus "Softplus" Softsign "Softsign" Sqrt "Sqrt" Swish "Swish" Tan "Tan" Tanh "Tanh"
    ThresholdedRelu "ThresholdedRelu"
}

names! { Binary:
    Add "Add" And "And" BitShiftLeft "BitShift" BitShiftRight "BitShift" BitwiseAnd "BitwiseAnd" BitwiseOr "BitwiseOr"
    BitwiseXor "BitwiseXor" Div "Div" Equal "Equal" Greater "Greater" GreaterOrEqual "GreaterOrEqual" Less "Less"
    LessOrEqual "LessOrEqual" Mod "Mod" Fmod "Mod" Mul "Mul" Or "Or" Pow "Pow" PRelu "PRelu" Sub "Sub" Xor "Xor"
}
