//! Neural networks as graphs of typed nodes: read from ONNX, simplified, inspected, and run on
//! tensors.
//!
//! ```
//! use aleatron_graph::{Graph, Op, Runner, Unary, Value};
//! use aleatron_tensor::{Device, Tensor};
//!
//! let mut graph = Graph::new("example");
//! let x = graph.add_input(Value { name: "x".to_owned(), ..Value::default() });
//! let y = graph.add_node("relu", Op::Unary(Unary::Relu), &[x]);
//! graph.add_output(y);
//! let runner = Runner::new(graph, &Device::Cpu)?;
//! let x = Tensor::from_slice(&[-1.0_f32, 2.0], &[2], &Device::Cpu)?;
//! assert_eq!(runner.run(vec![x])?[0].to_vec::<f32>()?, [0.0, 2.0]);
//! # Ok::<(), aleatron_graph::Error>(())
//! ```
//!
//! - [`Graph`]: nodes in an order in which they can run, values, constants; [`Graph::read_onnx`]
//!   reads one from a file;
//! - [`Op`]: the operation of a node;
//! - [`Graph::bind`]: constants for inputs, numbers for symbolic sizes, the choice of an output;
//! - [`batch`]: whether the samples of a batch are independent;
//! - [`Graph::simplify`]: batch normalisation folded into products, constants computed, nodes that
//!   do nothing removed;
//! - [`Runner`]: runs a graph on a device;
//! - [`Graph::rounding_bound`]: a bound of the difference to the outputs of another program;
//! - [`Graph::to_onnx`]: the graph as a file;
//! - [`inspect`]: a summary of a graph, with shapes.
#![forbid(unsafe_code)]

pub mod batch;
pub mod bind;
mod error;
mod graph;
pub mod inspect;
mod narrow;
pub mod onnx;
pub mod op;
mod pass;
pub mod product;
mod rounding;
mod run;

pub use error::{Error, Result, UnknownOperator};
pub use graph::{Dim, Graph, Node, Value, ValueId};
pub use narrow::Narrow;
pub use op::{Binary, Op, Unary};
pub use pass::Simplified;
pub use run::{Observer, Runner};
