//! Pipelines for command encoders of an application, over the functions that this crate's own
//! kernels compute with.

use aleatron_device::raw::wgpu;

use crate::gpu::helper_source;
use crate::op::{BinaryOp, UnaryOp};

/// Pipelines with the bindings 0, 1, … of group 0: the arguments, the result, and a uniform buffer
/// of [`MatMulParams`](super::MatMulParams) or [`ReduceParams`](super::ReduceParams) for the last
/// two.
///
/// A workgroup of the elementwise ones computes 256 floats, one of `matmul` 16 x 16 floats (x
/// counts columns), and `sum_reduce` is one workgroup.
#[derive(Debug, Clone)]
pub struct ComputePipelines {
    /// a + b.
    pub add: wgpu::ComputePipeline,
    /// a - b.
    pub sub: wgpu::ComputePipeline,
    /// a b.
    pub mul: wgpu::ComputePipeline,
    /// a / b.
    pub div: wgpu::ComputePipeline,
    /// -x.
    pub neg: wgpu::ComputePipeline,
    /// e^x.
    pub exp: wgpu::ComputePipeline,
    /// ln x.
    pub log: wgpu::ComputePipeline,
    /// The larger of x and 0.
    pub relu: wgpu::ComputePipeline,
    /// 1 / (1 + e^-x).
    pub sigmoid: wgpu::ComputePipeline,
    /// The hyperbolic tangent.
    pub tanh: wgpu::ComputePipeline,
    /// The square root.
    pub sqrt: wgpu::ComputePipeline,
    /// The sum of all floats.
    pub sum_reduce: wgpu::ComputePipeline,
    /// The matrix product.
    pub matmul: wgpu::ComputePipeline,
}

impl ComputePipelines {
    pub(super) fn new(device: &wgpu::Device) -> Self {
        let compile = |name: &str, source: String| {
            let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
                label: Some(name),
                source: wgpu::ShaderSource::Wgsl(source.into()),
            });
            device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(name),
                layout: None,
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions::default(),
                cache: None,
            })
        };
        let binary = |op: BinaryOp| compile(op.name(), binary_source(op));
        let unary = |op: UnaryOp| compile(op.name(), unary_source(op));
        Self {
            add: binary(BinaryOp::Add),
            sub: binary(BinaryOp::Sub),
            mul: binary(BinaryOp::Mul),
            div: binary(BinaryOp::Div),
            neg: unary(UnaryOp::Neg),
            exp: unary(UnaryOp::Exp),
            log: unary(UnaryOp::Log),
            relu: unary(UnaryOp::Relu),
            sigmoid: unary(UnaryOp::Sigmoid),
            tanh: unary(UnaryOp::Tanh),
            sqrt: unary(UnaryOp::Sqrt),
            sum_reduce: compile("sum_reduce", SUM_REDUCE.to_owned()),
            matmul: compile("matmul", MATMUL.to_owned()),
        }
    }
}

/// Returns a kernel of one float per invocation; `n` arguments are named x and y.
fn elementwise_source(helpers: &str, arguments: &[&str], expression: &str) -> String {
    let mut source = helpers.to_owned();
    for (binding, name) in arguments.iter().enumerate() {
        source +=
            &format!("@group(0) @binding({binding}) var<storage, read> {name}s: array<f32>;\n");
    }
    let result = arguments.len();
    source +=
        &format!("@group(0) @binding({result}) var<storage, read_write> results: array<f32>;\n");
    source +=
        "@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3<u32>) {\n";
    source += "    let i = id.x;\n    if (i >= arrayLength(&results)) { return; }\n";
    for name in arguments {
        source += &format!("    let {name} = vec4<f32>({name}s[i]);\n");
    }
    source + &format!("    results[i] = ({expression}).x;\n}}\n")
}

fn unary_source(op: UnaryOp) -> String {
    let (helpers, expression) =
        op.entry().float.map_or((&[][..], "{x}"), |float| (float.helpers, float.wgsl));
    elementwise_source(&helper_source(helpers), &["x"], &expression.replace("{x}", "x"))
}

fn binary_source(op: BinaryOp) -> String {
    let (helpers, expression) =
        op.entry().float.map_or((&[][..], "{x}"), |float| (float.helpers, float.wgsl));
    let expression = expression.replace("{x}", "x").replace("{y}", "y");
    elementwise_source(&helper_source(helpers), &["x", "y"], &expression)
}

/// 256 invocations sum strided parts, which are then halved.
const SUM_REDUCE: &str = "
struct Params { input_size: u32, padding_0: u32, padding_1: u32, padding_2: u32 }
@group(0) @binding(0) var<storage, read> xs: array<f32>;
@group(0) @binding(1) var<storage, read_write> results: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;
var<workgroup> partial: array<f32, 256>;

@compute @workgroup_size(256) fn main(@builtin(local_invocation_index) lane: u32) {
    let end = min(params.input_size, arrayLength(&xs));
    // Two loops, so that neither runs 65,536 times.
    var sum = 0.0;
    for (var block = 0u; block < end; block += 1u << 20u) {
        var part = 0.0;
        for (var i = block + lane; i < min(end, block + (1u << 20u)); i += 256u) { part += xs[i]; }
        sum += part;
    }
    partial[lane] = sum;
    for (var half = 128u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (lane < half) { partial[lane] += partial[lane + half]; }
    }
    if (lane == 0u) { results[0] = partial[0]; }
}
";

/// A tile of 16 x 16 products for each workgroup.
const MATMUL: &str = "
struct Params { m: u32, k: u32, n: u32, padding: u32 }
@group(0) @binding(0) var<storage, read> xs: array<f32>;
@group(0) @binding(1) var<storage, read> ys: array<f32>;
@group(0) @binding(2) var<storage, read_write> results: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;
var<workgroup> left: array<array<f32, 16>, 16>;
var<workgroup> right: array<array<f32, 16>, 16>;

@compute @workgroup_size(16, 16)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_id) at: vec3<u32>) {
    let row = id.y;
    let column = id.x;
    var sum = 0.0;
    for (var start = 0u; start < params.k; start += 16u) {
        let inner_x = start + at.x;
        let inner_y = start + at.y;
        workgroupBarrier();
        left[at.y][at.x] = 0.0;
        right[at.y][at.x] = 0.0;
        if (row < params.m && inner_x < params.k) { left[at.y][at.x] = xs[row * params.k + inner_x]; }
        if (inner_y < params.k && column < params.n) { right[at.y][at.x] = ys[inner_y * params.n + column]; }
        workgroupBarrier();
        for (var i = 0u; i < 16u; i++) { sum += left[at.y][i] * right[i][at.x]; }
    }
    if (row < params.m && column < params.n) { results[row * params.n + column] = sum; }
}
";
