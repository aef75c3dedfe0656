//! Bytes as one node of an ONNX model with constants for inputs: outputs or an error, never a panic.
//!
//! The bytes choose the operator, its attributes and inputs of all types, with sizes and numbers
//! that are mostly small and sometimes extreme. A readable model runs unchanged, simplified, and
//! after being written and read: all three give the same bits.
#![no_main]

use aleatron_fuzz::onnx::{self, Kind};
use aleatron_graph::onnx::proto::{AttributeProto, GraphProto, NodeProto, TensorProto};
use aleatron_graph::{Graph, Runner};
use aleatron_tensor::{DType, Device, Tensor};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static OPERATORS: LazyLock<Vec<&'static str>> = LazyLock::new(onnx::operators);

fuzz_target!(|bytes: &[u8]| {
    let model = Source(bytes).model();
    let Ok(graph) = Graph::from_onnx(&model) else { return };
    let mut simple = graph.clone();
    let (simplified, written) = (simple.simplify(), graph.to_onnx());
    let Ok(expected) = run(graph) else { return };
    simplified.unwrap();
    assert_eq!(run(simple).unwrap(), expected, "simplified");
    assert_eq!(
        run(Graph::from_onnx(&written.unwrap()).unwrap()).unwrap(),
        expected,
        "written and read"
    );
});

/// Returns the type, shape and bits of each output.
fn run(graph: Graph) -> aleatron_graph::Result<Vec<(DType, Vec<usize>, Vec<u64>)>> {
    let outputs = Runner::new(graph, &Device::Cpu)?.run(Vec::new())?;
    outputs
        .iter()
        .map(|tensor| Ok((tensor.dtype(), tensor.shape().to_vec(), bits(tensor)?)))
        .collect()
}

/// Returns the bits of the elements. All NaNs are equal.
fn bits(tensor: &Tensor) -> aleatron_graph::Result<Vec<u64>> {
    Ok(match tensor.dtype() {
        DType::I64 => tensor.to_vec::<i64>()?.into_iter().map(|value| value as u64).collect(),
        _ => {
            let word =
                |value: f32| u64::from(if value.is_nan() { f32::NAN } else { value }.to_bits());
            tensor.cast(DType::F32)?.to_vec::<f32>()?.into_iter().map(word).collect()
        }
    })
}

struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        byte
    }

    fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n
    }

    /// Returns an integer: most often small, of either sign, and sometimes one whose sums and
    /// products overflow.
    fn int(&mut self) -> i64 {
        match self.byte() {
            byte @ 0..160 => i64::from(byte % 8),
            byte @ 160..208 => -i64::from(byte % 8),
            byte @ 208..240 => 1 << (2 * (byte - 208)),
            byte => [i64::MAX, i64::MIN, i64::MAX - 1, i64::MIN + 1, 1 << 31, (1 << 31) - 1]
                [usize::from(byte % 6)],
        }
    }

    fn float(&mut self) -> f32 {
        match self.byte() {
            byte @ 0..192 => f32::from(byte) / 16.0 - 4.0,
            byte => {
                let extremes = [
                    f32::NAN,
                    f32::INFINITY,
                    f32::NEG_INFINITY,
                    f32::MAX,
                    f32::MIN_POSITIVE,
                    -0.0,
                    1e-40,
                    3e9,
                ];
                extremes[usize::from(byte % 8)]
            }
        }
    }

    fn model(&mut self) -> Vec<u8> {
        let first = usize::from(self.byte()) | usize::from(self.byte()) << 8;
        let operator = OPERATORS[first % OPERATORS.len()];
        let version = [21, 23, 13, 10, 6, 28, 11, 18][self.below(8)];
        let mut constants = Vec::new();
        let mut input = Vec::new();
        for k in 0..self.below(6) {
            if self.below(16) == 15 {
                input.push(String::new());
                continue;
            }
            let name = format!("c{k}");
            constants.push(self.tensor(&name));
            input.push(name);
        }
        let known = onnx::attributes(operator);
        let attribute =
            known.iter().filter_map(|&(name, kind)| self.attribute(name, kind)).collect();
        let output: Vec<String> = (0..1 + self.below(3)).map(|k| format!("y{k}")).collect();
        let node = NodeProto {
            input,
            output: output.clone(),
            op_type: Some(operator.to_owned()),
            attribute,
            ..NodeProto::default()
        };
        let output = output.iter().map(|name| onnx::value(name)).collect();
        onnx::model(
            GraphProto {
                node: vec![node],
                initializer: constants,
                output,
                ..GraphProto::default()
            },
            version,
        )
    }

    fn tensor(&mut self, name: &str) -> TensorProto {
        let dims: Vec<i64> =
            (0..self.below(6)).map(|_| [1, 2, 3, 1, 2, 4, 0, 5][self.below(8)]).collect();
        let n = dims.iter().product::<i64>() as usize;
        let mut tensor =
            TensorProto { dims, name: Some(name.to_owned()), ..TensorProto::default() };
        // f32, i64, bool, i32, u8, f16.
        let kind = [1, 7, 1, 7, 9, 6, 2, 10][self.below(8)];
        tensor.data_type = Some(kind);
        match kind {
            1 => tensor.float_data = (0..n).map(|_| self.float()).collect(),
            7 => tensor.int64_data = (0..n).map(|_| self.int()).collect(),
            9 => tensor.int32_data = (0..n).map(|_| i32::from(self.byte() & 1)).collect(),
            6 => tensor.int32_data = (0..n).map(|_| self.int() as i32).collect(),
            2 => tensor.int32_data = (0..n).map(|_| i32::from(self.byte())).collect(),
            _ => {
                tensor.int32_data =
                    (0..n).map(|_| i32::from(self.byte()) << 8 | i32::from(self.byte())).collect()
            }
        }
        tensor
    }

    /// Returns an attribute; `None` for a missing one.
    fn attribute(&mut self, name: &str, kind: Kind) -> Option<AttributeProto> {
        let mut attribute =
            AttributeProto { name: Some(name.to_owned()), ..AttributeProto::default() };
        if self.below(4) == 0 {
            return None;
        }
        match kind {
            Kind::Flag => attribute.i = Some(i64::from(self.byte() & 1)),
            Kind::Int => attribute.i = Some(self.int()),
            Kind::Type => attribute.i = Some([1, 6, 7, 9, 10, 11, 2, 16][self.below(8)]),
            Kind::Float => attribute.f = Some(self.float()),
            Kind::Ints => attribute.ints = (0..self.below(6)).map(|_| self.int()).collect(),
            Kind::Floats => attribute.floats = (0..self.below(4)).map(|_| self.float()).collect(),
            Kind::Tensor => attribute.t = Some(self.tensor("")),
            Kind::Text(texts) => {
                attribute.s = Some(texts[self.below(texts.len())].as_bytes().to_vec())
            }
            Kind::Texts(texts) => {
                let n = self.below(7);
                attribute.strings =
                    (0..n).map(|_| texts[self.below(texts.len())].as_bytes().to_vec()).collect();
            }
        }
        Some(attribute)
    }
}
