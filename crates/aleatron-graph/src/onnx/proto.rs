//! The messages of an ONNX file, as far as networks for inference use them. Fields that are not
//! listed are skipped by the decoder.

/// A model: a graph and the operator sets it is written in.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelProto {
    /// The version of the file format.
    #[prost(int64, optional, tag = "1")]
    pub ir_version: Option<i64>,
    /// The program that wrote the file.
    #[prost(string, optional, tag = "2")]
    pub producer_name: Option<String>,
    /// The graph.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    /// The operator sets.
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// Metadata, by name.
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<EntryProto>,
    /// Functions defined by the model.
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<FunctionProto>,
}

/// A version of an operator set.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OperatorSetIdProto {
    /// The domain; empty for ONNX itself.
    #[prost(string, optional, tag = "1")]
    pub domain: Option<String>,
    /// The version.
    #[prost(int64, optional, tag = "2")]
    pub version: Option<i64>,
}

/// A function; only its name is read, since functions are unsupported.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FunctionProto {
    /// The name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// The domain.
    #[prost(string, optional, tag = "10")]
    pub domain: Option<String>,
}

/// A graph of nodes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GraphProto {
    /// The nodes.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    /// The name.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// Constants.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    /// The inputs.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    /// The outputs.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
    /// Declarations of intermediate values.
    #[prost(message, repeated, tag = "13")]
    pub value_info: Vec<ValueInfoProto>,
    /// Sparse constants; unsupported.
    #[prost(message, repeated, tag = "15")]
    pub sparse_initializer: Vec<Opaque>,
}

/// A message whose content is ignored.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Opaque {}

/// A node.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeProto {
    /// The inputs; an empty name is a missing input.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// The outputs.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// The name.
    #[prost(string, optional, tag = "3")]
    pub name: Option<String>,
    /// The operator.
    #[prost(string, optional, tag = "4")]
    pub op_type: Option<String>,
    /// The attributes.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    /// The domain of the operator.
    #[prost(string, optional, tag = "7")]
    pub domain: Option<String>,
}

/// An attribute.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AttributeProto {
    /// The name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// A float.
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    /// An integer.
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    /// A text.
    #[prost(bytes = "vec", optional, tag = "4")]
    pub s: Option<Vec<u8>>,
    /// A tensor.
    #[prost(message, optional, tag = "5")]
    pub t: Option<TensorProto>,
    /// A graph.
    #[prost(message, optional, tag = "6")]
    pub g: Option<GraphProto>,
    /// Floats.
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub floats: Vec<f32>,
    /// Integers.
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    /// Texts.
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub strings: Vec<Vec<u8>>,
    /// The field that holds the value.
    #[prost(int32, optional, tag = "20")]
    pub r#type: Option<i32>,
    /// The attribute of a function that this one refers to.
    #[prost(string, optional, tag = "21")]
    pub ref_attr_name: Option<String>,
}

/// A value: its name, type and shape.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ValueInfoProto {
    /// The name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// The type.
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
}

/// The type of a value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TypeProto {
    /// A tensor.
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorTypeProto>,
    /// A sequence; unsupported.
    #[prost(message, optional, tag = "4")]
    pub sequence_type: Option<Opaque>,
    /// A map; unsupported.
    #[prost(message, optional, tag = "5")]
    pub map_type: Option<Opaque>,
    /// A sparse tensor; unsupported.
    #[prost(message, optional, tag = "8")]
    pub sparse_tensor_type: Option<Opaque>,
    /// An optional value; unsupported.
    #[prost(message, optional, tag = "9")]
    pub optional_type: Option<Opaque>,
}

/// The type of a tensor.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorTypeProto {
    /// The type of its elements.
    #[prost(int32, optional, tag = "1")]
    pub elem_type: Option<i32>,
    /// The shape.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
}

/// The shape of a tensor.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorShapeProto {
    /// The axes.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimensionProto>,
}

/// The size of an axis: a number, a name, or neither.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DimensionProto {
    /// The number.
    #[prost(int64, optional, tag = "1")]
    pub dim_value: Option<i64>,
    /// The name.
    #[prost(string, optional, tag = "2")]
    pub dim_param: Option<String>,
}

/// A tensor with its elements, here or in another file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorProto {
    /// The sizes of its axes.
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    /// The type of its elements.
    #[prost(int32, optional, tag = "2")]
    pub data_type: Option<i32>,
    /// Elements of 32-bit floats.
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// Elements of integers up to 32 bits, booleans and 16-bit floats.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    /// Elements that are texts; unsupported.
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub string_data: Vec<Vec<u8>>,
    /// Elements of 64-bit integers.
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    /// The name.
    #[prost(string, optional, tag = "8")]
    pub name: Option<String>,
    /// Elements as bytes, little-endian.
    #[prost(bytes = "vec", optional, tag = "9")]
    pub raw_data: Option<Vec<u8>>,
    /// Elements of 64-bit floats.
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    /// Elements of unsigned integers of 32 and 64 bits.
    #[prost(uint64, repeated, tag = "11")]
    pub uint64_data: Vec<u64>,
    /// The location of external elements.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<EntryProto>,
    /// 1 if the elements are in another file.
    #[prost(int32, optional, tag = "14")]
    pub data_location: Option<i32>,
}

/// A key with its value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct EntryProto {
    /// The key.
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    /// The value.
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}
