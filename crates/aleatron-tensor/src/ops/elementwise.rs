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

/// The largest number of leaves of one fused kernel; every device has as many bindings, and one for
/// the result.
const MAX_LEAVES: usize = 6;

/// The largest number of steps of one fused kernel: drivers compile long kernels slowly.
const MAX_STEPS: usize = 48;

/// The arguments of an operation as expressions over the shape of the result, on the device they
/// share.
enum Arguments {
    Cpu(Vec<Expr<CpuView>>),
    Gpu(GpuDevice, Vec<Expr<GpuView>>),
}

/// Whether pending arguments may become part of a larger expression.
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
                        // Equal arguments share a leaf.
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

/// Returns a tensor on a GPU as an expression over a shape: the pending expression if it has that
/// shape, otherwise a leaf of its elements.
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

/// Creates a tensor from an expression of the arguments.
fn elementwise(
    op: &'static str,
    operands: &[Operand<'_>],
    dtypes: &[DType],
    shape: &[usize],
    build: &dyn Fn(Builder<'_>) -> BuiltExpr,
) -> Result<Tensor> {
    // The size is checked before anything is computed.
    let len = Layout::contiguous(shape)?.len();
    let tensor = match arguments(op, operands, dtypes, shape, Fuse::Yes)? {
        Arguments::Cpu(exprs) => {
            let BuiltExpr::Cpu(expr) = build(Builder::Cpu(&exprs)) else {
                return Err(other_device());
            };
            Tensor::from_cpu(crate::cpu::elementwise::evaluate(&expr, len)?, shape)?
        }
        Arguments::Gpu(gpu, exprs) => {
            let BuiltExpr::Gpu(mut expr) = build(Builder::Gpu(&exprs)) else {
                return Err(other_device());
            };
            if expr.leaves.len() > MAX_LEAVES || expr.program.steps.len() > MAX_STEPS {
                let Arguments::Gpu(_, exprs) = arguments(op, operands, dtypes, shape, Fuse::No)?
                else {
                    return Err(other_device());
                };
                let BuiltExpr::Gpu(small) = build(Builder::Gpu(&exprs)) else {
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

/// The expressions of arguments on either device.
enum Builder<'a> {
    Cpu(&'a [Expr<CpuView>]),
    Gpu(&'a [Expr<GpuView>]),
}

enum BuiltExpr {
    Cpu(Expr<CpuView>),
    Gpu(Expr<GpuView>),
}

/// Builds one expression on either device.
macro_rules! build {
    ($builder:expr, $args:ident => $expr:expr) => {
        match $builder {
            Builder::Cpu($args) => BuiltExpr::Cpu($expr),
            Builder::Gpu($args) => BuiltExpr::Gpu($expr),
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
        &|builder| build!(builder, args => formula.build(args).cast(dtype)),
    )
}

/// Returns the type of the computation for two arguments. A number takes the type of the tensor.
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
    /// [`Error::DType`] if the operation is not defined for this type, [`Error::Memory`] if memory
    /// is exhausted.
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
            &|builder| build!(builder, args => args[0].clone().unary(op, result)),
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
    /// if the types cannot be combined, [`Error::Devices`] for tensors of two devices, or if memory
    /// is exhausted.
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
            &|builder| build!(builder, args => args[0].clone().binary(op, &args[1], result)),
        )
    }

    /// Selects `left` if this is true, otherwise `right`; all arguments are broadcast.
    ///
    /// # Errors
    /// [`Error::DType`] if this tensor is not of booleans, otherwise as [`Self::binary`].
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
            &|builder| build!(builder, args => args[0].clone().select(&args[1], &args[2])),
        )
    }

    /// Casts the elements to another type. Floats are truncated to integers and saturate, NaN
    /// becomes 0; wide integers keep their low bits; everything except zero becomes true.
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
            &|builder| build!(builder, args => args[0].clone().cast(dtype)),
        )
    }

    /// Limits the elements to `low..=high`; NaN stays.
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

/// Returns the name of elements that a device does not support.
pub(crate) fn missing(dtype: DType) -> &'static str {
    if dtype == DType::F64 { "64-bit floats; use f32, or the CPU" } else { "64-bit integers" }
}

/// Returns the type of two numbers: 32-bit floats if one is a float, 64-bit integers otherwise.
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
    /// Returns -x.
    neg Neg
    /// Returns the absolute value.
    abs Abs
    /// Returns the sign: -1, 0 or 1.
    sign Sign
    /// Returns the square.
    square Square
    /// Returns 1 / x.
    recip Recip
    /// Returns the square root.
    sqrt Sqrt
    /// Returns 1 / sqrt(x).
    rsqrt Rsqrt
    /// Returns e^x.
    exp Exp
    /// Returns e^x - 1, accurate near 0.
    expm1 Expm1
    /// Returns the natural logarithm.
    log Log
    /// Returns ln(1 + x), accurate near 0.
    log1p Log1p
    /// Returns the logarithm to base 2.
    log2 Log2
    /// Returns the logarithm to base 10.
    log10 Log10
    /// Returns the sine.
    sin Sin
    /// Returns the cosine.
    cos Cos
    /// Returns the tangent.
    tan Tan
    /// Returns the inverse sine.
    asin Asin
    /// Returns the inverse cosine.
    acos Acos
    /// Returns the inverse tangent.
    atan Atan
    /// Returns the hyperbolic sine, accurate near 0.
    sinh Sinh
    /// Returns the hyperbolic cosine.
    cosh Cosh
    /// Returns the inverse hyperbolic sine, accurate near 0.
    asinh Asinh
    /// Returns the inverse hyperbolic cosine.
    acosh Acosh
    /// Returns the inverse hyperbolic tangent, accurate near 0.
    atanh Atanh
    /// Returns the hyperbolic tangent, accurate near 0.
    tanh Tanh
    /// Returns the error function, accurate near 0.
    erf Erf
    /// Returns 1 / (1 + e^-x).
    sigmoid Sigmoid
    /// Returns the larger of x and 0.
    relu Relu
    /// Returns x times the probability that a normal variable is below x.
    gelu Gelu
    /// Returns the approximation of [`Self::gelu`] through tanh.
    gelu_tanh GeluTanh
    /// Returns x / (1 + e^-x), also called swish.
    silu Silu
    /// Returns ln(1 + e^x).
    softplus Softplus
    /// Returns the nearest integer, ties to even.
    round Round
    /// Returns the largest integer that is not larger than x.
    floor Floor
    /// Returns the smallest integer that is not smaller than x.
    ceil Ceil
    /// Returns the integer part.
    trunc Trunc
    /// Returns the complement: logical not, or bitwise not for integers.
    not Not
    /// Returns whether x is NaN.
    is_nan IsNan
    /// Returns whether x is infinite.
    is_inf IsInf
    /// Returns whether x is neither NaN nor infinite.
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
    /// Returns the sum.
    add Add
    /// Returns the difference.
    sub Sub
    /// Returns the product.
    mul Mul
    /// Returns the quotient of floats.
    div Div
    /// Returns the quotient, rounded down.
    floor_divide FloorDiv
    /// Returns the remainder of a division that rounds down; it has the sign of the divisor.
    remainder Rem
    /// Returns the power.
    pow Pow
    /// Returns the smaller argument; NaN if either is NaN.
    minimum Min
    /// Returns the larger argument; NaN if either is NaN.
    maximum Max
    /// Returns x if it is positive, otherwise x times the slope.
    leaky_relu LeakyRelu
    /// Returns x if it is positive, otherwise the slope times e^x - 1.
    elu Elu
    /// Returns whether the arguments are equal.
    eq Eq
    /// Returns whether the arguments differ.
    ne Ne
    /// Returns whether the left argument is smaller.
    lt Lt
    /// Returns whether the left argument is not larger.
    le Le
    /// Returns whether the left argument is larger.
    gt Gt
    /// Returns whether the left argument is not smaller.
    ge Ge
    /// Returns the logical and; bitwise for integers.
    and And
    /// Returns the logical or; bitwise for integers.
    or Or
    /// Returns the exclusive or; bitwise for integers.
    xor Xor
    /// Returns the bits shifted left.
    shift_left Shl
    /// Returns the bits shifted right.
    shift_right Shr
}
