//! All unsafe code of this crate: two calls in which wgpu relies on its caller.
//!
//! **Unchecked modules.** wgpu guards every index, every loop and every division of a shader unless
//! the module is created with `create_shader_module_trusted`. With the guards, a local array that
//! is indexed in a loop lives in memory instead of registers, and a matrix product can be slower by
//! an order of magnitude. A kernel gets a module without them if it declares
//! [`BoundsChecks::Removed`], whose [`BoundsProof`](crate::BoundsProof) is an unsafe promise of its
//! author, for every launch. The argument is documented next to each kernel, from the checks of its
//! host code before each launch, and tests compare both kinds of module on the same inputs.
//! [`Checks::Always`](crate::Checks::Always) enables the guards for every kernel of a context.
//!
//! **Experimental features.** wgpu offers cooperative matrices to callers who accept that its
//! support for them may still be unsound. Only a shader with `enable wgpu_cooperative_matrix;`
//! reaches that support, so enabling the feature on a device changes nothing for all other kernels,
//! and [`shader_module`] accepts such shaders only from kernels with the promise.
#![allow(unsafe_code)]

use std::borrow::Cow;

use crate::kernel::BoundsChecks;

/// Compiles WGSL, with or without run-time checks.
pub(crate) fn shader_module(
    device: &wgpu::Device,
    name: &str,
    source: Cow<'_, str>,
    checks: BoundsChecks,
) -> wgpu::ShaderModule {
    let descriptor = wgpu::ShaderModuleDescriptor {
        label: Some(name),
        source: wgpu::ShaderSource::Wgsl(source),
    };
    match checks {
        BoundsChecks::Enabled => device.create_shader_module(descriptor),
        // SAFETY: the kernel has a `BoundsProof`, whose contract is that of this call.
        BoundsChecks::Removed(_) => unsafe {
            device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
        },
    }
}

/// Returns the token that enables experimental features.
pub(crate) fn experimental_features() -> wgpu::ExperimentalFeatures {
    // SAFETY: only kernels whose authors have promised to be in bounds reach an experimental
    // extension; see the head of this file.
    unsafe { wgpu::ExperimentalFeatures::enabled() }
}
