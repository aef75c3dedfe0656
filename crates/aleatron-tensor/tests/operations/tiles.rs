//! Views and tiles, and reductions of tiles on every device.

use crate::common::{Draw, U, all_devices, devices};
use aleatron_tensor::tiles::{
    MaxOp, MemoryLayout, MinOp, PartitionView, ReduceOp, SumOp, TILE_SIZE, TensorView,
    tiled_max_2d, tiled_min_2d, tiled_reduce_2d, tiled_reduce_partial, tiled_sum_2d,
};
use aleatron_tensor::{DType, Device, Error, SUM_DEPTH, Tensor};

/// The largest magnitude.
struct MaxAbs;

impl ReduceOp for MaxAbs {
    const WGSL: Option<&'static str> = Some("max(abs(a), abs(b))");
    fn identity() -> f32 {
        0.0
    }
    fn combine(a: f32, b: f32) -> f32 {
        a.abs().max(b.abs())
    }
}

#[test]
fn tiled_reductions_of_every_shape_match_reference() {
    let mut draw = Draw::new(1);
    for device in all_devices() {
        for (rows, columns) in [(1, 1), (16, 16), (17, 33), (5, 100), (64, 48), (40, 300)] {
            let data = draw.floats(rows * columns, -9.0, 9.0);
            for (what, x) in crate::common::views(&data, &[rows, columns], &device) {
                let item = |t: Tensor| t.item::<f32>().unwrap();
                let wide: Vec<f64> = data.iter().map(|x| f64::from(*x)).collect();
                let size: f64 = wide.iter().map(|x| x.abs()).sum();
                let sum = f64::from(item(tiled_sum_2d(&x).unwrap()));
                let depth = SUM_DEPTH.min(rows * columns) as f64;
                assert!(
                    (sum - wide.iter().sum::<f64>()).abs() <= depth * U * size,
                    "{what} on {device}"
                );
                let fold =
                    |f: fn(f32, f32) -> f32, first: f32| data.iter().fold(first, |a, b| f(a, *b));
                assert_eq!(item(tiled_max_2d(&x).unwrap()), fold(f32::max, f32::NEG_INFINITY));
                assert_eq!(item(tiled_min_2d(&x).unwrap()), fold(f32::min, f32::INFINITY));
                assert_eq!(
                    item(tiled_reduce_2d::<MaxAbs>(&x).unwrap()),
                    fold(MaxAbs::combine, 0.0),
                    "{what} on {device}"
                );
                let partial = tiled_reduce_partial::<MaxAbs>(&x).unwrap();
                assert_eq!(
                    partial.shape(),
                    [rows.div_ceil(TILE_SIZE), columns.div_ceil(TILE_SIZE)]
                );
                let across = columns.div_ceil(TILE_SIZE);
                let mut want = vec![0f32; partial.len()];
                for (i, x) in data.iter().enumerate() {
                    let tile = i / columns / TILE_SIZE * across + i % columns / TILE_SIZE;
                    want[tile] = MaxAbs::combine(want[tile], *x);
                }
                assert_eq!(
                    partial.to_vec::<f32>().unwrap(),
                    want,
                    "{rows} x {columns} {what} on {device}"
                );
            }
        }
        let x = Tensor::full(&[3, 4], f32::NEG_INFINITY, DType::F32, &device).unwrap();
        assert_eq!(tiled_max_2d(&x).unwrap().item::<f32>().unwrap(), f32::NEG_INFINITY);
        let none = Tensor::zeros(&[0, 4], DType::F32, &device).unwrap();
        assert_eq!(tiled_reduce_2d::<SumOp>(&none).unwrap().item::<f32>().unwrap(), 0.0);
        assert_eq!(tiled_reduce_2d::<MinOp>(&none).unwrap().item::<f32>().unwrap(), f32::INFINITY);
        assert_eq!(tiled_reduce_partial::<MaxOp>(&none).unwrap().shape(), [0, 1]);
        assert!(matches!(tiled_sum_2d(&x.reshape(&[12]).unwrap()), Err(Error::Rank { .. })));
    }
}

#[test]
fn invalid_shader_expression_is_an_error() {
    struct Wrong;
    impl ReduceOp for Wrong {
        const WGSL: Option<&'static str> = Some("this is not an expression");
        fn identity() -> f32 {
            0.0
        }
        fn combine(a: f32, _: f32) -> f32 {
            a
        }
    }
    let x = Tensor::ones(&[4, 4], DType::F32, &crate::common::gpu()).unwrap();
    assert!(matches!(tiled_reduce_2d::<Wrong>(&x), Err(Error::Device(_))));
    assert_eq!(tiled_sum_2d(&x).unwrap().item::<f32>().unwrap(), 16.0);
}

#[test]
fn tensor_views_select_the_described_elements() {
    for device in devices() {
        let x = Tensor::arange(0, 24, 1, DType::F32, &device).unwrap();
        let view = TensorView::<f32>::new_2d(4, 6).unwrap();
        assert_eq!((view.ndim(), view.numel(), view.strides()), (2, 24, [24, 24, 6, 1]));
        let part = view.slice_dim(2, 1..3).unwrap().slice_dim(3, 2..5).unwrap();
        assert_eq!((part.offset(), part.is_contiguous()), (8, false));
        let floats = |t: Tensor| t.to_vec::<f32>().unwrap();
        assert_eq!(floats(part.apply(&x).unwrap()), [8.0, 9.0, 10.0, 14.0, 15.0, 16.0]);
        assert_eq!(
            floats(part.transpose(2, 3).unwrap().apply(&x).unwrap()),
            [8.0, 14.0, 9.0, 15.0, 10.0, 16.0]
        );
        // A reshape keeps the offset of the first element.
        let tail = view.slice_dim(2, 2..4).unwrap();
        let flat = tail.reshape([1, 1, 1, 12]).unwrap().unwrap();
        assert_eq!((flat.offset(), floats(flat.apply(&x).unwrap())[0]), (12, 12.0));
        assert!(part.reshape([1, 1, 1, 6]).unwrap().is_none());
        assert_eq!(view.linear_index([0, 0, 3, 5]), Some(23));
        assert_eq!(view.linear_index([0, 0, 4, 0]), None);
        // An axis of size 1 does not affect contiguity.
        assert!(view.slice_dim(2, 1..2).unwrap().is_contiguous());
        let own = TensorView::<f32>::of(&x.reshape(&[4, 6]).unwrap()).unwrap();
        assert_eq!((own.shape(), own.offset(), own.is_contiguous()), (view.shape(), 0, true));
        assert!(matches!(TensorView::<i32>::of(&x), Err(Error::ReadAs { .. })));
        let beyond = TensorView::<f32>::new_2d(5, 6).unwrap();
        assert!(matches!(beyond.apply(&x), Err(Error::Argument { .. })));
        for memory in [
            MemoryLayout::RowMajor,
            MemoryLayout::ColumnMajor,
            MemoryLayout::Tiled { tile_size: [2, 3] },
        ] {
            let own = view.with_layout(memory).unwrap();
            let matrix = x.reshape(&[4, 6]).unwrap();
            let packed = own.pack(&matrix).unwrap();
            let values = floats(packed.clone());
            for (i, x) in floats(matrix.clone()).iter().enumerate() {
                assert_eq!(
                    values[own.linear_index([0, 0, i / 6, i % 6]).unwrap()],
                    *x,
                    "{memory:?}"
                );
            }
            assert_eq!(
                floats(own.apply(&packed).unwrap()),
                floats(matrix),
                "{memory:?} on {device}"
            );
        }
    }
    let view = TensorView::<f32>::new_2d(4, 6).unwrap();
    #[allow(clippy::reversed_empty_ranges)]
    let reversed = view.slice_dim(2, 3..1);
    assert!(matches!(reversed, Err(Error::Range { start: 3, end: 1, .. })));
    assert!(view.with_layout(MemoryLayout::Tiled { tile_size: [3, 3] }).is_err());
    assert!(view.with_layout(MemoryLayout::Tiled { tile_size: [0, 3] }).is_err());
    assert!(TensorView::<f32>::new([usize::MAX, 2, 1, 1]).is_err());
}

#[test]
fn partitions_cover_every_element_once() {
    let partition = PartitionView::new_2d(TensorView::<f32>::new_2d(5, 7).unwrap(), 2, 3).unwrap();
    assert_eq!((partition.tile_count(), partition.total_tiles()), ([1, 1, 3, 3], 9));
    let mut tiles = partition.iter_tiles();
    assert_eq!(tiles.len(), 9);
    tiles.next().unwrap();
    assert_eq!(tiles.len(), 8);
    let x = Tensor::arange(0, 35, 1, DType::F32, &Device::Cpu).unwrap();
    let mut seen = vec![0; 35];
    for tile in partition.iter_tiles() {
        assert_eq!(tile.is_edge, tile.tile_idx[2] == 2 || tile.tile_idx[3] == 2);
        for value in partition.tile_of(&x, tile.tile_idx).unwrap().to_vec::<f32>().unwrap() {
            seen[value as usize] += 1;
        }
    }
    assert_eq!(seen, [1; 35]);
    assert!(partition.get_tile([0, 0, 3, 0]).is_none());
    assert_eq!(partition.recommended_workgroup_size(), (3, 2, 1));
    assert!(PartitionView::new_2d(TensorView::<f32>::new_2d(5, 7).unwrap(), 0, 3).is_err());
    assert!(!partition.is_power_of_two_tiles());
}
