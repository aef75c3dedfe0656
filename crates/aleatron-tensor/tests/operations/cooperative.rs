//! Products by the matrix units of a GPU: exact within bounds if the adapter has them, otherwise
//! errors.

use crate::common::{Draw, U, gpu};
use aleatron_tensor::{CooperativeTile, DType, Device, Error, MatmulPlan, Tensor};
use half::f16;

fn has_matrix_units(device: &Device) -> bool {
    let Device::Gpu(device) = device else { return false };
    !device.info().cooperative_matrices.is_empty()
}

fn halves(draw: &mut Draw, n: usize) -> Vec<f16> {
    draw.floats(n, -1.0, 1.0).into_iter().map(f16::from_f32).collect()
}

/// Products of 16-bit floats are exact in 32 bits. Matrix units may cut sums off instead of
/// rounding them, and line up the products of a square by the largest of them: up to four units
/// instead of one for each addition. The result is rounded to 16 bits.
#[track_caller]
fn check(what: &str, got: &Tensor, a: &[f16], b: &[f16], [m, k, n]: [usize; 3]) {
    let got = got.to_vec::<f16>().unwrap();
    assert_eq!(got.len(), m * n);
    let [a, b] = [a, b].map(|x| x.iter().map(|x| x.to_f64()).collect::<Vec<f64>>());
    for i in 0..m {
        for j in 0..n {
            let products = (0..k).map(|l| a[i * k + l] * b[l * n + j]);
            let (sum, absolute) =
                products.fold((0.0, 0.0), |(sum, all), x| (sum + x, all + x.abs()));
            let bound = 4.0 * (k as f64 + 1.0) * U * absolute;
            let bound = bound + (sum.abs() + bound) / 2048.0 + f64::powi(2.0, -25);
            let got = got[i * n + j].to_f64();
            assert!(
                (got - sum).abs() <= bound,
                "{what}: ({i}, {j}) is {got}, want {sum} within {bound:e}"
            );
        }
    }
}

/// The views that are tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Views {
    InOrder,
    All,
}

/// Checks a product of random matrices by a tile; each kind of view is a separate kernel, so few
/// tiles are tested with all of them.
fn try_tile(
    draw: &mut Draw,
    device: &Device,
    tile: CooperativeTile,
    [m, k, n]: [usize; 3],
    views: Views,
) {
    let plan = MatmulPlan::Cooperative(tile);
    let (a, b) = (halves(draw, m * k), halves(draw, k * n));
    let left = Tensor::from_slice(&a, &[m, k], device).unwrap();
    let right = Tensor::from_slice(&b, &[k, n], device).unwrap();
    let got = left.matmul_as(&right, plan);
    if !has_matrix_units(device) {
        let error = got.unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        return;
    }
    let what = format!("{m}x{k}x{n} by {tile:?}");
    check(&what, &got.unwrap(), &a, &b, [m, k, n]);
    if views == Views::All {
        let by_columns = |x: &Tensor| x.t().unwrap().contiguous().unwrap().t().unwrap();
        let got = left.matmul_as(&by_columns(&right), plan).unwrap();
        check(&format!("right by columns, {what}"), &got, &a, &b, [m, k, n]);
        let got = by_columns(&left).matmul_as(&right, plan).unwrap();
        check(&format!("left by columns, {what}"), &got, &a, &b, [m, k, n]);
    }
}

#[test]
fn every_tile_of_matrix_units_matches_reference() {
    let (mut draw, device) = (Draw::new(81), gpu());
    for tile in CooperativeTile::ALL {
        let (rows, columns) = (tile.rows as usize, tile.columns as usize);
        try_tile(
            &mut draw,
            &device,
            tile,
            [rows, 2 * tile.depth as usize, columns],
            Views::InOrder,
        );
        try_tile(&mut draw, &device, tile, [rows + 3, 76, columns + 4], Views::InOrder);
    }
}

/// Rows of whole vectors, and rows that are not: their elements are loaded one by one.
#[test]
fn views_through_matrix_units_match_reference() {
    let (mut draw, device) = (Draw::new(83), gpu());
    for tile in [CooperativeTile::LARGE, CooperativeTile::SMALL] {
        try_tile(&mut draw, &device, tile, [44, 132, 36], Views::All);
        try_tile(&mut draw, &device, tile, [41, 75, 36], Views::All);
    }
}

/// An element depends on its row and its column alone.
#[test]
fn every_tile_and_any_number_of_rows_has_the_same_bits() {
    let mut draw = Draw::new(82);
    let device = gpu();
    let (m, k, n) = (200, 300, 136);
    let left = Tensor::from_slice(&halves(&mut draw, m * k), &[m, k], &device).unwrap();
    let right = Tensor::from_slice(&halves(&mut draw, k * n), &[k, n], &device).unwrap();
    let want = left.matmul(&right).unwrap().to_vec::<f16>().unwrap();
    for rows in [1, 2, 17, 64] {
        let some = left.slice(0, 0..rows).unwrap().matmul(&right).unwrap().to_vec::<f16>().unwrap();
        assert_eq!(some, want[..rows * n], "{rows} rows");
    }
    for tile in CooperativeTile::ALL {
        let got = left.matmul_as(&right, MatmulPlan::Cooperative(tile));
        assert_eq!(got.is_ok(), has_matrix_units(&device), "{tile:?}");
        if let Ok(got) = got {
            assert_eq!(got.to_vec::<f16>().unwrap(), want, "{tile:?}");
        }
    }
}

#[test]
fn matrix_units_accept_halves_only() {
    let device = gpu();
    let plan = MatmulPlan::Cooperative(CooperativeTile::LARGE);
    let floats = Tensor::ones(&[16, 16], DType::F32, &device).unwrap();
    assert!(matches!(floats.matmul_as(&floats, plan), Err(Error::Unsupported { .. })));
    let halves = floats.cast(DType::F16).unwrap();
    for tile in [
        CooperativeTile::new([0, 0, 0], [0, 0], 0),
        CooperativeTile::new([128, 128, 32], [48, 32], 1),
        CooperativeTile::new([128, 128, 40], [64, 32], 1),
        CooperativeTile::new([128, 128, 32], [64, 32], 3),
        CooperativeTile::new([256, 256, 256], [64, 64], 2),
    ] {
        let got = halves.matmul_as(&halves, MatmulPlan::Cooperative(tile));
        assert!(matches!(got, Err(Error::Unsupported { .. })), "{tile:?}");
    }
    // Columns that are not whole vectors.
    let left = Tensor::ones(&[16, 16], DType::F16, &device).unwrap();
    let right = Tensor::ones(&[16, 3], DType::F16, &device).unwrap();
    assert!(matches!(left.matmul_as(&right, plan), Err(Error::Unsupported { .. })));
    assert_eq!(left.matmul(&right).unwrap().to_vec::<f16>().unwrap(), [f16::from_f32(16.0); 48]);
}
