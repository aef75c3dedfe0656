//! Elementwise expressions on the CPU: step by step over blocks that stay in the first-level cache.

use bytemuck::Pod;
use half::f16;

use super::cast::{Values, ValuesMut, cast, narrow, round_to_half, widen};
use super::{CpuView, filled, parallel, simd};
use crate::dtype::{Constant, DType};
use crate::error::{Error, Result};
use crate::expr::{Expr, Node, Program, StepIndex};
use crate::layout::{collapse, collapse_all};
use crate::op::{BinaryEntry, UnaryEntry};
use crate::storage::CpuStorage;

/// The number of elements that a thread takes at a time.
const CHUNK: usize = 1 << 16;

/// The number of elements of a block: the values of all steps should stay in the first-level cache.
const BLOCK: usize = 1 << 10;

/// Evaluates an expression over views of one shape of `len` elements.
pub(crate) fn evaluate(expr: &Expr<CpuView>, len: usize) -> Result<CpuStorage> {
    let dtype = expr.dtype();
    let leaves = Leaf::all(&expr.leaves);
    let nanoseconds = 0.2 + 0.3 * expr.program.operations() as f64;
    filled(dtype, len, |buffer| match dtype {
        DType::F64 => run::<f64>(expr, &leaves, buffer.slice_mut()?, nanoseconds),
        DType::F32 => run::<f32>(expr, &leaves, buffer.slice_mut()?, nanoseconds),
        DType::F16 => run::<f16>(expr, &leaves, buffer.slice_mut()?, nanoseconds),
        DType::I32 => run::<i32>(expr, &leaves, buffer.slice_mut()?, nanoseconds),
        DType::I64 => run::<i64>(expr, &leaves, buffer.slice_mut()?, nanoseconds),
        DType::U8 | DType::Bool => run::<u8>(expr, &leaves, buffer.slice_mut()?, nanoseconds),
    })
}

fn run<T: Out>(
    expr: &Expr<CpuView>,
    leaves: &[Leaf<'_>],
    out: &mut [T],
    nanoseconds: f64,
) -> Result<()> {
    // One step over contiguous elements needs no blocks: it reads the leaves and writes the result.
    let is_direct = expr.program.operations() <= 1 && leaves.iter().all(Leaf::is_borrowed);
    let streams = simd::streams(size_of_val(out));
    let block = if is_direct && !streams { CHUNK } else { BLOCK };
    parallel::for_each_chunk(out, CHUNK, nanoseconds, |start, chunk| {
        let mut evaluator = Evaluator::new(&expr.program, &expr.constants, leaves);
        let mut scratch = Vec::new();
        let mut stream = streams.then(simd::Stream::new);
        for (i, target) in chunk.chunks_mut(block).enumerate() {
            if let Some(stream) = &mut stream {
                // The result bypasses the cache: it is not read before the cache has been replaced.
                scratch.resize(target.len(), T::zeroed());
                evaluator.run(start + i * block, &mut scratch)?;
                stream.copy(&scratch, target);
            } else {
                evaluator.run(start + i * block, target)?;
            }
        }
        Ok(())
    })
}

/// A leaf that can be read from any index on.
pub(crate) struct Leaf<'a> {
    storage: &'a CpuStorage,
    offset: usize,
    dims: Vec<usize>,
    strides: Vec<isize>,
}

impl<'a> Leaf<'a> {
    pub(crate) fn all(views: &'a [CpuView]) -> Vec<Self> {
        let (dims, strides) =
            collapse_all(&views.iter().map(|view| &view.layout).collect::<Vec<_>>());
        let leaf = |(view, strides): (&'a CpuView, _)| Self {
            storage: &view.storage,
            offset: view.layout.offset(),
            dims: dims.clone(),
            strides,
        };
        views.iter().zip(strides).map(leaf).collect()
    }

    /// Creates the leaf of one view.
    pub(crate) fn only(view: &'a CpuView) -> Self {
        let (dims, [strides]) = collapse([&view.layout]);
        Self { storage: &view.storage, offset: view.layout.offset(), dims, strides }
    }

    /// Returns the type of the elements.
    pub(crate) fn dtype(&self) -> DType {
        self.storage.dtype()
    }

    fn is_contiguous(&self) -> bool {
        self.strides == [1]
    }

    /// Returns whether a run of elements is a slice of the storage, in the type of the computation.
    pub(crate) fn is_borrowed(&self) -> bool {
        self.is_contiguous() && self.storage.dtype() != DType::F16
    }

    /// Returns the contiguous elements from `start` on.
    pub(crate) fn slice<T: Pod>(&self, start: usize, len: usize) -> Result<&'a [T]> {
        Ok(&self.storage.slice()?[self.offset + start..][..len])
    }

    /// Copies the elements from `start` on, for any layout.
    pub(crate) fn gather<T: Pod>(&self, start: usize, out: &mut [T]) -> Result<()> {
        let all: &[T] = self.storage.slice()?;
        let inner = self.dims.len() - 1;
        // The coordinates of the first element.
        let (mut at, mut left) = (vec![0; self.dims.len()], start);
        for axis in (0..self.dims.len()).rev() {
            at[axis] = left % self.dims[axis];
            left /= self.dims[axis];
        }
        let mut done = 0;
        while done < out.len() {
            let index = at
                .iter()
                .zip(&self.strides)
                .fold(self.offset as isize, |sum, (&at, &stride)| sum + at as isize * stride);
            let run = (self.dims[inner] - at[inner]).min(out.len() - done);
            let target = &mut out[done..done + run];
            match self.strides[inner] {
                1 => target.copy_from_slice(&all[index as usize..][..run]),
                0 => target.fill(all[index as usize]),
                stride => {
                    for (i, target) in target.iter_mut().enumerate() {
                        *target = all[(index + i as isize * stride) as usize];
                    }
                }
            }
            done += run;
            at[inner] += run;
            for axis in (1..self.dims.len()).rev() {
                if at[axis] < self.dims[axis] {
                    break;
                }
                at[axis] = 0;
                at[axis - 1] += 1;
            }
        }
        Ok(())
    }
}

/// The stored type of a result.
trait Out: Pod + Send + Sync {
    /// Stores the values of the last step.
    fn take(values: Values<'_>, out: &mut [Self]) -> Result<()>;

    /// Returns the output itself if the last step can write to it.
    fn direct(out: &mut [Self]) -> Option<ValuesMut<'_>>;
}

macro_rules! out {
    ($type:ty, $variant:ident) => {
        impl Out for $type {
            fn take(values: Values<'_>, out: &mut [Self]) -> Result<()> {
                let Values::$variant(values) = values else {
                    return Err(Error::internal("cpu::elementwise::Out::take"));
                };
                out.copy_from_slice(values);
                Ok(())
            }
            fn direct(out: &mut [Self]) -> Option<ValuesMut<'_>> {
                Some(ValuesMut::$variant(out))
            }
        }
    };
}

out!(f64, F64);
out!(f32, F32);
out!(i32, I32);
out!(i64, I64);
out!(u8, U8);

impl Out for f16 {
    fn take(values: Values<'_>, out: &mut [Self]) -> Result<()> {
        let Values::F32(values) = values else {
            return Err(Error::internal("cpu::elementwise::Out::take, 16-bit floats"));
        };
        narrow(values, out);
        Ok(())
    }
    fn direct(_: &mut [Self]) -> Option<ValuesMut<'_>> {
        None
    }
}

/// The values of a step, for one block.
enum Register<'a> {
    /// Not computed yet.
    Empty,
    Borrowed(Values<'a>),
    F64(Vec<f64>),
    F32(Vec<f32>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U8(Vec<u8>),
}

impl Register<'_> {
    fn values(&self, len: usize) -> Result<Values<'_>> {
        Ok(match self {
            Self::Empty => return Err(Error::internal("cpu::elementwise::Register::values")),
            Self::Borrowed(values) => *values,
            Self::F64(values) => Values::F64(&values[..len]),
            Self::F32(values) => Values::F32(&values[..len]),
            Self::I32(values) => Values::I32(&values[..len]),
            Self::I64(values) => Values::I64(&values[..len]),
            Self::U8(values) => Values::U8(&values[..len]),
        })
    }

    /// Returns a buffer for `len` values of a type, reused from block to block.
    fn values_mut(&mut self, dtype: DType, len: usize) -> Result<ValuesMut<'_>> {
        fn long<T: Pod>(mut values: Vec<T>, len: usize) -> Vec<T> {
            values.resize(values.len().max(len), T::zeroed());
            values
        }
        let old = std::mem::replace(self, Self::Empty);
        *self = match (dtype, old) {
            (DType::F64, Self::F64(values)) => Self::F64(long(values, len)),
            (DType::F64, _) => Self::F64(vec![0.0; len]),
            (DType::F32 | DType::F16, Self::F32(values)) => Self::F32(long(values, len)),
            (DType::F32 | DType::F16, _) => Self::F32(vec![0.0; len]),
            (DType::I32, Self::I32(values)) => Self::I32(long(values, len)),
            (DType::I32, _) => Self::I32(vec![0; len]),
            (DType::I64, Self::I64(values)) => Self::I64(long(values, len)),
            (DType::I64, _) => Self::I64(vec![0; len]),
            (DType::U8 | DType::Bool, Self::U8(values)) => Self::U8(long(values, len)),
            (DType::U8 | DType::Bool, _) => Self::U8(vec![0; len]),
        };
        Ok(match self {
            Self::F64(values) => ValuesMut::F64(&mut values[..len]),
            Self::F32(values) => ValuesMut::F32(&mut values[..len]),
            Self::I32(values) => ValuesMut::I32(&mut values[..len]),
            Self::I64(values) => ValuesMut::I64(&mut values[..len]),
            Self::U8(values) => ValuesMut::U8(&mut values[..len]),
            Self::Empty | Self::Borrowed(_) => {
                return Err(Error::internal("cpu::elementwise::Register::values_mut"));
            }
        })
    }
}

struct Evaluator<'a> {
    program: &'a Program,
    constants: &'a [Constant],
    leaves: &'a [Leaf<'a>],
    registers: Vec<Register<'a>>,
}

impl<'a> Evaluator<'a> {
    fn new(program: &'a Program, constants: &'a [Constant], leaves: &'a [Leaf<'a>]) -> Self {
        let registers = program.steps.iter().map(|_| Register::Empty).collect();
        Self { program, constants, leaves, registers }
    }

    /// Computes the elements from `start` on.
    fn run<T: Out>(&mut self, start: usize, out: &mut [T]) -> Result<()> {
        let len = out.len();
        let last = self.program.steps.len() - 1;
        for (index, &(node, dtype)) in self.program.steps.iter().enumerate() {
            let (before, rest) = self.registers.split_at_mut(index);
            match node {
                Node::Leaf(leaf) => load(&self.leaves[leaf], start, len, &mut rest[0])?,
                _ if index == last
                    && let Some(values_mut) = T::direct(out) =>
                {
                    return compute(node, dtype, self.constants, before, len, values_mut);
                }
                Node::Constant(_) if !matches!(rest[0], Register::Empty) => {}
                _ => {
                    let values_mut = rest[0].values_mut(
                        dtype,
                        if matches!(node, Node::Constant(_)) { BLOCK.max(len) } else { len },
                    )?;
                    compute(node, dtype, self.constants, before, len, values_mut)?;
                }
            }
        }
        T::take(self.registers[last].values(len)?, out)
    }
}

/// Loads the elements of a leaf; borrows contiguous elements in the type of the computation.
fn load<'a>(leaf: &Leaf<'a>, start: usize, len: usize, register: &mut Register<'a>) -> Result<()> {
    let dtype = leaf.storage.dtype();
    if leaf.is_borrowed() {
        *register = Register::Borrowed(match dtype {
            DType::F64 => Values::F64(leaf.slice(start, len)?),
            DType::F32 | DType::F16 => Values::F32(leaf.slice(start, len)?),
            DType::I32 => Values::I32(leaf.slice(start, len)?),
            DType::I64 => Values::I64(leaf.slice(start, len)?),
            DType::U8 | DType::Bool => Values::U8(leaf.slice(start, len)?),
        });
        return Ok(());
    }
    match register.values_mut(dtype, len)? {
        ValuesMut::F32(values_mut) if dtype == DType::F16 => {
            if leaf.is_contiguous() {
                widen(leaf.slice(start, len)?, values_mut);
            } else {
                let mut halves = vec![f16::ZERO; len];
                leaf.gather(start, &mut halves)?;
                widen(&halves, values_mut);
            }
            Ok(())
        }
        ValuesMut::F64(values_mut) => leaf.gather(start, values_mut),
        ValuesMut::F32(values_mut) => leaf.gather(start, values_mut),
        ValuesMut::I32(values_mut) => leaf.gather(start, values_mut),
        ValuesMut::I64(values_mut) => leaf.gather(start, values_mut),
        ValuesMut::U8(values_mut) => leaf.gather(start, values_mut),
    }
}

/// Computes one step on one block.
fn compute(
    node: Node,
    dtype: DType,
    constants: &[Constant],
    before: &[Register<'_>],
    len: usize,
    out: ValuesMut<'_>,
) -> Result<()> {
    let argument = |index: StepIndex| before[index].values(len);
    match node {
        Node::Leaf(_) => Err(Error::internal("cpu::elementwise::compute, leaf")),
        Node::Constant(constant) => {
            fill(constants[constant], out);
            Ok(())
        }
        Node::Cast(x) => {
            cast(argument(x)?, out, dtype);
            Ok(())
        }
        Node::Select(condition, x, y) => {
            let Values::U8(condition) = argument(condition)? else {
                return Err(Error::internal("cpu::elementwise::compute, condition"));
            };
            select(condition, argument(x)?, argument(y)?, out)
        }
        Node::Unary(op, x) => unary(op.entry(), argument(x)?, out, dtype),
        Node::Binary(op, x, y) => binary(op.entry(), argument(x)?, argument(y)?, out, dtype),
    }
}

/// Computes an operation of one argument on one block.
fn unary(entry: &UnaryEntry, x: Values<'_>, out: ValuesMut<'_>, dtype: DType) -> Result<()> {
    match (x, out, entry) {
        (Values::F32(x), ValuesMut::F32(out), UnaryEntry { float: Some(float), .. }) => {
            (float.run)(x, out);
            if dtype == DType::F16 {
                round_to_half(out);
            }
        }
        (Values::F64(x), ValuesMut::F64(out), UnaryEntry { float: Some(float), .. }) => {
            simd::map(x, out, float.exact);
        }
        (Values::F64(x), ValuesMut::U8(out), UnaryEntry { predicate: Some(predicate), .. }) => {
            simd::map(x, out, |x| u8::from((predicate.exact)(x)));
        }
        (Values::F32(x), ValuesMut::U8(out), UnaryEntry { predicate: Some(predicate), .. }) => {
            (predicate.run)(x, out);
        }
        (Values::U8(x), ValuesMut::U8(out), UnaryEntry { boolean: Some((run, _)), .. })
            if dtype == DType::Bool =>
        {
            run(x, out);
        }
        (Values::I32(x), ValuesMut::I32(out), UnaryEntry { integer: Some(integer), .. }) => {
            (integer.i32)(x, out);
        }
        (Values::I64(x), ValuesMut::I64(out), UnaryEntry { integer: Some(integer), .. }) => {
            (integer.i64)(x, out);
        }
        (Values::U8(x), ValuesMut::U8(out), UnaryEntry { integer: Some(integer), .. })
            if dtype == DType::U8 =>
        {
            (integer.u8)(x, out);
        }
        _ => return Err(Error::internal("cpu::elementwise::unary, types")),
    }
    Ok(())
}

/// Computes an operation of two arguments on one block.
fn binary(
    entry: &BinaryEntry,
    x: Values<'_>,
    y: Values<'_>,
    out: ValuesMut<'_>,
    dtype: DType,
) -> Result<()> {
    match (x, y, out, entry) {
        (x, y, ValuesMut::U8(out), BinaryEntry { comparison: Some(comparison), .. }) => {
            match (x, y) {
                (Values::F64(x), Values::F64(y)) => {
                    simd::map2(x, y, out, |x, y| u8::from((comparison.exact)(x, y)))
                }
                (Values::F32(x), Values::F32(y)) => (comparison.f32)(x, y, out),
                (Values::I32(x), Values::I32(y)) => (comparison.i32)(x, y, out),
                (Values::I64(x), Values::I64(y)) => (comparison.i64)(x, y, out),
                (Values::U8(x), Values::U8(y)) => (comparison.u8)(x, y, out),
                _ => {
                    return Err(Error::internal("cpu::elementwise::binary, types of a comparison"));
                }
            }
        }
        (
            Values::F64(x),
            Values::F64(y),
            ValuesMut::F64(out),
            BinaryEntry { float: Some(float), double, .. },
        ) => {
            simd::map2(x, y, out, double.unwrap_or(float.exact));
        }
        (
            Values::F32(x),
            Values::F32(y),
            ValuesMut::F32(out),
            BinaryEntry { float: Some(float), .. },
        ) => {
            (float.run)(x, y, out);
            if dtype == DType::F16 {
                round_to_half(out);
            }
        }
        (
            Values::U8(x),
            Values::U8(y),
            ValuesMut::U8(out),
            BinaryEntry { boolean: Some((run, _)), .. },
        ) if dtype == DType::Bool => {
            run(x, y, out);
        }
        (
            Values::I32(x),
            Values::I32(y),
            ValuesMut::I32(out),
            BinaryEntry { integer: Some(integer), .. },
        ) => {
            (integer.i32)(x, y, out);
        }
        (
            Values::I64(x),
            Values::I64(y),
            ValuesMut::I64(out),
            BinaryEntry { integer: Some(integer), .. },
        ) => {
            (integer.i64)(x, y, out);
        }
        (
            Values::U8(x),
            Values::U8(y),
            ValuesMut::U8(out),
            BinaryEntry { integer: Some(integer), .. },
        ) if dtype == DType::U8 => {
            (integer.u8)(x, y, out);
        }
        _ => return Err(Error::internal("cpu::elementwise::binary, types")),
    }
    Ok(())
}

fn fill(constant: Constant, out: ValuesMut<'_>) {
    match out {
        ValuesMut::F64(out) => out.fill(constant.as_f64()),
        ValuesMut::F32(out) => out.fill(constant.as_f32()),
        ValuesMut::I32(out) => out.fill(constant.as_i64() as i32),
        ValuesMut::I64(out) => out.fill(constant.as_i64()),
        ValuesMut::U8(out) => out.fill(constant.as_i64() as u8),
    }
}

fn select(condition: &[u8], x: Values<'_>, y: Values<'_>, out: ValuesMut<'_>) -> Result<()> {
    use simd::choose;
    match (x, y, out) {
        (Values::F64(x), Values::F64(y), ValuesMut::F64(out)) => choose(condition, x, y, out),
        (Values::F32(x), Values::F32(y), ValuesMut::F32(out)) => choose(condition, x, y, out),
        (Values::I32(x), Values::I32(y), ValuesMut::I32(out)) => choose(condition, x, y, out),
        (Values::I64(x), Values::I64(y), ValuesMut::I64(out)) => choose(condition, x, y, out),
        (Values::U8(x), Values::U8(y), ValuesMut::U8(out)) => choose(condition, x, y, out),
        _ => return Err(Error::internal("cpu::elementwise::select, types")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{BinaryOp, UnaryOp};

    /// Types that no expression has are errors, and the result does not expose uninitialised
    /// memory.
    #[test]
    fn steps_of_impossible_types_are_internal_errors() {
        let (mut floats, mut bytes) = ([7.0f32; 2], [7u8; 2]);
        let is_internal = |result: Result<()>| matches!(result, Err(Error::Internal { .. }));
        let sign = UnaryOp::Sign.entry();
        assert!(is_internal(unary(
            sign,
            Values::I32(&[1, 2]),
            ValuesMut::F32(&mut floats),
            DType::F32
        )));
        let not = UnaryOp::Not.entry();
        assert!(is_internal(unary(
            not,
            Values::F32(&[1.0, 2.0]),
            ValuesMut::F32(&mut floats),
            DType::F32
        )));
        let add = BinaryOp::Add.entry();
        let (x, y) = (Values::F32(&[1.0, 2.0]), Values::I64(&[1, 2]));
        assert!(is_internal(binary(add, x, y, ValuesMut::F32(&mut floats), DType::F32)));
        let equal = BinaryOp::Eq.entry();
        assert!(is_internal(binary(equal, x, y, ValuesMut::U8(&mut bytes), DType::Bool)));
        assert!(is_internal(select(&[1, 0], x, y, ValuesMut::F32(&mut floats))));
        assert!(is_internal(compute(
            Node::Leaf(0),
            DType::F32,
            &[],
            &[],
            2,
            ValuesMut::F32(&mut floats)
        )));
        assert!(is_internal(<f32 as Out>::take(Values::U8(&[1, 2]), &mut floats)));
        assert!(is_internal(Register::Empty.values(2).map(drop)));
    }
}
