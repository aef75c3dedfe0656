//! Kernels, and the pipelines made of them once per device.
//!
//! A [`Kernel`] is one value of an enum: its WGSL, its bindings, the bytes of its parameters. A pipeline is a
//! kernel with values for its override constants; [`GpuContext::pipeline`] makes each pair once. Another
//! crate brings kernels of its own by implementing [`Kernel`] for its own enum.

use std::any::TypeId;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::adapter::Capabilities;
use crate::buffer::BufferView;
use crate::context::{GpuContext, lock};
use crate::error::{Error, Limit, Result};

/// What a kernel does with a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reads it.
    Read,
    /// Reads and writes it.
    ReadWrite,
}

/// A compute shader with the entry point `main`, its buffers at `@group(0) @binding(0)`, `@binding(1)`, … and its
/// parameters in `var<immediate>`.
pub trait Kernel: Copy + 'static {
    /// Its name, unique in its type.
    fn name(self) -> &'static str;

    /// Its WGSL for a device with these abilities.
    fn source(self, capabilities: Capabilities) -> Cow<'static, str>;

    /// What it does with its buffers, in order of their bindings.
    fn bindings(self) -> &'static [Access];

    /// The bytes of its parameters, a multiple of 4.
    fn immediate_bytes(self) -> u32;
}

/// Values of override constants, in order of their names; booleans are 0 or 1.
pub type Constants<'a> = &'a [(&'static str, u32)];

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    family: TypeId,
    name: &'static str,
    constants: Vec<(&'static str, u32)>,
}

#[derive(Default)]
pub(crate) struct Pipelines {
    made: HashMap<Key, Arc<Pipeline>>,
    modules: HashMap<(TypeId, &'static str), wgpu::ShaderModule>,
}

/// A kernel compiled for a device.
pub struct Pipeline {
    id: u64,
    context: u64,
    name: &'static str,
    raw: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
    n_bindings: usize,
    immediate_bytes: usize,
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("name", &self.name).field("id", &self.id).finish_non_exhaustive()
    }
}

impl GpuContext {
    /// The pipeline of a kernel with these constants, compiled on first use.
    ///
    /// # Errors
    /// [`Error::Validation`] where the shader is wrong, [`Error::TooLarge`] where its parameters are too many.
    pub fn pipeline<K: Kernel>(&self, kernel: K, constants: Constants<'_>) -> Result<Arc<Pipeline>> {
        self.check()?;
        let (family, name) = (TypeId::of::<K>(), kernel.name());
        let key = Key { family, name, constants: constants.to_vec() };
        let mut pipelines = lock(&self.pipelines);
        if let Some(pipeline) = pipelines.made.get(&key) {
            return Ok(Arc::clone(pipeline));
        }
        let module = match pipelines.modules.get(&(family, name)) {
            Some(module) => module.clone(),
            None => {
                let source = wgpu::ShaderSource::Wgsl(kernel.source(self.capabilities()));
                let descriptor = wgpu::ShaderModuleDescriptor { label: Some(name), source };
                let module = self.scoped(|device| device.create_shader_module(descriptor))?;
                pipelines.modules.insert((family, name), module.clone());
                module
            }
        };
        let pipeline = Arc::new(self.compile(kernel, &module, constants)?);
        self.counters.pipelines.fetch_add(1, Ordering::Relaxed);
        pipelines.made.insert(key, Arc::clone(&pipeline));
        Ok(pipeline)
    }

    fn compile<K: Kernel>(
        &self,
        kernel: K,
        module: &wgpu::ShaderModule,
        constants: Constants<'_>,
    ) -> Result<Pipeline> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let immediate_size = kernel.immediate_bytes();
        let limit = self.device().limits().max_immediate_size;
        if immediate_size > limit {
            let actual = immediate_size.into();
            return Err(Error::TooLarge { what: Limit::ImmediateBytes, actual, limit: limit.into() });
        }
        let label = Some(kernel.name());
        let entries: Vec<_> =
            (0..).zip(kernel.bindings()).map(|(binding, &access)| layout_entry(binding, access)).collect();
        let values: Vec<(&str, f64)> =
            constants.iter().map(|&(name, value)| (name, f64::from(value))).collect();
        self.scoped(|device| {
            let layout = device
                .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label, entries: &entries });
            let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label,
                bind_group_layouts: &[Some(&layout)],
                immediate_size,
            });
            let raw = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label,
                layout: Some(&pipeline_layout),
                module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions {
                    constants: &values,
                    // Kernels write shared memory before they read it.
                    zero_initialize_workgroup_memory: false,
                },
                cache: None,
            });
            Pipeline {
                id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
                context: self.id(),
                name: kernel.name(),
                raw,
                layout,
                n_bindings: entries.len(),
                immediate_bytes: immediate_size as usize,
            }
        })
    }

    /// A pipeline with its buffers, the same object for the same buffers.
    ///
    /// # Errors
    /// [`Error::Arguments`] for another number of buffers than the kernel declares, [`Error::ForeignBuffer`] for
    /// a buffer of another device, [`Error::TooLarge`] past the largest binding.
    pub fn bind(&self, pipeline: &Arc<Pipeline>, buffers: &[BufferView<'_>]) -> Result<Bound> {
        if buffers.len() != pipeline.n_bindings {
            return Err(Error::Arguments {
                kernel: pipeline.name,
                what: "buffers",
                expected: pipeline.n_bindings,
                actual: buffers.len(),
            });
        }
        let owners = buffers.iter().map(|view| view.context).chain([pipeline.context]);
        if let Some(owner) = owners.into_iter().find(|&owner| owner != self.id()) {
            let name = |id| format!("device {id}");
            return Err(Error::ForeignBuffer { owner: name(owner), user: name(self.id()) });
        }
        let limit = self.info().max_binding_bytes;
        if let Some(view) = buffers.iter().find(|view| view.bytes > limit) {
            return Err(Error::TooLarge { what: Limit::BindingBytes, actual: view.bytes.into(), limit });
        }
        let key: BindKey = (pipeline.id, buffers.iter().map(|v| [v.raw.id, v.offset, v.bytes]).collect());
        let mut bind_groups = lock(&self.bind_groups);
        if let Some(group) = bind_groups.made.get(&key) {
            return Ok(Bound { pipeline: Arc::clone(pipeline), group: group.clone() });
        }
        let entries: Vec<_> = (0..).zip(buffers).map(|(binding, view)| group_entry(binding, view)).collect();
        let descriptor = wgpu::BindGroupDescriptor {
            label: Some(pipeline.name),
            layout: &pipeline.layout,
            entries: &entries,
        };
        let group = self.scoped(|device| device.create_bind_group(&descriptor))?;
        self.counters.bind_groups.fetch_add(1, Ordering::Relaxed);
        if bind_groups.made.len() >= KEPT_BIND_GROUPS {
            bind_groups.made.clear();
        }
        bind_groups.made.insert(key, group.clone());
        Ok(Bound { pipeline: Arc::clone(pipeline), group })
    }
}

fn layout_entry(binding: u32, access: Access) -> wgpu::BindGroupLayoutEntry {
    wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty: wgpu::BufferBindingType::Storage { read_only: access == Access::Read },
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    }
}

fn group_entry<'a>(binding: u32, view: &BufferView<'a>) -> wgpu::BindGroupEntry<'a> {
    wgpu::BindGroupEntry {
        binding,
        resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
            buffer: &view.raw.buffer,
            offset: view.offset,
            size: wgpu::BufferSize::new(view.bytes),
        }),
    }
}

/// Bind groups kept; a program that binds more different sets than this starts over.
const KEPT_BIND_GROUPS: usize = 4096;

type BindKey = (u64, Vec<[u64; 3]>);

#[derive(Debug, Default)]
pub(crate) struct BindGroups {
    made: HashMap<BindKey, wgpu::BindGroup>,
}

impl BindGroups {
    /// Drops the bind groups of a buffer that is to be freed.
    pub(crate) fn forget(&mut self, buffer: u64) {
        self.made.retain(|(_, buffers), _| buffers.iter().all(|[id, ..]| *id != buffer));
    }
}

/// A pipeline with its buffers, ready to be dispatched.
#[derive(Debug, Clone)]
pub struct Bound {
    pipeline: Arc<Pipeline>,
    group: wgpu::BindGroup,
}

impl Bound {
    /// The name of the kernel.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.pipeline.name
    }

    /// Records one dispatch.
    pub(crate) fn dispatch(
        &self,
        pass: &mut wgpu::ComputePass<'_>,
        immediates: &[u8],
        [x, y, z]: [u32; 3],
    ) -> Result<()> {
        if immediates.len() != self.pipeline.immediate_bytes {
            return Err(Error::Arguments {
                kernel: self.pipeline.name,
                what: "bytes of parameters",
                expected: self.pipeline.immediate_bytes,
                actual: immediates.len(),
            });
        }
        pass.set_pipeline(&self.pipeline.raw);
        pass.set_bind_group(0, &self.group, &[]);
        if !immediates.is_empty() {
            pass.set_immediates(0, immediates);
        }
        pass.dispatch_workgroups(x, y, z);
        Ok(())
    }
}

/// `total` workgroups as a grid no side of which passes the device's limit. Kernels number them
/// `id.x + id.y * count.x` and ignore those past `total`.
///
/// # Errors
/// [`Error::TooLarge`] past the square of the limit or 2^32.
pub fn grid(total: u64, limit: u32) -> Result<[u32; 3]> {
    let side = u64::from(limit);
    let most = (side * side).min(u64::from(u32::MAX));
    if total > most {
        return Err(Error::TooLarge { what: Limit::Workgroups, actual: total.into(), limit: most });
    }
    let total = total.max(1);
    let y = total.div_ceil(side);
    Ok([total.div_ceil(y) as u32, y as u32, 1])
}

#[cfg(test)]
mod tests {
    use super::grid;

    #[test]
    fn grids_cover_all_workgroups_within_the_limit() {
        for total in [0u64, 1, 2, 65_535, 65_536, 65_537, 1_000_003, 65_535 * 65_535] {
            let [x, y, z] = grid(total, 65_535).unwrap();
            assert!(x <= 65_535 && y <= 65_535 && z == 1);
            let covered = u64::from(x) * u64::from(y);
            assert!(covered >= total && covered - total.min(covered) <= u64::from(y), "{total}: {x} x {y}");
        }
        assert!(grid(65_535 * 65_535 + 1, 65_535).is_err());
        assert!(grid(1 << 32, u32::MAX).is_err());
        assert!(grid(17, 4).is_err());
        assert_eq!(grid(16, 4).unwrap(), [4, 4, 1]);
    }
}
