//! Quantized operators.

use super::file::{code, graph, int, integers, node, read, reals, run, tensor, value};

#[test]
fn quantize_linear_rounds_ties_to_even_and_saturates() {
    let quantize = |code: i32, zero_point: i64| {
        let constants = vec![reals("s", &[], &[2.0]), integers("z", code, &[], &[zero_point])];
        let nodes = vec![node("QuantizeLinear", &["x", "s", "z"], &["y"], vec![])];
        read(graph(nodes, vec![value("x", code::FLOAT, &[6])], &["y"], constants)).unwrap()
    };
    let x = tensor(&[1.0_f32, 3.0, -5.0, 1000.0, -1000.0, 4.1], &[6]);
    assert_eq!(
        run::<i32>(&quantize(code::INT8, 1), std::slice::from_ref(&x))[0],
        [1, 3, -1, 127, -128, 3]
    );
    assert_eq!(
        run::<u8>(&quantize(code::UINT8, 128), std::slice::from_ref(&x))[0],
        [128, 130, 126, 255, 0, 130]
    );
    assert_eq!(run::<i32>(&quantize(code::UINT16, 0), &[x])[0], [0, 2, 0, 500, 0, 2]);
}

#[test]
fn dequantize_linear_has_scales_of_an_axis_or_of_blocks() {
    let values = integers("x", code::INT8, &[2, 4], &[1, 2, 3, 4, -5, -6, -7, -8]);
    let axis = graph(
        vec![node("DequantizeLinear", &["x", "s", "z"], &["y"], vec![int("axis", 0)])],
        vec![],
        &["y"],
        vec![
            values.clone(),
            reals("s", &[2], &[0.5, 2.0]),
            integers("z", code::INT8, &[2], &[1, -8]),
        ],
    );
    assert_eq!(run::<f32>(&read(axis).unwrap(), &[])[0], [0.0, 0.5, 1.0, 1.5, 6.0, 4.0, 2.0, 0.0]);
    let attributes = vec![int("axis", 1), int("block_size", 2)];
    let blocks = graph(
        vec![node("DequantizeLinear", &["x", "s"], &["y"], attributes)],
        vec![],
        &["y"],
        vec![values, reals("s", &[2, 2], &[1.0, 10.0, 100.0, 0.5])],
    );
    assert_eq!(
        run::<f32>(&read(blocks).unwrap(), &[])[0],
        [1.0, 2.0, 30.0, 40.0, -500.0, -600.0, -3.5, -4.0]
    );
}

#[test]
fn dynamic_quantize_linear_covers_the_range_and_zero() {
    let nodes = vec![node("DynamicQuantizeLinear", &["x"], &["y", "s", "z"], vec![])];
    let file = graph(nodes, vec![value("x", code::FLOAT, &[3])], &["y", "z"], vec![]);
    // The range is -51 to 204: a scale of 1 and a zero point of 51.
    let made = run::<u8>(&read(file).unwrap(), &[tensor(&[-51.0_f32, 0.0, 204.0], &[3])]);
    assert_eq!(made, [vec![0, 51, 255], vec![51]]);
}

/// Sums so long that they must be split into several products of floats.
#[test]
fn matmul_integer_is_exact_for_long_sums() {
    for depth in [3, 700, 6000] {
        let a: Vec<i64> = (0..2 * depth).map(|k| k * 131 % 256).collect();
        let b: Vec<i64> = (0..depth).map(|k| 127 - k * 37 % 256).collect();
        let constants = vec![
            integers("b", code::INT8, &[depth, 1], &b),
            integers("za", code::UINT8, &[], &[3]),
            integers("zb", code::INT8, &[1], &[-128]),
        ];
        let nodes = vec![node("MatMulInteger", &["a", "b", "za", "zb"], &["y"], vec![])];
        let file = graph(nodes, vec![value("a", code::UINT8, &[2, depth])], &["y"], constants);
        let bytes: Vec<u8> = a.iter().map(|&v| v as u8).collect();
        let expected: Vec<i32> = a
            .chunks(depth as usize)
            .map(|row| row.iter().zip(&b).map(|(a, b)| (a - 3) * (b + 128)).sum::<i64>() as i32)
            .collect();
        let made = run::<i32>(&read(file).unwrap(), &[tensor(&bytes, &[2, depth as usize])]);
        assert_eq!(made[0], expected, "{depth}");
    }
}

/// A kernel of three over five elements with padding, whose elements are zero points.
#[test]
fn convolutions_pad_with_the_zero_point() {
    let x = tensor(&[10_u8, 12, 11, 10, 14], &[1, 1, 5]);
    let kernel = [1_i64, -2, 3];
    let inside = [0_i64, 0, 2, 1, 0, 4, 0];
    let sums: Vec<i64> =
        inside.windows(3).map(|x| x.iter().zip(kernel).map(|(x, w)| x * w).sum()).collect();
    let constants = vec![
        integers("w", code::INT8, &[1, 1, 3], &kernel),
        integers("zx", code::UINT8, &[], &[10]),
    ];
    let pads = super::file::ints("pads", &[1, 1]);
    let nodes = vec![node("ConvInteger", &["x", "w", "zx"], &["y"], vec![pads.clone()])];
    let input = || vec![value("x", code::UINT8, &[1, 1, 5])];
    let made = run::<i32>(
        &read(graph(nodes, input(), &["y"], constants.clone())).unwrap(),
        std::slice::from_ref(&x),
    );
    assert_eq!(made[0].iter().map(|&v| i64::from(v)).collect::<Vec<_>>(), sums);

    // With a bias of 4, scales of 0.5 * 2 / 4 and a zero point of 7.
    let mut constants = constants;
    constants.extend([
        reals("sx", &[], &[0.5]),
        reals("sw", &[1], &[2.0]),
        integers("zw", code::INT8, &[1], &[0]),
        reals("sy", &[], &[4.0]),
        integers("zy", code::INT8, &[], &[7]),
        integers("bias", code::INT32, &[1], &[4]),
    ]);
    let inputs = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "bias"];
    let nodes = vec![node("QLinearConv", &inputs, &["y"], vec![pads])];
    let made = run::<i32>(&read(graph(nodes, input(), &["y"], constants)).unwrap(), &[x]);
    let expected: Vec<i32> = sums
        .iter()
        .map(|sum| ((*sum as f32 + 4.0) * 0.25).round_ties_even() as i32 + 7)
        .map(|value| value.clamp(-128, 127))
        .collect();
    assert_eq!(made[0], expected);
}

#[test]
fn qlinear_matmul_has_scales_of_columns() {
    let constants = vec![
        reals("sa", &[], &[0.5]),
        integers("za", code::INT8, &[], &[1]),
        integers("b", code::INT8, &[2, 2], &[2, -3, 4, 5]),
        reals("sb", &[2], &[1.0, 2.0]),
        integers("zb", code::INT8, &[2], &[0, 1]),
        reals("sy", &[], &[2.0]),
        integers("zy", code::INT8, &[], &[-1]),
    ];
    let nodes = vec![node(
        "QLinearMatMul",
        &["a", "sa", "za", "b", "sb", "zb", "sy", "zy"],
        &["y"],
        vec![],
    )];
    let file = graph(nodes, vec![value("a", code::INT8, &[1, 2])], &["y"], constants);
    // (5 - 1, 9 - 1) times columns (2, 4) and (-4, 4): 40 and 16; times 0.25 and 0.5: 10 and 8.
    assert_eq!(run::<i32>(&read(file).unwrap(), &[tensor(&[5_i32, 9], &[1, 2])])[0], [9, 7]);
}
