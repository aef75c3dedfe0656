//! Elementwise operations. Arguments are broadcast; on GPUs chains of operations become one kernel.

use crate::autograd::{self, Formula, is_recorded};
use crate::cpu::CpuView;
use crate::dtype::{DType, Kind, Scalar};
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::gpu::{GpuDevice, GpuStorage, GpuView};
use crate::layout::{Layout, broadcast_shapes};
use crate::op::{BinaryOp, UnaryOp};
use crate::storage::Storage;
use crate::tensor::Tensor;
use crate::trace::report;

/// An argument of an operation: a tensor, or a number that takes its type.
#[derive(Debug, Clone, Copy)]
pub enum Operand<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A number.
    Scalar(Scalar),
}

impl<'a> From<&'a Tensor> for Operand<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl<'a, S: Into<Scalar>> From<S> for Operand<'a> {
    fn from(scalar: S) -> Self {
        Self::Scalar(scalar.into())
    }
}

impl<'a> Operand<'a> {
    fn shape(&self) -> &[usize] {
        match self {
            Self::Tensor(tensor) => tensor.shape(),
            Self::Scalar(_) => &[],
        }
    }

    pub(crate) fn tensor(&self) -> Option<&'a Tensor> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            Self::Scalar(_) => None,
        }
    }
}

/// Leaves of one fused kernel; every device has as many bindings, and one for the result.
const MAX_LEAVES: usize = 6;

/// Steps of one fused kernel: drivers take long to compile long ones.
const MAX_STEPS: usize = 48;

/// The arguments of an operation as expressions over the shape of the result, on the device they
/// share.
enum Arguments {
    Cpu(Vec<Expr<CpuView>>),
    Gpu(GpuDevice, Vec<Expr<GpuView>>),
}

/// Whether arguments that are not computed yet may become part of a larger expression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fuse {
    Yes,
    No,
}

fn arguments(
    op: &'static str,
    operands: &[Operand<'_>],
    dtypes: &[DType],
    shape: &[usize],
    fuse: Fuse,
) -> Result<Arguments> {
    let mut tensors = operands.iter().filter_map(Operand::tensor);
    let Some(first) = tensors.next() else {
        return Err(Error::argument(
            op,
            "arguments",
            "numbers alone",
            "at least one tensor is needed",
        ));
    };
    tensors.try_for_each(|other| first.check_device(op, other))?;
    let constant = |scalar: Scalar, dtype| scalar.to_dtype(dtype);
    match first.storage() {
        Storage::Cpu(_) => {
            let expr = |(operand, &dtype): (&Operand<'_>, &DType)| match operand {
                Operand::Scalar(scalar) => Ok(Expr::constant(constant(*scalar, dtype)?)),
                Operand::Tensor(tensor) => {
                    let layout = tensor.layout().broadcast_to(op, shape)?;
                    let Storage::Cpu(storage) = tensor.storage() else {
                        return Err(mixed(op, first, tensor));
                    };
                    let view = CpuView { storage: storage.clone(), layout };
                    Ok(Expr::leaf(view, tensor.dtype()).cast(dtype))
                }
            };
            Ok(Arguments::Cpu(operands.iter().zip(dtypes).map(expr).collect::<Result<_>>()?))
        }
        Storage::Gpu(storage) => {
            let gpu = storage.device().clone();
            let mut exprs: Vec<Expr<GpuView>> = Vec::with_capacity(operands.len());
            for (i, (operand, &dtype)) in operands.iter().zip(dtypes).enumerate() {
                let expr = match operand {
                    Operand::Scalar(scalar) => Expr::constant(constant(*scalar, dtype)?),
                    Operand::Tensor(tensor) => {
                        // An argument that occurs twice is one.
                        let twin =
                            operands[..i].iter().zip(dtypes).position(|(other, other_dtype)| {
                                other.tensor().is_some_and(|other| {
                                    other.storage().is_same(tensor.storage())
                                        && other.layout() == tensor.layout()
                                }) && *other_dtype == dtype
                            });
                        match twin {
                            Some(twin) => exprs[twin].clone(),
                            None => gpu_expr(op, tensor, shape, fuse)?.cast(dtype),
                        }
                    }
                };
                exprs.push(expr);
            }
            Ok(Arguments::Gpu(gpu, exprs))
        }
    }
}

fn mixed(op: &'static str, left: &Tensor, right: &Tensor) -> Error {
    Error::Devices { op, left: left.device().to_string(), right: right.device().to_string() }
}

/// Returns a tensor on a GPU as an expression over a shape: what it is still to be computed from,
/// where it has that shape, else its elements.
fn gpu_expr(
    op: &'static str,
    tensor: &Tensor,
    shape: &[usize],
    fuse: Fuse,
) -> Result<Expr<GpuView>> {
    let Storage::Gpu(storage) = tensor.storage() else { return Err(mixed(op, tensor, tensor)) };
    let shared = if fuse == Fuse::Yes && tensor.shape() == shape {
        storage.share(tensor.layout())
    } else {
        None
    };
    if let Some(expr) = shared {
        return Ok(expr);
    }
    let layout = tensor.layout().broadcast_to(op, shape)?;
    Ok(Expr::leaf(GpuView { data: storage.data()?, layout }, tensor.dtype()))
}

/// Makes a tensor of an expression that is built from the arguments.
fn elementwise(
    op: &'static str,
    operands: &[Operand<'_>],
    dtypes: &[DType],
    shape: &[usize],
    build: impl Fn(Builder<'_>) -> Built,
) -> Result<Tensor> {
    // Counted before anything is computed.
    let len = Layout::contiguous(shape)?.len();
    let tensor = match arguments(op, operands, dtypes, shape, Fuse::Yes)? {
        Arguments::Cpu(exprs) => {
            let Built::Cpu(expr) = build(Builder::Cpu(&exprs)) else { return Err(other_device()) };
            Tensor::from_cpu(crate::cpu::elementwise::evaluate(&expr, len)?, shape)?
        }
        Arguments::Gpu(gpu, exprs) => {
            let Built::Gpu(mut expr) = build(Builder::Gpu(&exprs)) else {
                return Err(other_device());
            };
            if expr.leaves.len() > MAX_LEAVES || expr.program.steps.len() > MAX_STEPS {
                let Arguments::Gpu(_, exprs) = arguments(op, operands, dtypes, shape, Fuse::No)?
                else {
                    return Err(other_device());
                };
                let Built::Gpu(small) = build(Builder::Gpu(&exprs)) else {
                    return Err(other_device());
                };
                expr = small;
            }
            Tensor::from_gpu(GpuStorage::pending(&gpu, expr, shape)?, shape)?
        }
    };
    Ok(report(op, tensor))
}

/// Returns the error for arguments that changed their device while an expression was built.
fn other_device() -> Error {
    Error::internal("ops::elementwise, device of an expression")
}

fn no_arguments(op: &'static str) -> Error {
    Error::argument(op, "arguments", "none", "at least one tensor is needed")
}

/// The expressions of arguments, of whichever device.
enum Builder<'a> {
    Cpu(&'a [Expr<CpuView>]),
    Gpu(&'a [Expr<GpuView>]),
}

enum Built {
    Cpu(Expr<CpuView>),
    Gpu(Expr<GpuView>),
}

/// Builds one expression on either device.
macro_rules! build {
    ($builder:expr, $args:ident => $expr:expr) => {
        match $builder {
            Builder::Cpu($args) => Built::Cpu($expr),
            Builder::Gpu($args) => Built::Gpu($expr),
        }
    };
}

/// Evaluates a formula over operands, the first of which is a tensor of floats. The result has the
/// type of the first operand.
pub(crate) fn evaluate_formula(
    op: &'static str,
    operands: &[Operand<'_>],
    formula: &impl Formula,
) -> Result<Tensor> {
    let Some(first) = operands.first().and_then(Operand::tensor) else {
        return Err(no_arguments(op));
    };
    // The widest type of the operands: a gradient is cast to that of its argument afterwards.
    let floats = operands
        .iter()
        .filter_map(|operand| Some(operand.tensor()?.dtype()))
        .filter(|dtype| dtype.is_float());
    let computed = floats.fold(first.dtype(), DType::max).computed();
    let mut dtypes = Vec::with_capacity(operands.len());
    let mut shape = Vec::new();
    for operand in operands {
        let is_condition = operand.tensor().is_some_and(|tensor| tensor.dtype() == DType::Bool);
        dtypes.push(if is_condition { DType::Bool } else { computed });
        shape = broadcast_shapes(op, &shape, operand.shape())?;
    }
    let dtype = first.dtype();
    elementwise(
        op,
        operands,
        &dtypes,
        &shape,
        |builder| build!(builder, args => formula.build(args).cast(dtype)),
    )
}

/// The type two arguments are computed in. A number takes the type of the tensor.
fn common(op: &'static str, left: &Operand<'_>, right: &Operand<'_>) -> Result<DType> {
    match (left, right) {
        (Operand::Tensor(left), Operand::Tensor(right)) => {
            let (left, right) = (left.dtype(), right.dtype());
            left.promote(right).ok_or(Error::Promotion { op, left, right })
        }
        (Operand::Tensor(tensor), Operand::Scalar(_))
        | (Operand::Scalar(_), Operand::Tensor(tensor)) => Ok(tensor.dtype()),
        (Operand::Scalar(_), Operand::Scalar(_)) => Err(no_arguments(op)),
    }
}

impl Tensor {
    /// Applies an operation of one argument to every element.
    ///
    /// # Errors
    /// [`Error::DType`] if it is not for elements of this type, [`Error::Memory`] if memory is exhausted.
    pub fn unary(&self, op: UnaryOp) -> Result<Self> {
        if is_recorded([self]) {
            return autograd::unary(op, self);
        }
        let result = op.result(self.dtype())?;
        elementwise(
            op.name(),
            &[self.into()],
            &[self.dtype()],
            self.shape(),
            |builder| build!(builder, args => args[0].clone().unary(op, result)),
        )
    }

    /// Applies an operation to pairs of elements of two arguments, which are broadcast; one of them
    /// may be a number.
    ///
    /// ```
    /// use aleatron_tensor::{BinaryOp, Device, Tensor};
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], &[2], &Device::Cpu)?;
    /// let y = Tensor::binary(BinaryOp::Sub, 10.0, &x)?;
    /// assert_eq!(y.to_vec::<f32>()?, [9.0, 8.0]);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Shapes`] if the shapes do not broadcast, [`Error::Promotion`] or [`Error::DType`]
    /// if the types do not fit, [`Error::Devices`] for tensors of two devices, or if memory is
    /// exhausted.
    pub fn binary<'a>(
        op: BinaryOp,
        left: impl Into<Operand<'a>>,
        right: impl Into<Operand<'a>>,
    ) -> Result<Self> {
        let (left, right, name) = (left.into(), right.into(), op.name());
        if is_recorded(left.tensor().into_iter().chain(right.tensor())) {
            return autograd::binary(op, left, right);
        }
        let dtype = common(name, &left, &right)?;
        let result = op.result(dtype)?;
        let shape = broadcast_shapes(name, left.shape(), right.shape())?;
        elementwise(
            name,
            &[left, right],
            &[dtype, dtype],
            &shape,
            |builder| build!(builder, args => args[0].clone().binary(op, &args[1], result)),
        )
    }

    /// `left` where this is true, else `right`; all are broadcast.
    ///
    /// # Errors
    /// [`Error::DType`] if this is not of booleans, otherwise as [`Self::binary`].
    pub fn where_<'a>(
        &'a self,
        left: impl Into<Operand<'a>>,
        right: impl Into<Operand<'a>>,
    ) -> Result<Self> {
        const OP: &str = "where";
        if self.dtype() != DType::Bool {
            return Err(Error::DType { op: OP, dtype: self.dtype(), expected: "booleans" });
        }
        let (left, right) = (left.into(), right.into());
        if is_recorded(left.tensor().into_iter().chain(right.tensor())) {
            return autograd::select_where(self, left, right);
        }
        let dtype = match (&left, &right) {
            (Operand::Scalar(a), Operand::Scalar(b)) => {
                scalar_type(*a, *b).ok_or_else(|| no_common_scalar(*b, *a))?
            }
            _ => common(OP, &left, &right)?,
        };
        let shape = broadcast_shapes(
            OP,
            &broadcast_shapes(OP, self.shape(), left.shape())?,
            right.shape(),
        )?;
        elementwise(
            OP,
            &[self.into(), left, right],
            &[DType::Bool, dtype, dtype],
            &shape,
            |builder| build!(builder, args => args[0].clone().select(&args[1], &args[2])),
        )
    }

    /// Returns the elements as another type. Floats become integers without their fraction, the
    /// nearest one where they are too large, NaN 0; wide integers become narrow ones by their low
    /// bits; whatever is not zero is true.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the device has no such elements, [`Error::Memory`] if memory is exhausted.
    pub fn cast(&self, dtype: DType) -> Result<Self> {
        if dtype == self.dtype() {
            return Ok(self.clone());
        }
        if is_recorded([self]) {
            return autograd::cast(self, dtype);
        }
        let device = self.device();
        if !device.supports(dtype) {
            return Err(Error::Unsupported { device: device.to_string(), what: missing(dtype) });
        }
        elementwise(
            "cast",
            &[self.into()],
            &[self.dtype()],
            self.shape(),
            |builder| build!(builder, args => args[0].clone().cast(dtype)),
        )
    }

    /// Returns the elements, but not below `low` nor above `high`; NaN stays.
    ///
    /// # Errors
    /// As [`Self::binary`].
    pub fn clip<'a>(
        &'a self,
        low: impl Into<Operand<'a>>,
        high: impl Into<Operand<'a>>,
    ) -> Result<Self> {
        let (low, high) = (low.into(), high.into());
        if is_recorded([Some(self), low.tensor(), high.tensor()].into_iter().flatten()) {
            return autograd::clip(self, low, high);
        }
        let above = Self::binary(BinaryOp::Max, self, low)?;
        Self::binary(BinaryOp::Min, &above, high)
    }
}

/// Returns the elements that a device does not support.
pub(crate) fn missing(dtype: DType) -> &'static str {
    if dtype == DType::F64 { "64-bit floats; use f32, or the CPU" } else { "64-bit integers" }
}

/// Returns the type of two numbers: 32-bit floats where one is a float, 64-bit integers for
/// integers.
fn scalar_type(left: Scalar, right: Scalar) -> Option<DType> {
    match (left.kind(), right.kind()) {
        (Kind::Bool, Kind::Bool) => Some(DType::Bool),
        (Kind::Bool, _) | (_, Kind::Bool) => None,
        (Kind::Integer, Kind::Integer) => Some(DType::I64),
        _ => Some(DType::F32),
    }
}

fn no_common_scalar(value: Scalar, other: Scalar) -> Error {
    let dtype = if other.kind() == Kind::Bool { DType::Bool } else { DType::F32 };
    Error::Scalar { value, dtype }
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident $op:ident)*) => {
        impl Tensor {
            $($(#[$doc])*
            ///
            /// # Errors
            /// As [`Self::unary`].
            pub fn $name(&self) -> Result<Self> {
                self.unary(UnaryOp::$op)
            })*
        }
    };
}

unary! {
    /// The negative.
    neg Neg
    /// The distance from 0.
    abs Abs
    /// -1, 0 or 1.
    sign Sign
    /// The square.
    square Square
    /// 1 / x.
    recip Recip
    /// The square root.
    sqrt Sqrt
    /// 1 / sqrt(x).
    rsqrt Rsqrt
    /// e^x.
    exp Exp
    /// e^x - 1, accurate near 0.
    expm1 Expm1
    /// The natural logarithm.
    log Log
    /// ln(1 + x), accurate near 0.
    log1p Log1p
    /// The logarithm to base 2.
    log2 Log2
    /// The logarithm to base 10.
    log10 Log10
    /// The sine.
    sin Sin
    /// The cosine.
    cos Cos
    /// The tangent.
    tan Tan
    /// The inverse sine.
    asin Asin
    /// The inverse cosine.
    acos Acos
    /// The inverse tangent.
    atan Atan
    /// The hyperbolic sine, accurate near 0.
    sinh Sinh
    /// The hyperbolic cosine.
    cosh Cosh
    /// The inverse hyperbolic sine, accurate near 0.
    asinh Asinh
    /// The inverse hyperbolic cosine.
    acosh Acosh
    /// The inverse hyperbolic tangent, accurate near 0.
    atanh Atanh
    /// The hyperbolic tangent, accurate near 0.
    tanh Tanh
    /// The error function, accurate near 0.
    erf Erf
    /// 1 / (1 + e^-x).
    sigmoid Sigmoid
    /// The larger of x and 0.
    relu Relu
    /// x times the probability that a normal variable is below x.
    gelu Gelu
    /// The approximation of [`Self::gelu`] through tanh.
    gelu_tanh GeluTanh
    /// x / (1 + e^-x), also called swish.
    silu Silu
    /// ln(1 + e^x).
    softplus Softplus
    /// The nearest integer, ties to even.
    round Round
    /// The largest integer that is not larger.
    floor Floor
    /// The smallest integer that is not smaller.
    ceil Ceil
    /// Without the fraction.
    trunc Trunc
    /// The other boolean; of integers, every bit turned over.
    not Not
    /// Whether it is NaN.
    is_nan IsNan
    /// Whether it is infinite.
    is_inf IsInf
    /// Whether it is neither NaN nor infinite.
    is_finite IsFinite
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident $op:ident)*) => {
        impl Tensor {
            $($(#[$doc])*
            ///
            /// # Errors
            /// As [`Self::binary`].
            pub fn $name<'a>(&'a self, other: impl Into<Operand<'a>>) -> Result<Self> {
                Self::binary(BinaryOp::$op, self, other)
            })*
        }
    };
}

binary! {
    /// The sum.
    add Add
    /// The difference.
    sub Sub
    /// The product.
    mul Mul
    /// The quotient of floats.
    div Div
    /// The quotient, rounded down.
    floor_divide FloorDiv
    /// What a division that rounds down leaves; it has the sign of the divisor.
    remainder Rem
    /// The power.
    pow Pow
    /// The smaller one; NaN where one is.
    minimum Min
    /// The larger one; NaN where one is.
    maximum Max
    /// x where it is positive, else x times the slope.
    leaky_relu LeakyRelu
    /// x where it is positive, else the slope times e^x - 1.
    elu Elu
    /// Whether both are equal.
    eq Eq
    /// Whether both differ.
    ne Ne
    /// Whether this is smaller.
    lt Lt
    /// Whether this is not larger.
    le Le
    /// Whether this is larger.
    gt Gt
    /// Whether this is not smaller.
    ge Ge
    /// Both; of integers, bit by bit.
    and And
    /// One or both; of integers, bit by bit.
    or Or
    /// One but not both; of integers, bit by bit.
    xor Xor
    /// The bits moved up.
    shift_left Shl
    /// The bits moved down.
    shift_right Shr
}
