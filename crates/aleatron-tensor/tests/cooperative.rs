//! Products by the matrix units of a GPU: right where the adapter has them, refused where it has not.

mod common;

use aleatron_tensor::{CooperativeTile, DType, Device, Error, MatmulPlan, Tensor};
use common::{Draw, U, gpu};
use half::f16;

fn has_matrix_units(device: &Device) -> bool {
    let Device::Gpu(device) = device else { return false };
    !device.info().cooperative_matrices.is_empty()
}

fn halves(draw: &mut Draw, n: usize) -> Vec<f16> {
    draw.floats(n, -1.0, 1.0).into_iter().map(f16::from_f32).collect()
}

/// Products of 16-bit floats are exact in 32 bits. Matrix units may cut sums off instead of rounding them, and line up the products of a
/// square by the largest of them: up to four units instead of one for each addition. The result is rounded to 16 bits.
#[track_caller]
fn check(what: &str, got: &Tensor, a: &[f16], b: &[f16], [m, k, n]: [usize; 3]) {
    let got = got.to_vec::<f16>().unwrap();
    assert_eq!(got.len(), m * n);
    for i in 0..m {
        for j in 0..n {
            let products = (0..k).map(|l| a[i * k + l].to_f64() * b[l * n + j].to_f64());
            let (sum, absolute) = products.fold((0.0, 0.0), |(sum, all), x| (sum + x, all + x.abs()));
            let bound = 4.0 * (k as f64 + 1.0) * U * absolute;
            let bound = bound + (sum.abs() + bound) / 2048.0 + f64::powi(2.0, -25);
            let got = got[i * n + j].to_f64();
            assert!((got - sum).abs() <= bound, "{what}: ({i}, {j}) is {got}, want {sum} within {bound:e}");
        }
    }
}

#[test]
fn every_tile_is_right_where_there_are_matrix_units() {
    let mut draw = Draw::new(81);
    let device = gpu();
    for tile in CooperativeTile::ALL {
        let plan = MatmulPlan::Cooperative(tile);
        let (rows, columns) = (tile.rows as usize, tile.columns as usize);
        for [m, k, n] in [[rows, 64, columns], [rows + 3, 75, columns + 4], [1, 30, 8], [40, 129, 36]] {
            let (a, b) = (halves(&mut draw, m * k), halves(&mut draw, k * n));
            let left = Tensor::from_slice(&a, &[m, k], &device).unwrap();
            let right = Tensor::from_slice(&b, &[k, n], &device).unwrap();
            let got = left.matmul_as(&right, plan);
            if !has_matrix_units(&device) {
                let error = got.unwrap_err();
                assert!(matches!(error, Error::Unsupported { .. }), "{error}");
                continue;
            }
            check(&format!("{m}x{k}x{n} by {tile:?}"), &got.unwrap(), &a, &b, [m, k, n]);
            let columns = right.t().unwrap().contiguous().unwrap().t().unwrap();
            check("right by columns", &left.matmul_as(&columns, plan).unwrap(), &a, &b, [m, k, n]);
            let rows = left.t().unwrap().contiguous().unwrap().t().unwrap();
            check("left by columns", &rows.matmul_as(&right, plan).unwrap(), &a, &b, [m, k, n]);
            let turned = left.flip(0).unwrap().contiguous().unwrap().flip(0).unwrap();
            check("left flipped", &turned.matmul_as(&right, plan).unwrap(), &a, &b, [m, k, n]);
        }
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
fn other_operands_than_halves_are_refused() {
    let device = gpu();
    let plan = MatmulPlan::Cooperative(CooperativeTile::LARGE);
    let floats = Tensor::ones(&[16, 16], DType::F32, &device).unwrap();
    assert!(matches!(floats.matmul_as(&floats, plan), Err(Error::Unsupported { .. })));
    // Columns that are no whole vectors.
    let left = Tensor::ones(&[16, 16], DType::F16, &device).unwrap();
    let right = Tensor::ones(&[16, 3], DType::F16, &device).unwrap();
    assert!(matches!(left.matmul_as(&right, plan), Err(Error::Unsupported { .. })));
    assert_eq!(left.matmul(&right).unwrap().to_vec::<f16>().unwrap(), [f16::from_f32(16.0); 48]);
}
