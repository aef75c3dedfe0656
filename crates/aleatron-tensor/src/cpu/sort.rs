//! Sorting on the CPU.

use super::reduce::Load;
use super::{CpuView, filled, parallel};
use crate::cpu::elementwise::Leaf;
use crate::dtype::DType;
use crate::error::Result;
use crate::op::Reducer;
use crate::ops::Order;
use crate::storage::CpuStorage;

/// Returns the indices that sort rows of `n` elements; equal elements keep their order.
pub(crate) fn sorted_indices(view: &CpuView, n: usize, order: Order) -> Result<CpuStorage> {
    match Reducer::computed_in(view.storage.dtype()) {
        DType::I32 => rows::<i32, i32>(view, n, |x| x, order),
        DType::I64 => rows::<i64, i64>(view, n, |x| x, order),
        DType::F64 => rows::<f64, i64>(view, n, |x| super::reduce::double_key(x, |key| key), order),
        _ => rows::<f32, i32>(view, n, |x| super::reduce::float_key(x, |key| key), order),
    }
}

fn rows<T: Load, K: Ord + Copy + Send + Sync>(
    view: &CpuView,
    n: usize,
    key: impl Fn(T) -> K + Sync,
    order: Order,
) -> Result<CpuStorage> {
    let leaf = Leaf::only(view);
    filled(DType::I32, view.layout.len(), |buffer| {
        parallel::for_each_chunk(buffer.slice_mut::<i32>()?, n, 20.0, |start, out| {
            let mut scratch = Vec::new();
            let elements = T::load(&leaf, start, out.len(), &mut scratch)?;
            let mut pairs: Vec<(K, i32)> =
                elements.iter().zip(0..).map(|(&x, index)| (key(x), index)).collect();
            match order {
                Order::Ascending => pairs.sort_unstable(),
                Order::Descending => {
                    pairs.sort_unstable_by_key(|&(key, index)| (std::cmp::Reverse(key), index))
                }
            }
            for (out, (_, index)) in out.iter_mut().zip(pairs) {
                *out = index;
            }
            Ok(())
        })
    })
}
