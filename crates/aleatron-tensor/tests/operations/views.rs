//! Views share their storage, and views of views match a reference model.

use crate::common::{Draw, devices};
use aleatron_tensor::{DType, Device, Error, Slice, Tensor};

/// A tensor as plain lists, the reference of views.
#[derive(Clone)]
struct Model {
    shape: Vec<usize>,
    data: Vec<i32>,
}

impl Model {
    fn pick(&self, shape: Vec<usize>, source: impl Fn(&[usize]) -> Vec<usize>) -> Self {
        let n = shape.iter().product();
        let data = (0..n)
            .map(|i| {
                let (mut left, mut at) = (i, vec![0; shape.len()]);
                for axis in (0..shape.len()).rev() {
                    at[axis] = left % shape[axis];
                    left /= shape[axis];
                }
                let offset = source(&at)
                    .iter()
                    .zip(&self.shape)
                    .fold(0, |offset, (at, size)| offset * size + at);
                self.data[offset]
            })
            .collect();
        Self { shape, data }
    }
}

#[test]
fn random_views_of_views_match_reference() {
    let mut draw = Draw::new(1);
    for device in devices() {
        for _ in 0..60 {
            let shape: Vec<usize> = (0..1 + draw.below(4)).map(|_| 1 + draw.below(5)).collect();
            let n: usize = shape.iter().product();
            let data: Vec<i32> = (0..n as i32).collect();
            let mut x = Tensor::from_slice(&data, &shape, &device).unwrap();
            let mut model = Model { shape, data };
            let storage = x.storage().clone();
            for _ in 0..6 {
                let rank = model.shape.len();
                if rank == 0 {
                    break;
                }
                let axis = draw.below(rank);
                match draw.below(6) {
                    0 => {
                        let size = model.shape[axis];
                        let start = draw.below(size);
                        let (end, step) = (start + 1 + draw.below(size - start), 1 + draw.below(3));
                        x = x.slice(axis as isize, Slice::from(start..end).step(step)).unwrap();
                        let mut shape = model.shape.clone();
                        shape[axis] = (end - start).div_ceil(step);
                        model = model.pick(shape, |at| {
                            let mut at = at.to_vec();
                            at[axis] = start + at[axis] * step;
                            at
                        });
                    }
                    1 => {
                        let other = draw.below(rank);
                        x = x.transpose(axis as isize, other as isize).unwrap();
                        let mut shape = model.shape.clone();
                        shape.swap(axis, other);
                        model = model.pick(shape, |at| {
                            let mut at = at.to_vec();
                            at.swap(axis, other);
                            at
                        });
                    }
                    2 => {
                        x = x.flip(axis as isize).unwrap();
                        let last = model.shape[axis] - 1;
                        model = model.pick(model.shape.clone(), |at| {
                            let mut at = at.to_vec();
                            at[axis] = last - at[axis];
                            at
                        });
                    }
                    3 => {
                        x = x.unsqueeze(axis as isize).unwrap();
                        let mut shape = model.shape.clone();
                        shape.insert(axis, 3);
                        x = x.broadcast_to(&shape).unwrap();
                        model = model.pick(shape, |at| {
                            let mut at = at.to_vec();
                            at.remove(axis);
                            at
                        });
                    }
                    4 => {
                        let index = draw.below(model.shape[axis]);
                        x = x.select(axis as isize, index).unwrap();
                        let mut shape = model.shape.clone();
                        shape.remove(axis);
                        model = model.pick(shape, |at| {
                            let mut at = at.to_vec();
                            at.insert(axis, index);
                            at
                        });
                    }
                    _ => {
                        assert!(x.storage().is_same(&storage), "a view has copied");
                        let flat = x.reshape(&[model.data.len()]).unwrap();
                        assert_eq!(flat.to_vec::<i32>().unwrap(), model.data);
                        if let Ok(view) = x.view(&[model.data.len()]) {
                            assert!(view.storage().is_same(&storage));
                        }
                    }
                }
                assert_eq!(x.shape(), model.shape);
                assert!(x.storage().is_same(&storage));
            }
            assert_eq!(x.to_vec::<i32>().unwrap(), model.data, "{:?} on {device}", x.layout());
            assert_eq!(
                x.add(1).unwrap().to_vec::<i32>().unwrap(),
                model.data.iter().map(|x| x + 1).collect::<Vec<_>>()
            );
        }
    }
}

#[test]
fn reshape_of_a_slice_keeps_its_offset() {
    for device in devices() {
        let x = Tensor::arange(0, 24, 1, DType::I32, &device).unwrap().reshape(&[4, 6]).unwrap();
        let tail = x.slice(0, 2..4).unwrap().view(&[3, 4]).unwrap();
        assert_eq!(tail.layout().offset(), 12);
        assert_eq!(tail.to_vec::<i32>().unwrap(), (12..24).collect::<Vec<_>>());
        let column = x.slice(1, 2..4).unwrap();
        assert!(matches!(column.view(&[8]), Err(Error::Reshape { .. })));
        assert_eq!(
            column.reshape(&[8]).unwrap().to_vec::<i32>().unwrap(),
            [2, 3, 8, 9, 14, 15, 20, 21]
        );
        assert_eq!(x.flatten(0, -1).unwrap().shape(), [24]);
    }
}

#[test]
fn wrong_views_are_errors() {
    let x = Tensor::zeros(&[2, 3], DType::F32, &Device::Cpu).unwrap();
    assert!(matches!(x.slice(0, 1..3), Err(Error::Range { start: 1, end: 3, len: 2, .. })));
    #[allow(clippy::reversed_empty_ranges)]
    let reversed = x.slice(1, 2..1);
    assert!(matches!(reversed, Err(Error::Range { .. })));
    assert!(matches!(x.slice(2, ..), Err(Error::Axis { axis: 2, rank: 2, .. })));
    assert!(matches!(x.slice(0, Slice::from(..).step(0)), Err(Error::Argument { .. })));
    assert!(matches!(x.permute(&[0, 0]), Err(Error::RepeatedAxis { .. })));
    assert!(matches!(x.permute(&[0]), Err(Error::Argument { .. })));
    assert!(matches!(x.squeeze(0), Err(Error::Argument { .. })));
    assert!(matches!(x.reshape(&[7]), Err(Error::Reshape { .. })));
    assert!(matches!(x.reshape(&[usize::MAX, 2]), Err(Error::TooLarge { .. })));
    assert!(matches!(x.broadcast_to(&[4, 3]), Err(Error::Shapes { .. })));
    assert!(matches!(x.broadcast_to(&[3]), Err(Error::Shapes { .. })));
    assert!(matches!(
        Tensor::from_slice(&[1.0f32; 5], &[2, 3], &Device::Cpu),
        Err(Error::Elements { actual: 5, .. })
    ));
    assert!(matches!(x.to_vec::<i32>(), Err(Error::ReadAs { .. })));
}
