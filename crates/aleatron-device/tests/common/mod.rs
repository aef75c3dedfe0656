//! Shared test utilities: the adapter under test, and kernels.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::borrow::Cow;
use std::sync::Arc;

use aleatron_device::{Access, AdapterChoice, Capabilities, ContextOptions, GpuContext, Kernel};

/// Returns the adapter selected by the environment, otherwise Mesa's software adapter. A missing
/// adapter is a failure: these tests must run.
pub fn choice() -> AdapterChoice {
    match AdapterChoice::from_env() {
        AdapterChoice::Strongest => AdapterChoice::named("llvmpipe"),
        named => named,
    }
}

pub fn context() -> Arc<GpuContext> {
    GpuContext::get(&choice()).unwrap_or_else(|error| {
        panic!("{error}\nGPU tests need an adapter: apt-get install mesa-vulkan-drivers libvulkan1")
    })
}

pub fn own_context(options: &ContextOptions) -> Arc<GpuContext> {
    GpuContext::open(&choice(), options).unwrap()
}

/// Returns a device without optional capabilities.
pub fn plain_context() -> Arc<GpuContext> {
    own_context(&ContextOptions { capabilities: Capabilities::NONE, ..ContextOptions::default() })
}

/// Kernels over floats: `b = a * factor * TIMES + PLUS`, optionally negated, from element FIRST of
/// `a` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Float {
    Scale,
}

impl Kernel for Float {
    fn name(&self) -> Cow<'static, str> {
        "scale".into()
    }

    fn source(&self, _: Capabilities) -> Cow<'static, str> {
        "override PLUS: f32 = 0.0;
         override NEGATE: bool = false;
         override TIMES: i32 = 1;
         override FIRST: u32 = 0u;
         var<immediate> factor: f32;
         @group(0) @binding(0) var<storage, read> a: array<f32>;
         @group(0) @binding(1) var<storage, read_write> b: array<f32>;
         @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
             if (id.x < arrayLength(&b)) {
                 let y = a[id.x + FIRST] * factor * f32(TIMES) + PLUS;
                 b[id.x] = select(y, -y, NEGATE);
             }
         }"
        .into()
    }

    fn bindings(&self) -> Cow<'static, [Access]> {
        Cow::Borrowed(&[Access::Read, Access::ReadWrite])
    }

    fn immediate_bytes(&self) -> usize {
        4
    }
}
