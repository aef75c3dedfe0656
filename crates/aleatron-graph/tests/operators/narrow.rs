//! Integers of types that tensors hold in wider ones.

use aleatron_graph::Narrow;
use aleatron_tensor::DType;

use super::file::{code, graph, int, integers, node, read, run, tensor, value};

/// Returns the result of a node of constants of one type.
fn of_constants<T: aleatron_tensor::Element>(op: &str, code: i32, inputs: &[&[i64]]) -> Vec<T> {
    let names: Vec<String> = (0..inputs.len()).map(|k| format!("c{k}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let constants = names.iter().zip(inputs);
    let constants =
        constants.map(|(name, values)| integers(name, code, &[values.len() as i64], values));
    let file = graph(vec![node(op, &names, &["y"], vec![])], vec![], &["y"], constants.collect());
    run::<T>(&read(file).unwrap(), &[]).remove(0)
}

#[test]
fn sums_and_products_of_constants_wrap_as_their_type() {
    assert_eq!(
        of_constants::<i32>("Add", code::INT8, &[&[100, -100, 1], &[100, -100, 1]]),
        [-56, 56, 2]
    );
    assert_eq!(of_constants::<i32>("Mul", code::INT8, &[&[16, -128], &[16, -1]]), [0, -128]);
    assert_eq!(of_constants::<i32>("Sub", code::UINT16, &[&[0, 5], &[1, 2]]), [65_535, 3]);
    assert_eq!(of_constants::<i32>("Mul", code::INT16, &[&[300], &[300]]), [24_464]);
    assert_eq!(of_constants::<u8>("Add", code::UINT8, &[&[250], &[10]]), [4]);
    assert_eq!(of_constants::<i64>("Sub", code::UINT32, &[&[0], &[1]]), [4_294_967_295]);
    assert_eq!(of_constants::<i64>("Mul", code::UINT32, &[&[65_536], &[65_537]]), [65_536]);
    assert_eq!(of_constants::<i32>("Sum", code::INT8, &[&[100], &[20], &[10]]), [-126]);
}

#[test]
fn functions_of_constants_stay_in_their_type() {
    assert_eq!(
        of_constants::<i32>("BitwiseNot", code::UINT16, &[&[0, 65_535, 1]]),
        [65_535, 0, 65_534]
    );
    assert_eq!(of_constants::<i64>("BitwiseNot", code::UINT32, &[&[1]]), [4_294_967_294]);
    assert_eq!(of_constants::<i32>("BitwiseNot", code::INT8, &[&[-128]]), [127]);
    assert_eq!(of_constants::<i32>("Neg", code::INT8, &[&[-128, 5]]), [-128, -5]);
    assert_eq!(of_constants::<i32>("Abs", code::INT16, &[&[-32_768, -7]]), [-32_768, 7]);
    assert_eq!(of_constants::<i32>("Div", code::INT8, &[&[-128], &[-1]]), [-128]);
}

/// A field of 32 bits may hold what the type cannot: its low bits count.
#[test]
fn fields_of_constants_have_the_low_bits() {
    assert_eq!(of_constants::<i32>("Identity", code::INT8, &[&[200, -129]]), [-56, 127]);
    assert_eq!(of_constants::<i32>("Identity", code::UINT16, &[&[65_537, -1]]), [1, 65_535]);
}

#[test]
fn casts_keep_the_low_bits_of_integers() {
    let cast = |from: i32, to: i32, values: &[i64]| {
        let constant = integers("c", from, &[values.len() as i64], values);
        let file = graph(
            vec![node("Cast", &["c"], &["y"], vec![int("to", to.into())])],
            vec![],
            &["y"],
            vec![constant],
        );
        read(file).unwrap()
    };
    let to_int8 = cast(code::INT32, code::INT8, &[200, -129, 5]);
    assert_eq!(to_int8.narrow(to_int8.outputs()[0]), Some(Narrow::Int8));
    assert_eq!(run::<i32>(&to_int8, &[])[0], [-56, 127, 5]);
    assert_eq!(run::<i32>(&cast(code::INT8, code::UINT16, &[-1, 3]), &[])[0], [65_535, 3]);
    assert_eq!(run::<u8>(&cast(code::INT8, code::UINT8, &[-1]), &[])[0], [255]);
    assert_eq!(run::<i32>(&cast(code::INT8, code::INT32, &[-1]), &[])[0], [-1]);
    assert_eq!(run::<f32>(&cast(code::INT8, code::FLOAT, &[-100]), &[])[0], [-100.0]);
    assert_eq!(
        run::<i64>(&cast(code::INT64, code::UINT32, &[-1, 1 << 32]), &[])[0],
        [4_294_967_295, 0]
    );
}

/// Inputs, moves of elements and branches carry the type to the sum at the end.
#[test]
fn types_follow_values_through_nodes() {
    let nodes = vec![
        node("Cast", &["x"], &["a"], vec![int("to", code::INT8.into())]),
        node("Unsqueeze", &["a", "axes"], &["b"], vec![]),
        node("Concat", &["b", "b"], &["c"], vec![int("axis", 0)]),
        node("ReduceSum", &["c", "axes"], &["y"], vec![int("keepdims", 0)]),
    ];
    let constants = vec![integers("axes", code::INT64, &[1], &[0])];
    let file = graph(nodes, vec![value("x", code::FLOAT, &[2])], &["y"], constants);
    let read = read(file).unwrap();
    assert_eq!(read.value(read.outputs()[0]).unwrap().dtype, None);
    assert_eq!(run::<i32>(&read, &[tensor(&[100.7_f32, -100.0], &[2])])[0], [-56, 56]);
    let sum = graph_of_input(code::INT8);
    assert_eq!(sum.value(sum.inputs()[0]).unwrap().dtype, Some(DType::I32));
    assert_eq!(run::<i32>(&sum, &[tensor(&[127_i32], &[1])])[0], [-2]);
}

fn graph_of_input(code: i32) -> aleatron_graph::Graph {
    let nodes = vec![node("Add", &["x", "x"], &["y"], vec![])];
    read(graph(nodes, vec![value("x", code, &[1])], &["y"], vec![])).unwrap()
}

#[test]
fn inputs_out_of_range_of_their_type_are_errors() {
    let sum = graph_of_input(code::INT8);
    let runner = aleatron_graph::Runner::new(sum, &aleatron_tensor::Device::Cpu).unwrap();
    let error = runner.run(vec![tensor(&[300_i32], &[1])]).unwrap_err().to_string();
    assert!(error.contains("\"x\"") && error.contains("int8"), "{error}");
}

#[test]
fn operators_without_a_rule_for_narrow_types_are_errors() {
    let nodes = vec![node("Mean", &["x", "x"], &["y"], vec![])];
    let error = read(graph(nodes, vec![value("x", code::INT8, &[1])], &["y"], vec![])).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("Mean") && text.contains("int8") && text.contains("cast"), "{text}");
}

#[test]
fn unsigned_64_bit_integers_past_63_bits_are_errors() {
    let sum = graph_of_input(code::UINT64);
    assert_eq!(run::<i64>(&sum, &[tensor(&[1_i64 << 61], &[1])])[0], [1 << 62]);
    let runner = aleatron_graph::Runner::new(sum, &aleatron_tensor::Device::Cpu).unwrap();
    let error = runner.run(vec![tensor(&[1_i64 << 62], &[1])]).unwrap_err().to_string();
    assert!(error.contains("uint64") && error.contains("Add"), "{error}");
    let nodes = vec![node("Mul", &["x", "x"], &["y"], vec![])];
    let product = read(graph(nodes, vec![value("x", code::UINT64, &[1])], &["y"], vec![]));
    assert!(product.unwrap_err().to_string().contains("uint64"));
}
