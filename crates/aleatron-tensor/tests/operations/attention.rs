//! Attention against sums in 64 bits, on every device.

use crate::common::{Draw, U, all_devices, assert_within, devices, views};
use aleatron_tensor::{AttentionOptions, Causality, DType, Device, Error, Tensor};
use half::f16;

/// Returns the attention of one matrix of queries in 64 bits. `seen` returns the term added to a
/// score, or `None` for a masked key.
fn exact(
    [q, k, v]: [&[f32]; 3],
    [queries, keys, length, values]: [usize; 4],
    scale: f64,
    seen: impl Fn(usize, usize) -> Option<f64>,
) -> Vec<f64> {
    let mut out = vec![0.0; queries * values];
    for i in 0..queries {
        let score = |j: usize| {
            let dot: f64 = (0..length)
                .map(|e| f64::from(q[i * length + e]) * f64::from(k[j * length + e]))
                .sum();
            seen(i, j).map_or(f64::NEG_INFINITY, |added| scale * dot + added)
        };
        let scores: Vec<f64> = (0..keys).map(score).collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if most == f64::NEG_INFINITY {
            continue;
        }
        let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
        let sum: f64 = weights.iter().sum();
        for c in 0..values {
            out[i * values + c] =
                (0..keys).map(|j| weights[j] / sum * f64::from(v[j * values + c])).sum();
        }
    }
    out
}

/// With elements of at most 1: a score of `length` products has an error of gamma(length) length
/// scale, and the difference of two of them, with a mask, goes into an exponential of 4 units; sums
/// of weights and of values have gamma(keys), twice, and each block of keys scales them once more.
fn bound([_, keys, length, _]: [usize; 4], scale: f64, mask: f64) -> f64 {
    let scores = 2.0 * (length as f64 + 2.0) * U * (length as f64 * scale + mask);
    let blocks = keys.div_ceil(32) as f64;
    2.0 * (scores + 4.0 * U) + 2.0 * (keys as f64 + 8.0 * blocks + 8.0) * U
}

#[test]
fn attention_of_every_size_matches_reference() {
    let mut draw = Draw::new(51);
    for device in devices() {
        for sizes in [
            [1, 1, 1, 1],
            [3, 5, 4, 2],
            [33, 40, 16, 70],
            [65, 31, 40, 64],
            [2, 300, 8, 130],
            [40, 2100, 4, 3],
        ] {
            let [queries, keys, length, values] = sizes;
            let q = draw.floats(queries * length, -1.0, 1.0);
            let k = draw.floats(keys * length, -1.0, 1.0);
            let v = draw.floats(keys * values, -1.0, 1.0);
            let mask = draw.floats(queries * keys, -2.0, 2.0);
            let of =
                |data: &[f32], shape: &[usize]| Tensor::from_slice(data, shape, &device).unwrap();
            let (tq, tk, tv) =
                (of(&q, &[queries, length]), of(&k, &[keys, length]), of(&v, &[keys, values]));
            let added = of(&mask, &[queries, keys]);
            let scale = 1.0 / (length as f64).sqrt();
            for causality in [Causality::None, Causality::FromFirst, Causality::FromLast] {
                for masked in [false, true] {
                    let past = match causality {
                        Causality::None => keys as isize,
                        Causality::FromFirst => 0,
                        Causality::FromLast => keys as isize - queries as isize,
                    };
                    let want = exact([&q, &k, &v], sizes, scale, |i, j| {
                        let is_seen = j as isize <= i as isize + past;
                        is_seen.then(|| if masked { f64::from(mask[i * keys + j]) } else { 0.0 })
                    });
                    let mask = masked.then_some(&added);
                    let options = AttentionOptions { mask, causality, scale: None };
                    let got = tq.attention(&tk, &tv, &options).unwrap();
                    assert_eq!(got.shape(), [queries, values]);
                    let what = format!("{sizes:?} {causality:?} masked {masked} on {device}");
                    let limit = bound(sizes, scale, 2.0);
                    assert_within(&what, &got.to_vec::<f32>().unwrap(), &want, |_| limit);
                }
            }
        }
    }
}

#[test]
fn heads_share_keys_and_views_need_no_copies() {
    let mut draw = Draw::new(52);
    let (batch, heads, shared, queries, keys, length) = (2, 4, 2, 5, 7, 8);
    let q = draw.floats(batch * heads * queries * length, -1.0, 1.0);
    let k = draw.floats(batch * shared * keys * length, -1.0, 1.0);
    let v = draw.floats(batch * shared * keys * length, -1.0, 1.0);
    for device in all_devices() {
        for (kind, key) in views(&k, &[batch, shared, 1, keys, length], &device) {
            let query =
                Tensor::from_slice(&q, &[batch, shared, heads / shared, queries, length], &device)
                    .unwrap();
            let value = Tensor::from_slice(&v, &[batch, shared, 1, keys, length], &device).unwrap();
            let got = query.attention(&key, &value, &AttentionOptions::default()).unwrap();
            assert_eq!(got.shape(), [batch, shared, heads / shared, queries, length]);
            let got = got.to_vec::<f32>().unwrap();
            let sizes = [queries, keys, length, length];
            for head in 0..batch * heads {
                let own = head / (heads / shared);
                let parts = [
                    &q[head * queries * length..][..queries * length],
                    &k[own * keys * length..][..keys * length],
                    &v[own * keys * length..][..keys * length],
                ];
                let scale = 1.0 / (length as f64).sqrt();
                let want = exact(parts, sizes, scale, |_, _| Some(0.0));
                let got = &got[head * queries * length..][..queries * length];
                assert_within(&format!("{kind} head {head} on {device}"), got, &want, |_| {
                    bound(sizes, scale, 0.0)
                });
            }
        }
    }
}

#[test]
fn masked_keys_are_ignored_and_queries_without_keys_are_zero() {
    for device in devices() {
        let of = |data: &[f32], shape: &[usize]| Tensor::from_slice(data, shape, &device).unwrap();
        let (q, k) = (of(&[0.0; 6], &[3, 2]), of(&[0.5; 8], &[4, 2]));
        let v = of(&[1.0, 2.0, 4.0, 8.0], &[4, 1]);
        let seen =
            [true, true, false, false, false, false, false, true, false, false, false, false];
        let mask = Tensor::from_slice(&seen, &[3, 4], &device).unwrap();
        let options = AttentionOptions { mask: Some(&mask), ..AttentionOptions::default() };
        let got = q.attention(&k, &v, &options).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(got, [1.5, 8.0, 0.0], "{device}");
        let added: Vec<f32> =
            seen.iter().map(|&seen| if seen { 0.0 } else { f32::NEG_INFINITY }).collect();
        let mask = of(&added, &[3, 4]);
        let options = AttentionOptions { mask: Some(&mask), ..AttentionOptions::default() };
        assert_eq!(
            q.attention(&k, &v, &options).unwrap().to_vec::<f32>().unwrap(),
            got,
            "{device}"
        );
        // Large scores do not overflow.
        let large = of(&[100.0, 0.0, 0.0, 100.0], &[2, 2]);
        let options = AttentionOptions { scale: Some(10.0), ..AttentionOptions::default() };
        let got = large.attention(&large, &of(&[1.0, 2.0], &[2, 1]), &options).unwrap();
        assert_eq!(got.to_vec::<f32>().unwrap(), [1.0, 2.0], "{device}");
    }
}

#[test]
fn halves_are_accumulated_in_32_bits() {
    let mut draw = Draw::new(53);
    for device in devices() {
        let sizes = [9, 50, 16, 12];
        let [queries, keys, length, values] = sizes;
        let mut random = |n: usize| -> Vec<f32> {
            draw.floats(n, -1.0, 1.0).into_iter().map(|x| f16::from_f32(x).to_f32()).collect()
        };
        let (q, k, v) = (random(queries * length), random(keys * length), random(keys * values));
        let of = |data: &[f32], shape: &[usize]| {
            Tensor::from_slice(data, shape, &device).unwrap().cast(DType::F16).unwrap()
        };
        let (tq, tk, tv) =
            (of(&q, &[queries, length]), of(&k, &[keys, length]), of(&v, &[keys, values]));
        let got = tq.attention(&tk, &tv, &AttentionOptions::default()).unwrap();
        assert_eq!(got.dtype(), DType::F16);
        let got: Vec<f32> = got.to_vec::<f16>().unwrap().into_iter().map(f16::to_f32).collect();
        let want = exact([&q, &k, &v], sizes, 0.25, |_, _| Some(0.0));
        assert_within("halves", &got, &want, |i| {
            bound(sizes, 0.25, 0.0) + (want[i].abs() + 1e-4) / 2048.0
        });
    }
}

#[test]
fn invalid_attention_is_an_error_and_empty_attention_is_empty() {
    for device in devices() {
        let of = |shape: &[usize]| Tensor::ones(shape, DType::F32, &device).unwrap();
        let plain = AttentionOptions::default();
        let q = of(&[3, 4]);
        assert!(matches!(
            q.attention(&of(&[2, 5]), &of(&[2, 4]), &plain),
            Err(Error::Shapes { .. })
        ));
        assert!(matches!(
            q.attention(&of(&[2, 4]), &of(&[3, 4]), &plain),
            Err(Error::Shapes { .. })
        ));
        assert!(matches!(q.attention(&of(&[4]), &of(&[2, 4]), &plain), Err(Error::Rank { .. })));
        let mask = of(&[2, 2]);
        let masked = AttentionOptions { mask: Some(&mask), ..plain };
        assert!(matches!(
            q.attention(&of(&[2, 4]), &of(&[2, 4]), &masked),
            Err(Error::Shapes { .. })
        ));
        let integers = q.cast(DType::I32).unwrap();
        assert!(matches!(integers.attention(&q, &q, &plain), Err(Error::DType { .. })));
        assert_eq!(
            of(&[0, 4]).attention(&of(&[2, 4]), &of(&[2, 4]), &plain).unwrap().shape(),
            [0, 4]
        );
        let none = q.attention(&of(&[0, 4]), &of(&[0, 2]), &plain).unwrap();
        assert_eq!(none.to_vec::<f32>().unwrap(), [0.0; 6]);
        let long = q.attention(&q, &of(&[3, 513]), &plain);
        assert_eq!(long.is_err(), device != Device::Cpu);
    }
}
