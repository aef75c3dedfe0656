//! Assembly of tensors from boxes of others, on the CPU.

use bytemuck::Pod;

use super::{CpuView, filled};
use crate::dtype::{Constant, DType};
use crate::error::Result;
use crate::layout::{Layout, collapse};
use crate::storage::CpuStorage;

/// Assembles a tensor of a shape from views, each at a position, and a constant everywhere else.
pub(crate) fn assemble(
    boxes: &[(CpuView, Vec<usize>)],
    shape: &[usize],
    fill: Constant,
) -> Result<CpuStorage> {
    let layout = Layout::contiguous(shape)?;
    let covered: usize = boxes.iter().map(|(view, _)| view.layout.len()).sum();
    filled(fill.dtype(), layout.len(), |buffer| {
        // Boxes do not overlap.
        let has_gaps = covered < layout.len();
        match fill.dtype() {
            DType::F64 => write_boxes::<u64>(
                boxes,
                &layout,
                has_gaps.then(|| fill.as_f64().to_bits()),
                buffer.slice_mut()?,
            ),
            DType::F32 => write_boxes::<u32>(
                boxes,
                &layout,
                has_gaps.then(|| fill.as_f32().to_bits()),
                buffer.slice_mut()?,
            ),
            DType::F16 => {
                let bits = half::f16::from_f32(fill.as_f32()).to_bits();
                write_boxes::<u16>(boxes, &layout, has_gaps.then_some(bits), buffer.slice_mut()?)
            }
            DType::I32 => write_boxes::<u32>(
                boxes,
                &layout,
                has_gaps.then(|| fill.as_i64() as u32),
                buffer.slice_mut()?,
            ),
            DType::I64 => write_boxes::<u64>(
                boxes,
                &layout,
                has_gaps.then(|| fill.as_i64() as u64),
                buffer.slice_mut()?,
            ),
            DType::U8 | DType::Bool => write_boxes::<u8>(
                boxes,
                &layout,
                has_gaps.then(|| fill.as_i64() as u8),
                buffer.slice_mut()?,
            ),
        }
    })
}

fn write_boxes<T: Pod>(
    boxes: &[(CpuView, Vec<usize>)],
    layout: &Layout,
    fill: Option<T>,
    out: &mut [T],
) -> Result<()> {
    if let Some(fill) = fill {
        out.fill(fill);
    }
    for (view, starts) in boxes {
        if view.layout.is_empty() {
            continue;
        }
        let mut target = layout.clone();
        for (axis, (&start, &size)) in starts.iter().zip(view.layout.shape()).enumerate() {
            target = target.slice(axis, start, start + size, 1)?;
        }
        copy(view.storage.slice()?, &view.layout, out, &target);
    }
    Ok(())
}

/// Copies the elements of one layout to those of another of the same shape.
fn copy<T: Pod>(from: &[T], from_layout: &Layout, to: &mut [T], to_layout: &Layout) {
    let (dims, [from_strides, to_strides]) = collapse([from_layout, to_layout]);
    let inner = dims.len() - 1;
    let run = dims[inner];
    let mut at = vec![0usize; dims.len()];
    let (mut source, mut target) = (from_layout.offset() as isize, to_layout.offset() as isize);
    loop {
        if from_strides[inner] == 1 && to_strides[inner] == 1 {
            to[target as usize..][..run].copy_from_slice(&from[source as usize..][..run]);
        } else {
            for i in 0..run as isize {
                to[(target + i * to_strides[inner]) as usize] =
                    from[(source + i * from_strides[inner]) as usize];
            }
        }
        let mut axis = inner;
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            at[axis] += 1;
            source += from_strides[axis];
            target += to_strides[axis];
            if at[axis] < dims[axis] {
                break;
            }
            source -= at[axis] as isize * from_strides[axis];
            target -= at[axis] as isize * to_strides[axis];
            at[axis] = 0;
        }
    }
}
