//! Graphs whose samples are independent.

use super::*;

/// Builds a graph over samples of a shape and checks that its samples are independent.
fn check(what: &str, sample: &[usize], build: impl Fn(&mut Build) -> ValueId) {
    let mut made = Build::new(sample, None);
    let output = build(&mut made);
    assert_independent(&made.done(output), what);
}

#[test]
fn products_with_constants_keep_samples_apart() {
    check("matmul", &[4], |b| {
        let w = b.floats(&[4, 3]);
        b.node(Op::MatMul, &[b.x, w])
    });
    check("matmul of rows", &[5, 4], |b| {
        let w = b.floats(&[4, 3]);
        b.node(Op::MatMul, &[b.x, w])
    });
    check("matmul with a batch of constants", &[5, 4], |b| {
        let apart = b.reshape(b.x, &[0, 1, 5, 4]);
        let w = b.floats(&[2, 4, 3]);
        b.node(Op::MatMul, &[apart, w])
    });
    check("samples as columns", &[4], |b| {
        let turned = b.transpose(b.x, &[1, 0]);
        let w = b.floats(&[3, 4]);
        let y = b.node(Op::MatMul, &[w, turned]);
        b.transpose(y, &[1, 0])
    });
    check("gemm", &[4], |b| {
        let (w, c) = (b.floats(&[3, 4]), b.floats(&[1, 3]));
        b.node(gemm(false, true), &[b.x, w, c])
    });
    check("gemm of turned samples", &[4], |b| {
        let turned = b.transpose(b.x, &[1, 0]);
        let w = b.floats(&[4, 3]);
        b.node(gemm(true, false), &[turned, w])
    });
    check("gemm of a turned result", &[4], |b| {
        let w = b.floats(&[3, 4]);
        let y = b.node(gemm(false, true), &[w, b.x]);
        b.transpose(y, &[1, 0])
    });
    check("gemm with a bias of samples", &[3], |b| {
        let w = b.floats(&[3, 3]);
        b.node(gemm(false, true), &[b.x, w, b.x])
    });
    check("einsum", &[5, 4], |b| {
        let w = b.floats(&[4, 3]);
        b.node(equation(&["nij", "jk"], "nik"), &[b.x, w])
    });
    check("einsum of two values", &[5, 4], |b| {
        b.node(equation(&["nij", "nkj"], "nik"), &[b.x, b.x])
    });
}

#[test]
fn quantized_nodes_and_transforms_keep_samples_apart() {
    let quantize = |b: &mut Build| {
        let scale = b.constant(Tensor::from_slice(&[0.01_f32], &[], &Device::Cpu).unwrap());
        let point = b.constant(Tensor::from_slice(&[128_u8], &[], &Device::Cpu).unwrap());
        let op = Op::QuantizeLinear { axis: 1, block_size: 0, to: Quantized::UInt8 };
        (b.node(op, &[b.x, scale, point]), point)
    };
    check("quantized and back", &[4], |b| {
        let (bytes, _) = quantize(b);
        let scales = b.floats(&[4]);
        b.node(Op::DequantizeLinear { axis: 1, block_size: 0 }, &[bytes, scales])
    });
    check("product of bytes", &[4], |b| {
        let (bytes, point) = quantize(b);
        let w = b.constant(
            Tensor::from_slice(&[1_u8, 2, 3, 4, 5, 6, 7, 8], &[4, 2], &Device::Cpu).unwrap(),
        );
        let sums = b.node(Op::MatMulInteger, &[bytes, w, point]);
        b.node(Op::Cast(DType::F32), &[sums])
    });
    check("spectra", &[6, 1], |b| {
        b.node(Op::Dft { axis: Some(1), inverse: false, onesided: true }, &[b.x])
    });
}

#[test]
fn ranges_and_transforms_over_samples_mix_them() {
    // The scale is that of the largest element of all samples.
    let mut b = Build::new(&[4], None);
    let bytes = b.nodes(Op::DynamicQuantizeLinear, &[b.x], 3);
    let floats = b.node(Op::Cast(DType::F32), &[bytes[0]]);
    assert_eq!(batching(&b.done(floats)).unwrap(), Batching::Whole);
    let mut b = Build::new(&[4, 1], None);
    let spectrum = b.node(Op::Dft { axis: Some(0), inverse: false, onesided: false }, &[b.x]);
    assert_eq!(batching(&b.done(spectrum)).unwrap(), Batching::Whole);
}

#[test]
fn convolutions_pools_and_normalizations_keep_samples_apart() {
    check("convolution", &[2, 5, 5], |b| {
        let (k, bias) = (b.floats(&[3, 2, 3, 3]), b.floats(&[3]));
        let y = b.node(Op::Conv { window: window(&[], &[1, 1, 1, 1]), groups: 1 }, &[b.x, k, bias]);
        let pool = Op::Pool {
            pooling: Pooling::Max { column_major: false },
            window: window(&[2, 2], &[]),
            rounding: Rounding::Down,
        };
        let y = b.node(pool, &[y]);
        let y = b.node(Op::GlobalPool(Pooling::Average { count_padding: false }), &[y]);
        b.node(Op::Flatten { axis: 1 }, &[y])
    });
    check("batch normalization", &[2, 5], |b| {
        let [a, c, d] = [b.floats(&[2]), b.floats(&[2]), b.floats(&[2])];
        let variance = b.constant(Tensor::from_slice(&[0.5_f32, 2.0], &[2], &Device::Cpu).unwrap());
        let op = Op::BatchNormalization { epsilon: 1e-5, momentum: 0.9, training: false };
        b.node(op, &[b.x, a, c, d, variance])
    });
    check("layer normalization", &[3, 5], |b| {
        let [scale, bias] = [b.floats(&[5]), b.floats(&[5])];
        b.node(Op::LayerNormalization { axis: -1, epsilon: 1e-5 }, &[b.x, scale, bias])
    });
    check("softmax and reductions", &[3, 5], |b| {
        let y = b.node(softmax(-1), &[b.x]);
        let y = b.node(mean(&[2], Dims::Keep), &[y]);
        b.node(mean(&[2], Dims::Drop), &[y])
    });
    check("reduction before the axis of samples", &[3, 5], |b| {
        let turned = b.transpose(b.x, &[1, 0, 2]);
        b.node(mean(&[0], Dims::Drop), &[turned])
    });
    check("top k", &[5], |b| {
        let k = b.ints(&[2]);
        b.nodes(Op::TopK { axis: 1, extreme: Extreme::Max }, &[b.x, k], 2)[1]
    });
    check("cumulative sum", &[5], |b| {
        let axis = b.constant(Tensor::from_slice(&[1_i64], &[], &Device::Cpu).unwrap());
        b.node(Op::CumSum { exclusive: false, reverse: true }, &[b.x, axis])
    });
}

#[test]
fn shape_arithmetic_keeps_samples_apart() {
    check("size of the samples", &[4, 6], |b| {
        let n = b.sizes(b.x, 0, 1);
        let rest = b.ints(&[-1]);
        let shape = b.node(Op::Concat { axis: 0 }, &[n, rest]);
        b.node(Op::Reshape { shape: None, allow_zero: false }, &[b.x, shape])
    });
    check("heads", &[4, 6], |b| {
        // (n, 4, 6) -> (4 n, 6) -> (n, 4, 2, 3) -> (n, 2, 4, 3).
        let rows = b.reshape(b.x, &[-1, 6]);
        let n = b.sizes(b.x, 0, 1);
        let rest = b.ints(&[4, 2, 3]);
        let shape = b.node(Op::Concat { axis: 0 }, &[n, rest]);
        let apart = b.node(Op::Reshape { shape: None, allow_zero: false }, &[rows, shape]);
        b.transpose(apart, &[0, 2, 1, 3])
    });
    check("a product of sizes", &[4, 6], |b| {
        let (n, steps) = (b.sizes(b.x, 0, 1), b.sizes(b.x, 1, 2));
        let rows = b.node(Op::Binary(Binary::Mul), &[n, steps]);
        let features = b.ints(&[6]);
        let shape = b.node(Op::Concat { axis: 0 }, &[rows, features]);
        let rows = b.node(Op::Reshape { shape: None, allow_zero: false }, &[b.x, shape]);
        let w = b.floats(&[6, 2]);
        let made = b.node(Op::MatMul, &[rows, w]);
        b.reshape(made, &[-1, 4, 2])
    });
    check("a size that cancels", &[6], |b| {
        // (n * 6) / n features.
        let all = b.node(Op::Size, &[b.x]);
        let n = b.sizes(b.x, 0, 1);
        let features = b.node(Op::Binary(Binary::Div), &[all, n]);
        let features = b.node(Op::Cast(DType::F32), &[features]);
        b.node(Op::Binary(Binary::Mul), &[b.x, features])
    });
    check("a row for each sample", &[3, 4], |b| {
        let token = b.floats(&[1, 1, 4]);
        let n = b.sizes(b.x, 0, 1);
        let rest = b.ints(&[1, 4]);
        let shape = b.node(Op::Concat { axis: 0 }, &[n, rest]);
        let tokens = b.node(Op::Expand, &[token, shape]);
        b.node(Op::Concat { axis: 1 }, &[tokens, b.x])
    });
    check("a slice of all samples", &[5], |b| {
        let (start, n) = (b.ints(&[0]), b.sizes(b.x, 0, 1));
        b.node(Op::Slice { given: None }, &[b.x, start, n])
    });
}

#[test]
fn other_orders_of_axes_keep_samples_apart() {
    check("steps first and back", &[4, 3], |b| {
        let turned = b.transpose(b.x, &[1, 0, 2]);
        let rows = b.reshape(turned, &[-1, 3]);
        let w = b.floats(&[3, 2]);
        let made = b.node(Op::MatMul, &[rows, w]);
        let apart = b.reshape(made, &[4, -1, 2]);
        b.transpose(apart, &[1, 0, 2])
    });
    check("two parts of a batch", &[3], |b| {
        let w = b.floats(&[3, 2]);
        let twice = b.node(Op::Concat { axis: 0 }, &[b.x, b.x]);
        let made = b.node(Op::MatMul, &[twice, w]);
        let n = b.sizes(b.x, 0, 1);
        let sizes = b.node(Op::Concat { axis: 0 }, &[n, n]);
        let parts = b.nodes(Op::Split { axis: 0, sizes: None, parts: None }, &[made, sizes], 2);
        b.node(Op::Binary(Binary::Sub), &[parts[1], parts[0]])
    });
    check("embedding", &[4], |b| {
        let zero = b.constant(Tensor::from_slice(&[0.0_f32], &[], &Device::Cpu).unwrap());
        let ids = b.node(Op::Binary(Binary::Greater), &[b.x, zero]);
        let ids = b.node(Op::Cast(DType::I64), &[ids]);
        let table = b.floats(&[2, 3]);
        b.node(Op::Gather { axis: 0 }, &[table, ids])
    });
    check("gather of features", &[4, 3], |b| {
        let which = b.ints(&[2, 0]);
        let y = b.node(Op::Gather { axis: 2 }, &[b.x, which]);
        let turned = b.transpose(y, &[1, 0, 2]);
        let which = b.ints(&[1, 1, 3]);
        let y = b.node(Op::Gather { axis: 0 }, &[turned, which]);
        b.transpose(y, &[1, 0, 2])
    });
    check("padding and slices", &[4, 3], |b| {
        let pads = b.ints(&[0, 1, 0, 0, 0, 2]);
        let y = b.node(Op::Pad { mode: crate::op::PadMode::Edge, given: None }, &[b.x, pads]);
        let [starts, ends, axes] = [b.ints(&[1]), b.ints(&[i64::MAX]), b.ints(&[1])];
        b.node(Op::Slice { given: None }, &[y, starts, ends, axes])
    });
    check("tiles of features", &[4], |b| {
        let repeats = b.ints(&[1, 3]);
        b.node(Op::Tile, &[b.x, repeats])
    });
}

#[test]
fn recurrent_nodes_keep_samples_apart() {
    let weights =
        |b: &mut Build| [b.floats(&[1, 12, 2]), b.floats(&[1, 12, 3]), b.floats(&[1, 24])];
    check("steps first", &[4, 2], |b| {
        let [w, r, bias] = weights(b);
        let turned = b.transpose(b.x, &[1, 0, 2]);
        let made = b.nodes(lstm(false), &[turned, w, r, bias], 3);
        // (steps, 1, n, 3) -> (n, steps, 3).
        let squeezed = b.node(Op::Squeeze { axes: Some(vec![1]) }, &[made[0]]);
        b.transpose(squeezed, &[1, 0, 2])
    });
    check("the last state", &[4, 2], |b| {
        let [w, r, bias] = weights(b);
        let turned = b.transpose(b.x, &[1, 0, 2]);
        let made = b.nodes(lstm(false), &[turned, w, r, bias], 3);
        b.node(Op::Squeeze { axes: Some(vec![0]) }, &[made[2]])
    });
    check("a state for each sample", &[4, 2], |b| {
        let [w, r, bias] = weights(b);
        let turned = b.transpose(b.x, &[1, 0, 2]);
        let n = b.sizes(b.x, 0, 1);
        let [one, units] = [b.ints(&[1]), b.ints(&[3])];
        let shape = b.node(Op::Concat { axis: 0 }, &[one, n, units]);
        let half = Tensor::from_slice(&[0.5_f32], &[1], &Device::Cpu).unwrap();
        let state = b.node(Op::ConstantOfShape { value: ConstantValue(half) }, &[shape]);
        b.nodes(lstm(false), &[turned, w, r, bias], 3);
        let node = b.graph.nodes.last_mut().unwrap();
        node.inputs.extend([None, Some(state), Some(state)]);
        let hidden = node.outputs[1].unwrap();
        b.node(Op::Squeeze { axes: Some(vec![0]) }, &[hidden])
    });
    check("samples first", &[4, 2], |b| {
        let [w, r, bias] = weights(b);
        b.nodes(lstm(true), &[b.x, w, r, bias], 3)[0]
    });
}

#[test]
fn attention_keeps_samples_apart() {
    check("attention of products", &[4, 3], |b| {
        let [q, k] = [0, 1].map(|_| {
            let w = b.floats(&[3, 3]);
            b.node(Op::MatMul, &[b.x, w])
        });
        let turned = b.transpose(k, &[0, 2, 1]);
        let scores = b.node(Op::MatMul, &[q, turned]);
        let mask = b.floats(&[1, 4, 4]);
        let masked = b.node(Op::Binary(Binary::Add), &[scores, mask]);
        let shares = b.node(softmax(-1), &[masked]);
        b.node(Op::MatMul, &[shares, b.x])
    });
    check("the operator", &[2, 4, 3], |b| {
        let attention = Attention {
            causal: true,
            query_heads: None,
            key_heads: None,
            scale: None,
            softcap: 0.0,
            left_window: None,
            right_window: None,
            shown: ShownScores::Product,
        };
        let mask = b.floats(&[4, 4]);
        b.node(Op::Attention(attention), &[b.x, b.x, b.x, mask])
    });
}
