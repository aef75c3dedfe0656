//! Operations of nodes: one enum with typed attributes. Operators of ONNX that differ in a detail
//! share one variant.

mod name;
mod quantized;

pub use aleatron_tensor::{
    Border, Coordinates, Dims, Filter, Interpolation, Nearest, ResizeOptions, Rounding,
};
use aleatron_tensor::{DType, Tensor};

pub use self::quantized::Quantized;
use crate::graph::Graph;

/// A function of each element.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "named after the functions")]
pub enum Unary {
    Abs,
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    BitwiseNot,
    Ceil,
    Celu { alpha: f32 },
    Cos,
    Cosh,
    Elu { alpha: f32 },
    Erf,
    Exp,
    Floor,
    Gelu,
    GeluTanh,
    HardSigmoid { alpha: f32, beta: f32 },
    HardSwish,
    IsInf { negative: bool, positive: bool },
    IsNan,
    LeakyRelu { alpha: f32 },
    Log,
    Mish,
    Neg,
    Not,
    Reciprocal,
    Relu,
    Round,
    Selu { alpha: f32, gamma: f32 },
    Shrink { bias: f32, lambda: f32 },
    Sigmoid,
    Sign,
    Sin,
    Sinh,
    Softplus,
    Softsign,
    Sqrt,
    Swish { alpha: f32 },
    Tan,
    Tanh,
    ThresholdedRelu { alpha: f32 },
}

/// A function of two elements, which are broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "named after the functions")]
pub enum Binary {
    Add,
    And,
    BitShiftLeft,
    BitShiftRight,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    Div,
    Equal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    /// The sign of the result is that of the divisor.
    Mod,
    /// The sign of the result is that of the dividend.
    Fmod,
    Mul,
    Or,
    Pow,
    PRelu,
    Sub,
    Xor,
}

/// A function of any number of tensors, which are broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after the functions")]
pub enum Variadic {
    Max,
    Mean,
    Min,
    Sum,
}

/// A reduction of elements to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after the functions")]
pub enum Reduction {
    L1,
    L2,
    LogSum,
    LogSumExp,
    Max,
    Mean,
    Min,
    Prod,
    Sum,
    SumSquare,
}

/// Softmax functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after the functions")]
pub enum Softmax {
    Softmax,
    LogSoftmax,
    Hardmax,
}

/// The axes of a softmax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoftmaxAxes {
    /// One axis.
    One(i64),
    /// This axis and all that follow, as in operator sets before 13.
    From(i64),
}

/// The largest or the smallest element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they say it")]
pub enum Extreme {
    Max,
    Min,
}

/// The choice of the first or the last of equal elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they say it")]
pub enum Tie {
    First,
    Last,
}

/// The meaning of an empty list of axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAxes {
    /// All axes.
    All,
    /// No axes.
    None,
}

/// The padding of borders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Padding {
    /// These sizes, all beginnings and then all ends; no padding if empty.
    Explicit(Vec<i64>),
    /// Padding such that the output is the input over the stride, with an odd element at the end.
    SameUpper,
    /// Padding like `SameUpper`, with an odd element at the beginning.
    SameLower,
    /// No padding.
    Valid,
}

/// A window that moves over the spatial axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The size; empty if the weights define it.
    pub kernel: Vec<i64>,
    /// The strides; empty for 1.
    pub strides: Vec<i64>,
    /// The dilations: the distances of the taps; empty for 1.
    pub dilations: Vec<i64>,
    /// The padding of the input.
    pub padding: Padding,
}

/// The value computed from a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pooling {
    /// The mean.
    Average {
        /// Whether padding counts.
        count_padding: bool,
    },
    /// The largest element, and on request its index.
    Max {
        /// Whether indices count columns first.
        column_major: bool,
    },
    /// The p-norm.
    Lp {
        /// The p.
        p: i64,
    },
}

/// The elements around a padded tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after the modes")]
pub enum PadMode {
    Constant,
    Reflect,
    Edge,
    Wrap,
}

/// The combination of two updates of one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after the functions")]
pub enum Scatter {
    Replace,
    Add,
    Mul,
    Max,
    Min,
}

/// The part of a matrix that is retained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they say it")]
pub enum Triangle {
    Upper,
    Lower,
}

/// The order of blocks in the channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockOrder {
    /// Block, then channel.
    DepthColumnRow,
    /// Channel, then block.
    ColumnRowDepth,
}

/// The settings of [`Op::Resize`].
#[derive(Debug, Clone, PartialEq)]
pub struct Resize {
    /// The interpolation.
    pub options: ResizeOptions,
    /// The resized axes; all if `None`.
    pub axes: Option<Vec<i64>>,
    /// Whether the aspect ratio is preserved, and how.
    pub aspect: Aspect,
}

/// Whether the aspect ratio is preserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after the modes")]
pub enum Aspect {
    Stretch,
    NotLarger,
    NotSmaller,
}

/// The settings of a recurrent node.
#[derive(Debug, Clone, PartialEq)]
pub struct Recurrent {
    /// The cell.
    pub cell: Cell,
    /// Forward, backward or both.
    pub direction: Direction,
    /// The functions of the cell, for each direction.
    pub activations: Vec<Unary>,
    /// The largest magnitude of values, which are clipped.
    pub clip: Option<f32>,
    /// The size of the state.
    pub hidden: Option<i64>,
    /// Whether the batch comes before the time.
    pub batch_first: bool,
}

/// A recurrent cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// One state, one function.
    Rnn,
    /// Gates of reset and update.
    Gru {
        /// Whether the reset applies after the product.
        linear_before_reset: bool,
    },
    /// A cell and a state, three gates.
    Lstm {
        /// Whether the forget gate is one minus the input gate.
        input_forget: bool,
    },
}

/// The direction of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they say it")]
pub enum Direction {
    Forward,
    Reverse,
    Both,
}

/// Scaled dot-product attention.
#[derive(Debug, Clone, PartialEq)]
pub struct Attention {
    /// Whether a query attends to earlier keys only.
    pub causal: bool,
    /// The number of heads of the queries, if their axis is joined with that of features.
    pub query_heads: Option<i64>,
    /// The number of heads of keys and values.
    pub key_heads: Option<i64>,
    /// The factor of the scores; 1 / sqrt(head) if `None`.
    pub scale: Option<f32>,
    /// The soft cap of the magnitude of scores; none if 0.
    pub softcap: f32,
    /// The number of keys before its own position that a query attends to; all if `None`.
    pub left_window: Option<i64>,
    /// The number of keys after its own position that a query attends to; all if `None`.
    pub right_window: Option<i64>,
    /// The step of attention that the fourth output returns.
    pub shown: ShownScores,
}

/// A step of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownScores {
    /// The products.
    Product,
    /// After the cap.
    Capped,
    /// With the mask.
    Masked,
    /// The weights.
    Weights,
}

/// A window function of signal processing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after the functions")]
pub enum SignalWindow {
    Hann,
    Hamming,
    Blackman,
}

/// The representation of a box by four numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoxFormat {
    /// Two opposite corners: y1, x1, y2, x2.
    Corners,
    /// The center and the size: x, y, width, height.
    Center,
}

/// An operation of a node.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "named after the operators of ONNX, whose attributes they have")]
pub enum Op {
    Unary(Unary),
    Binary(Binary),
    Variadic(Variadic),
    Where,
    /// Bounds as attributes, or as the second and third input.
    Clip {
        low: Option<f32>,
        high: Option<f32>,
    },
    Cast(DType),
    CastLike,
    Identity,
    Constant(ConstantValue),

    Reduce {
        reduction: Reduction,
        axes: Option<Vec<i64>>,
        reduced: Dims,
        no_axes: NoAxes,
    },
    ArgReduce {
        extreme: Extreme,
        axis: i64,
        reduced: Dims,
        tie: Tie,
    },
    Softmax {
        function: Softmax,
        axes: SoftmaxAxes,
    },
    CumSum {
        exclusive: bool,
        reverse: bool,
    },
    CumProd {
        exclusive: bool,
        reverse: bool,
    },
    TopK {
        axis: i64,
        extreme: Extreme,
    },

    MatMul,
    Gemm {
        alpha: f32,
        beta: f32,
        transpose_a: bool,
        transpose_b: bool,
    },
    Conv {
        window: Window,
        groups: i64,
    },
    ConvTranspose {
        window: Window,
        groups: i64,
        output_padding: Vec<i64>,
        output_shape: Vec<i64>,
    },
    Einsum {
        equation: Equation,
    },
    QuantizeLinear {
        axis: i64,
        block_size: i64,
        to: Quantized,
    },
    DequantizeLinear {
        axis: i64,
        block_size: i64,
    },
    DynamicQuantizeLinear,
    MatMulInteger,
    ConvInteger {
        window: Window,
        groups: i64,
    },
    QLinearMatMul {
        to: Quantized,
    },
    QLinearConv {
        window: Window,
        groups: i64,
        to: Quantized,
    },

    Pool {
        pooling: Pooling,
        window: Window,
        rounding: Rounding,
    },
    GlobalPool(Pooling),
    MaxUnpool {
        window: Window,
    },

    BatchNormalization {
        epsilon: f32,
        momentum: f32,
        training: bool,
    },
    InstanceNormalization {
        epsilon: f32,
    },
    GroupNormalization {
        epsilon: f32,
        groups: i64,
    },
    LayerNormalization {
        axis: i64,
        epsilon: f32,
    },
    RmsNormalization {
        axis: i64,
        epsilon: f32,
    },
    LpNormalization {
        axis: i64,
        p: i64,
    },
    Lrn {
        alpha: f32,
        beta: f32,
        bias: f32,
        size: i64,
    },
    MeanVarianceNormalization {
        axes: Vec<i64>,
    },
    Dropout {
        training: bool,
    },

    Reshape {
        shape: Option<Vec<i64>>,
        allow_zero: bool,
    },
    Flatten {
        axis: i64,
    },
    Squeeze {
        axes: Option<Vec<i64>>,
    },
    Unsqueeze {
        axes: Option<Vec<i64>>,
    },
    Transpose {
        order: Option<Vec<i64>>,
    },
    Expand,
    Tile,
    Concat {
        axis: i64,
    },
    Split {
        axis: i64,
        sizes: Option<Vec<i64>>,
        parts: Option<i64>,
    },
    Slice {
        given: Option<SliceGiven>,
    },
    Pad {
        mode: PadMode,
        given: Option<(Vec<i64>, f32)>,
    },
    Gather {
        axis: i64,
    },
    GatherElements {
        axis: i64,
    },
    GatherNd {
        batch_dims: i64,
    },
    ScatterElements {
        axis: i64,
        scatter: Scatter,
    },
    ScatterNd {
        scatter: Scatter,
    },
    Compress {
        axis: Option<i64>,
    },
    OneHot {
        axis: i64,
    },
    Trilu {
        triangle: Triangle,
    },
    EyeLike {
        diagonal: i64,
        dtype: Option<DType>,
    },
    NonZero,
    DepthToSpace {
        block: i64,
        order: BlockOrder,
    },
    SpaceToDepth {
        block: i64,
    },
    ReverseSequence {
        batch_axis: i64,
        time_axis: i64,
    },
    CenterCropPad {
        axes: Option<Vec<i64>>,
    },
    Col2Im {
        window: Window,
    },
    Unique {
        axis: Option<i64>,
        sorted: bool,
    },

    Shape {
        start: i64,
        end: Option<i64>,
    },
    Size,
    ConstantOfShape {
        value: ConstantValue,
    },
    Range,

    Resize(Resize),
    Upsample {
        interpolation: Interpolation,
    },
    GridSample {
        interpolation: Interpolation,
        edge: PadModeOfGrid,
        align_corners: bool,
    },
    Recurrent(Recurrent),
    Attention(Attention),
    RotaryEmbedding {
        interleaved: bool,
        heads: i64,
        rotated: i64,
    },
    SwiGlu {
        alpha: f32,
    },
    Det,
    /// The axis is the third input if it is not given here.
    Dft {
        axis: Option<i64>,
        inverse: bool,
        onesided: bool,
    },
    Stft {
        onesided: bool,
    },
    SignalWindow {
        function: SignalWindow,
        periodic: bool,
        dtype: DType,
    },
    NonMaxSuppression {
        format: BoxFormat,
    },

    If {
        then_branch: Box<Graph>,
        else_branch: Box<Graph>,
    },
    Loop {
        body: Box<Graph>,
    },
}

/// The values outside a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they say it")]
pub enum PadModeOfGrid {
    Zeros,
    Border,
    Reflection,
}

/// Starts, ends and axes of a slice that is not given by inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceGiven {
    /// The first element along each axis.
    pub starts: Vec<i64>,
    /// The ends, exclusive.
    pub ends: Vec<i64>,
    /// The axes; the first ones if `None`.
    pub axes: Option<Vec<i64>>,
}

/// A tensor that is part of an operator.
#[derive(Debug, Clone)]
pub struct ConstantValue(pub Tensor);

impl PartialEq for ConstantValue {
    /// Returns whether both tensors have the same elements. Unreadable tensors are unequal to
    /// everything.
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (&self.0, &other.0);
        a.dtype() == b.dtype()
            && a.shape() == b.shape()
            && match a.dtype() {
                DType::Bool => same::<bool>(a, b),
                DType::U8 => same::<u8>(a, b),
                DType::I32 => same::<i32>(a, b),
                DType::I64 => same::<i64>(a, b),
                DType::F16 => same::<half::f16>(a, b),
                DType::F32 => same::<f32>(a, b),
                _ => false,
            }
    }
}

fn same<T: aleatron_tensor::Element>(a: &Tensor, b: &Tensor) -> bool {
    matches!((a.to_vec::<T>(), b.to_vec::<T>()), (Ok(a), Ok(b)) if a == b)
}

/// The axes of a sum of products. Axes are numbers from 0 on; equal numbers are the same axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Equation {
    /// The axes of each input.
    pub inputs: Vec<EquationTerm>,
    /// The axes of the output.
    pub output: EquationTerm,
}

/// The axes of one tensor of an equation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EquationTerm {
    /// Named axes before the broadcast ones.
    pub before: Vec<u8>,
    /// Whether there are broadcast axes.
    pub ellipsis: bool,
    /// Named axes after them.
    pub after: Vec<u8>,
}
