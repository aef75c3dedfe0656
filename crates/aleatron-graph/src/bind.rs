//! Bindings of graphs: constants for inputs, numbers for symbolic sizes, and the choice of an
//! output.

use std::collections::BTreeMap;

use aleatron_core::{Quantity, memory};
use aleatron_tensor::{DType, Device, Tensor};

use crate::batch::Layout;
use crate::batch::front::Front;
use crate::error::{Error, Result};
use crate::graph::{Dim, Graph, ValueId};

/// Choices for the inputs and outputs of a graph; none by default.
///
/// ```
/// use aleatron_graph::bind::{Bindings, InputValue};
/// use aleatron_graph::{Binary, Dim, Graph, Op, Value};
///
/// let mut graph = Graph::new("scaled");
/// let sizes = |names: &[&str]| Some(names.iter().map(|name| Dim::Named((*name).to_owned())).collect());
/// let x = graph.add_input(Value { name: "x".to_owned(), dtype: None, shape: sizes(&["n", "width"]) });
/// let scale = graph.add_input(Value { name: "scale".to_owned(), dtype: None, shape: Some(Vec::new()) });
/// let y = graph.add_node("y", Op::Binary(Binary::Mul), &[x, scale]);
/// graph.add_output(y);
/// assert_eq!(graph.unbound_sizes()?[0].key, "width");
///
/// let mut bindings = Bindings::default();
/// bindings.constants.insert("scale".to_owned(), InputValue::Fill(2.0));
/// bindings.sizes.insert("width".to_owned(), 3);
/// graph.bind(&bindings)?;
/// assert_eq!(graph.inputs(), [x]);
/// assert!(graph.unbound_sizes()?.is_empty());
/// # Ok::<(), aleatron_graph::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Bindings {
    /// Values of inputs that are the same for all samples, by the name of the input.
    pub constants: BTreeMap<String, InputValue>,
    /// Symbolic sizes, by their name, or by `INPUT.AXIS` for sizes without a name; axes count from
    /// 0.
    pub sizes: BTreeMap<String, usize>,
    /// The only output to return, by the name of its value; all outputs of the graph if `None`.
    pub output: Option<String>,
}

/// The value of an input that is the same for all samples.
#[derive(Debug, Clone)]
pub enum InputValue {
    /// One number for every element.
    Fill(f64),
    /// All elements; without the axis of samples, or with one sample, if the input has that axis.
    Tensor(Tensor),
}

/// A size of an input that is not a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnboundSize {
    /// The name of the input.
    pub input: String,
    /// The axis.
    pub axis: usize,
    /// The key of the size in [`Bindings::sizes`].
    pub key: String,
}

impl Graph {
    /// Applies choices: inputs become constants, sizes numbers, and the output is the chosen one.
    /// Inputs that the chosen output does not need are removed.
    ///
    /// # Errors
    /// [`Error::UnknownInput`] for a constant of an input that does not exist, [`Error::Model`] for
    /// an unknown size or output, and for a constant that does not fit its input.
    pub fn bind(&mut self, bindings: &Bindings) -> Result<()> {
        self.bind_sizes(&bindings.sizes)?;
        if let Some(name) = &bindings.output {
            self.choose_output(name)?;
        }
        self.bind_constants(&bindings.constants)?;
        if bindings.output.is_some() {
            let used = |id: &ValueId| {
                self.outputs.contains(id)
                    || self.nodes.iter().any(|node| node.needs().any(|need| need == *id))
            };
            let inputs: Vec<ValueId> = self.inputs.iter().copied().filter(used).collect();
            self.inputs = inputs;
        }
        Ok(())
    }

    /// Returns the sizes of inputs that are not numbers, except the first of each input, which is
    /// the number of samples.
    ///
    /// # Errors
    /// [`Error::MissingValue`] for an input that is not a value of the graph.
    pub fn unbound_sizes(&self) -> Result<Vec<UnboundSize>> {
        let mut unbound = Vec::new();
        for &id in &self.inputs {
            let value = self.value(id)?;
            for (axis, dim) in value.shape.iter().flatten().enumerate().skip(1) {
                if let Some(key) = key(&value.name, axis, dim) {
                    unbound.push(UnboundSize { input: value.name.clone(), axis, key });
                }
            }
        }
        Ok(unbound)
    }

    /// Returns the sizes that samples of these shapes, by the name of their input, give to
    /// [`Bindings::sizes`].
    ///
    /// # Errors
    /// [`Error::UnknownInput`] for an unknown name, [`Error::InputType`] for a shape that the input
    /// cannot have.
    pub fn sizes_of(&self, samples: &[(&str, &[usize])]) -> Result<BTreeMap<String, usize>> {
        let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
        for &(name, shape) in samples {
            let value = self.value(self.input_named(name)?)?;
            let dims: Vec<&Dim> = value.shape.iter().flatten().skip(1).collect();
            let fault = || Error::InputType {
                name: name.to_owned(),
                expected: format!("samples of shape {}", described(&dims)),
                actual: format!("{shape:?}"),
            };
            if dims.len() != shape.len() {
                return Err(fault());
            }
            for (k, (dim, &size)) in dims.iter().zip(shape).enumerate() {
                let fits = match (dim, key(name, k + 1, dim)) {
                    (Dim::Fixed(fixed), _) => *fixed == size,
                    (_, Some(key)) => *sizes.entry(key).or_insert(size) == size,
                    (_, None) => true,
                };
                if !fits {
                    return Err(fault());
                }
            }
        }
        Ok(sizes)
    }

    fn input_named(&self, name: &str) -> Result<ValueId> {
        let mut known = Vec::with_capacity(self.inputs.len());
        for &id in &self.inputs {
            let own = &self.value(id)?.name;
            if own == name {
                return Ok(id);
            }
            known.push(own.clone());
        }
        Err(Error::UnknownInput { name: name.to_owned(), known })
    }

    fn bind_sizes(&mut self, sizes: &BTreeMap<String, usize>) -> Result<()> {
        let mut known: Vec<String> = Vec::new();
        for &id in &self.inputs {
            let value = self.value(id)?;
            for (axis, dim) in value.shape.iter().flatten().enumerate() {
                known.extend(key(&value.name, axis, dim).filter(|key| !known.contains(key)));
            }
        }
        for (name, &size) in sizes {
            if !known.contains(name) {
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                let reason = format!("no input has this size; the symbolic sizes are {known}");
                return Err(Error::model(format!("size \"{name}\""), reason));
            }
            if size == 0 {
                return Err(Error::model(format!("size \"{name}\""), "it must be at least 1"));
            }
        }
        let is_input =
            |id: usize, inputs: &[ValueId]| inputs.iter().any(|input| input.index() == id);
        for (k, value) in self.values.iter_mut().enumerate() {
            let name = value.name.clone();
            for (axis, dim) in value.shape.iter_mut().flatten().enumerate() {
                let size = match dim {
                    Dim::Named(symbol) => sizes.get(symbol),
                    Dim::Unknown if is_input(k, &self.inputs) => {
                        sizes.get(&format!("{name}.{axis}"))
                    }
                    Dim::Unknown | Dim::Fixed(_) => None,
                };
                if let Some(&size) = size {
                    *dim = Dim::Fixed(size);
                }
            }
        }
        Ok(())
    }

    fn choose_output(&mut self, name: &str) -> Result<()> {
        let made = self.nodes.iter().flat_map(|node| node.outputs.iter().flatten().copied());
        let mut all = self.outputs.iter().copied().chain(made);
        let found = all.find(|&id| self.value(id).is_ok_and(|value| value.name == name));
        let Some(found) = found else {
            let known = self.outputs.iter().map(|&id| Ok(self.value(id)?.name.clone()));
            let known = known.collect::<Result<Vec<_>>>()?.join(", ");
            let reason =
                format!("no node computes this value; the outputs of the graph are {known}");
            return Err(Error::model(format!("output \"{name}\""), reason));
        };
        self.outputs = vec![found];
        self.remove_unused();
        Ok(())
    }

    fn bind_constants(&mut self, constants: &BTreeMap<String, InputValue>) -> Result<()> {
        if constants.is_empty() {
            return Ok(());
        }
        let mut repeated: Vec<(ValueId, Tensor)> = Vec::new();
        for (name, given) in constants {
            let id = self.input_named(name)?;
            let (tensor, is_repeated) = self.constant_for(id, given)?;
            self.inputs.retain(|input| *input != id);
            match is_repeated {
                true => repeated.push((id, tensor)),
                false => {
                    self.constants.insert(id, tensor);
                }
            }
        }
        if repeated.is_empty() {
            return Ok(());
        }
        let Some(_) = self.inputs.first() else {
            // Without an input there are no samples to repeat a constant for.
            self.constants.extend(repeated);
            return Ok(());
        };
        let mut front = Front::new(std::mem::take(self));
        for (id, tensor) in repeated {
            let narrow = front.graph.narrow(id);
            let made = front.repeated(&tensor, Layout::LEADING, narrow)?;
            front.replace(id, made);
        }
        *self = front.finish();
        Ok(())
    }

    /// Returns the value of an input as a tensor, and whether it is that of one sample for each
    /// sample.
    fn constant_for(&self, id: ValueId, given: &InputValue) -> Result<(Tensor, bool)> {
        let value = self.value(id)?;
        let dtype = value.dtype.unwrap_or(DType::F32);
        let fault = |reason: String| Error::model(format!("input \"{}\"", value.name), reason);
        let dims = value.shape.as_deref();
        let is_repeated =
            matches!(dims.and_then(<[Dim]>::first), Some(Dim::Named(_) | Dim::Unknown));
        // The shape for one sample; sizes other than the first must be known to fill them.
        let sizes = |dims: &[Dim]| -> Result<Vec<usize>> {
            let sizes = dims.iter().enumerate().map(|(axis, dim)| match (axis, dim) {
                (_, Dim::Fixed(size)) => Ok(*size),
                (0, _) => Ok(1),
                (axis, dim) => {
                    let key = key(&value.name, axis, dim).unwrap_or_default();
                    Err(fault(format!(
                        "the size of axis {axis} is not known: give it with --shape {key}=SIZE"
                    )))
                }
            });
            sizes.collect()
        };
        let tensor = match given {
            InputValue::Fill(number) => {
                let shape = sizes(dims.unwrap_or_default())?;
                let elements = shape.iter().fold(1_u128, |n, &size| n.saturating_mul(size as u128));
                memory::check(elements.saturating_mul(8), Quantity::Value)?;
                let one = Tensor::from_slice(&[*number as f32], &[], &Device::Cpu)?;
                exact(&one, dtype, *number).map_err(fault)?.broadcast_to(&shape)?.contiguous()?
            }
            InputValue::Tensor(tensor) => {
                let whole = converted(tensor, dtype).map_err(fault)?;
                match dims {
                    Some(dims) if is_repeated && whole.rank() + 1 == dims.len() => {
                        whole.unsqueeze(0)?
                    }
                    _ => whole,
                }
            }
        };
        if let Some(narrow) = self.narrow(id) {
            let wrapped = narrow.wrap(&tensor)?;
            if crate::op::ConstantValue(wrapped) != crate::op::ConstantValue(tensor.clone()) {
                return Err(fault(format!("its constant has elements that {narrow} cannot hold")));
            }
        }
        let fits = |dims: &[Dim]| {
            let one = |(axis, (dim, &size)): (usize, (&Dim, &usize))| match dim {
                Dim::Fixed(fixed) => *fixed == size,
                Dim::Named(_) | Dim::Unknown => axis > 0 || size == 1,
            };
            dims.len() == tensor.rank() && dims.iter().zip(tensor.shape()).enumerate().all(one)
        };
        if !dims.is_none_or(fits) {
            let expected = described(&dims.into_iter().flatten().collect::<Vec<_>>());
            let reason = format!(
                "its constant has shape {:?}, expected {expected}, with one sample if the first size is open",
                tensor.shape()
            );
            return Err(fault(reason));
        }
        Ok((tensor, is_repeated))
    }
}

/// Returns the name of a size that is not a number.
fn key(input: &str, axis: usize, dim: &Dim) -> Option<String> {
    match dim {
        Dim::Fixed(_) => None,
        Dim::Named(name) => Some(name.clone()),
        Dim::Unknown => Some(format!("{input}.{axis}")),
    }
}

fn described(dims: &[&Dim]) -> String {
    format!("[{}]", dims.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

/// Converts one number to another type, or returns the reason why the type cannot represent it.
fn exact(one: &Tensor, dtype: DType, number: f64) -> std::result::Result<Tensor, String> {
    if dtype.is_float() {
        if number.is_finite() && number.abs() > f64::from(f32::MAX) {
            return Err(format!("{number} is larger than {dtype} can hold"));
        }
        return one.cast(dtype).map_err(|error| error.to_string());
    }
    let whole = number as i64;
    if whole as f64 != number {
        return Err(format!("{number} is not a whole number, which {dtype} needs"));
    }
    let tensor =
        Tensor::from_slice(&[whole], &[], &Device::Cpu).map_err(|error| error.to_string())?;
    converted(&tensor, dtype)
}

/// Converts a tensor to another type, or returns the reason why the type cannot represent an
/// element.
fn converted(tensor: &Tensor, dtype: DType) -> std::result::Result<Tensor, String> {
    if tensor.dtype() == dtype {
        return Ok(tensor.clone());
    }
    let cast = tensor.cast(dtype).map_err(|error| error.to_string())?;
    if dtype.is_float() {
        return Ok(cast);
    }
    // An integer or a truth value comes back as it was.
    let back = cast.cast(tensor.dtype()).map_err(|error| error.to_string())?;
    match crate::op::ConstantValue(back) == crate::op::ConstantValue(tensor.clone()) {
        true => Ok(cast),
        false => {
            Err(format!("its constant of {} has elements that {dtype} cannot hold", tensor.dtype()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Value;
    use crate::op::{Binary, Op, Unary};
    use crate::run::Runner;

    fn dims(text: &str) -> Vec<Dim> {
        let dim = |part: &str| match (part, part.parse()) {
            ("?", _) => Dim::Unknown,
            (_, Ok(size)) => Dim::Fixed(size),
            (name, Err(_)) => Dim::Named(name.to_owned()),
        };
        text.split_whitespace().map(dim).collect()
    }

    fn input(graph: &mut Graph, name: &str, dtype: DType, shape: &str) -> ValueId {
        graph.add_input(Value {
            name: name.to_owned(),
            dtype: Some(dtype),
            shape: Some(dims(shape)),
        })
    }

    /// Returns the sum of images and a row of integers for each sample, and the images without it.
    fn graph() -> Graph {
        let mut graph = Graph::new("sum");
        let x = input(&mut graph, "x", DType::F32, "n h w");
        let ids = input(&mut graph, "ids", DType::I64, "n w");
        let cast = graph.add_node("cast", Op::Cast(DType::F32), &[ids]);
        let rows = graph.add_node("rows", Op::Unsqueeze { axes: Some(vec![1]) }, &[cast]);
        let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[x, rows]);
        let negated = graph.add_node("negated", Op::Unary(Unary::Neg), &[x]);
        graph.add_output(sum);
        graph.add_output(negated);
        graph
    }

    fn bound(change: impl Fn(&mut Bindings)) -> Result<Graph> {
        let (mut graph, mut bindings) = (graph(), Bindings::default());
        change(&mut bindings);
        graph.bind(&bindings)?;
        Ok(graph)
    }

    fn sizes(bindings: &mut Bindings, sizes: &[(&str, usize)]) {
        bindings.sizes.extend(sizes.iter().map(|(name, size)| ((*name).to_owned(), *size)));
    }

    fn names(graph: &Graph, ids: &[ValueId]) -> Vec<String> {
        ids.iter().map(|&id| graph.value(id).unwrap().name.clone()).collect()
    }

    fn run(graph: &Graph, x: &[f32], shape: &[usize]) -> Vec<f32> {
        let x = Tensor::from_slice(x, shape, &Device::Cpu).unwrap();
        Runner::new(graph.clone(), &Device::Cpu).unwrap().run(vec![x]).unwrap()[0].to_vec().unwrap()
    }

    #[test]
    fn symbolic_sizes_become_numbers_everywhere() {
        let keys = |graph: &Graph| {
            let sizes = graph.unbound_sizes().unwrap();
            sizes
                .into_iter()
                .map(|size| format!("{}.{} {}", size.input, size.axis, size.key))
                .collect::<Vec<_>>()
        };
        assert_eq!(keys(&graph()), ["x.1 h", "x.2 w", "ids.1 w"]);
        let graph = bound(|bindings| sizes(bindings, &[("h", 2), ("w", 3)])).unwrap();
        assert!(keys(&graph).is_empty());
        assert_eq!(graph.value(graph.inputs()[0]).unwrap().shape, Some(dims("n 2 3")));
        assert_eq!(graph.value(graph.inputs()[1]).unwrap().shape, Some(dims("n 3")));
        // The number of samples can be fixed as well, and sizes without a name have that of their
        // axis.
        let fixed = bound(|bindings| sizes(bindings, &[("n", 4)])).unwrap();
        assert_eq!(fixed.value(fixed.inputs()[1]).unwrap().shape, Some(dims("4 w")));
        let mut unnamed = Graph::new("unnamed");
        let x = input(&mut unnamed, "x", DType::F32, "? ? 3");
        unnamed.add_output(x);
        assert_eq!(keys(&unnamed), ["x.1 x.1"]);
        let sizes = [("x.1".to_owned(), 5)].into();
        unnamed.bind(&Bindings { sizes, ..Bindings::default() }).unwrap();
        assert_eq!(unnamed.value(x).unwrap().shape, Some(dims("? 5 3")));
    }

    #[test]
    fn unknown_and_empty_sizes_are_errors() {
        let error = bound(|bindings| sizes(bindings, &[("height", 2)])).unwrap_err().to_string();
        assert_eq!(
            error,
            "size \"height\": no input has this size; the symbolic sizes are n, h, w"
        );
        let error = bound(|bindings| sizes(bindings, &[("h", 0)])).unwrap_err().to_string();
        assert_eq!(error, "size \"h\": it must be at least 1");
    }

    #[test]
    fn sizes_follow_from_the_shapes_of_samples() {
        let graph = graph();
        let found = graph.sizes_of(&[("x", &[2, 3]), ("ids", &[3])]).unwrap();
        assert_eq!(found, [("h".to_owned(), 2), ("w".to_owned(), 3)].into());
        // Two widths, another rank, and an unknown input.
        let error = graph.sizes_of(&[("x", &[2, 3]), ("ids", &[4])]).unwrap_err().to_string();
        assert_eq!(error, "the input \"ids\" is samples of shape [w], got [4]");
        assert!(matches!(graph.sizes_of(&[("x", &[6])]), Err(Error::InputType { .. })));
        assert!(matches!(graph.sizes_of(&[("y", &[6])]), Err(Error::UnknownInput { .. })));
    }

    #[test]
    fn constants_are_the_same_for_every_sample() {
        let row = |values: &[i64], shape: &[usize]| {
            InputValue::Tensor(Tensor::from_slice(values, shape, &Device::Cpu).unwrap())
        };
        let whole =
            InputValue::Tensor(Tensor::from_slice(&[5.0_f32, 6.0], &[2], &Device::Cpu).unwrap());
        for (given, expected) in [
            (InputValue::Fill(5.0), [5.0, 5.0]),
            (row(&[5, 6], &[2]), [5.0, 6.0]),
            (row(&[5, 6], &[1, 2]), [5.0, 6.0]),
            (whole, [5.0, 6.0]),
        ] {
            let graph = bound(|bindings| {
                sizes(bindings, &[("h", 1), ("w", 2)]);
                bindings.constants.insert("ids".to_owned(), given.clone());
            })
            .unwrap();
            assert_eq!(names(&graph, graph.inputs()), ["x"]);
            for n in [1, 3] {
                assert_eq!(
                    run(&graph, &vec![0.0; 2 * n], &[n, 1, 2]),
                    expected.repeat(n),
                    "{given:?}"
                );
            }
        }
    }

    #[test]
    fn constants_of_wrong_shape_or_type_are_errors_with_their_name() {
        let refused = |name: &str, given: InputValue| {
            let made = bound(|bindings| {
                sizes(bindings, &[("h", 1), ("w", 2)]);
                bindings.constants.insert(name.to_owned(), given.clone());
            });
            made.unwrap_err().to_string()
        };
        let tensor = |values: &[f32], shape: &[usize]| {
            InputValue::Tensor(Tensor::from_slice(values, shape, &Device::Cpu).unwrap())
        };
        assert_eq!(
            refused("mask", InputValue::Fill(1.0)),
            "the graph has no input \"mask\"; its inputs are x, ids"
        );
        assert_eq!(
            refused("ids", InputValue::Fill(0.5)),
            "input \"ids\": 0.5 is not a whole number, which i64 needs"
        );
        assert!(
            refused("ids", tensor(&[0.5, 1.0], &[2])).contains("elements that i64 cannot hold")
        );
        assert!(refused("x", InputValue::Fill(1e300)).contains("larger than f32 can hold"));
        for shape in [&[3][..], &[3, 1], &[1, 1, 3]] {
            let error = refused("ids", tensor(&[1.0; 3], shape));
            assert!(error.contains("expected [n, 2]"), "{shape:?}: {error}");
        }
        // A size that is still open.
        let open = bound(|bindings| {
            bindings.constants.insert("x".to_owned(), InputValue::Fill(0.0));
        });
        let error = open.unwrap_err().to_string();
        assert_eq!(
            error,
            "input \"x\": the size of axis 1 is not known: give it with --shape h=SIZE"
        );
    }

    #[test]
    fn chosen_output_is_the_only_one_and_keeps_the_inputs_it_needs() {
        let choose = |name: &str| bound(|bindings| bindings.output = Some(name.to_owned()));
        let graph = choose("negated_output").unwrap();
        assert_eq!(
            (names(&graph, graph.outputs()), graph.nodes().len()),
            (vec!["negated_output".to_owned()], 1)
        );
        assert_eq!(names(&graph, graph.inputs()), ["x"]);
        // Any value that a node computes.
        let inner = choose("rows_output").unwrap();
        assert_eq!(
            (names(&inner, inner.inputs()), inner.nodes().len()),
            (vec!["ids".to_owned()], 2)
        );
        let error = choose("scores").unwrap_err().to_string();
        assert_eq!(
            error,
            "output \"scores\": no node computes this value; the outputs of the graph are sum_output, negated_output"
        );
        let all = bound(|_| ()).unwrap();
        assert_eq!((all.outputs().len(), all.inputs().len()), (2, 2));
    }
}
