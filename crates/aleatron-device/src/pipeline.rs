//! Pipelines, compiled from kernels once per device, and bound to buffers.
//!
//! A pipeline is a [`Kernel`] with values for its override constants; [`GpuContext::pipeline`]
//! compiles each pair once, and [`GpuContext::bind`] creates one bind group for the same pipeline
//! and buffers.

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::buffer::{BufferView, RawBuffer};
use crate::capability::Capabilities;
use crate::context::{Checks, GpuContext, lock};
use crate::error::{Error, Limit, Owner, Result};
use crate::kernel::{Access, BoundsChecks, ConstantValue, Constants, Kernel};
use crate::record::check_grid;
use crate::size::size_u32;
use crate::trusted;

/// The shader extension that wgpu calls experimental and contexts enable.
const EXPERIMENTAL: &str = "wgpu_cooperative_matrix";

/// Constants as cache keys.
type OwnedConstants = Vec<(String, ConstantValue)>;

/// The compiled form of one kernel: its module, and a pipeline for each set of constants.
struct Compiled {
    /// The kernel, of any type.
    kernel: Box<dyn Any + Send>,
    module: wgpu::ShaderModule,
    pipelines: Vec<(OwnedConstants, Arc<Pipeline>)>,
}

/// A kernel of any type. Compiling the functions below for each type would not pay.
trait AnyKernel {
    /// Returns the hash of the type and the value.
    fn hash(&self) -> u64;

    /// Returns whether a cached kernel is this one.
    fn is(&self, cached: &dyn Any) -> bool;

    /// Returns a copy for the cache.
    fn to_cached(&self) -> Box<dyn Any + Send>;

    fn name(&self) -> Cow<'static, str>;
    fn source(&self, capabilities: Capabilities) -> Cow<'static, str>;
    fn bindings(&self) -> Cow<'static, [Access]>;
    fn immediate_bytes(&self) -> usize;
    fn checks(&self) -> BoundsChecks;
}

impl<K: Kernel> AnyKernel for K {
    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (TypeId::of::<K>(), self).hash(&mut hasher);
        hasher.finish()
    }

    fn is(&self, cached: &dyn Any) -> bool {
        cached.downcast_ref::<K>().is_some_and(|cached| cached == self)
    }

    fn to_cached(&self) -> Box<dyn Any + Send> {
        Box::new(self.clone())
    }

    fn name(&self) -> Cow<'static, str> {
        Kernel::name(self)
    }

    fn source(&self, capabilities: Capabilities) -> Cow<'static, str> {
        Kernel::source(self, capabilities)
    }

    fn bindings(&self) -> Cow<'static, [Access]> {
        Kernel::bindings(self)
    }

    fn immediate_bytes(&self) -> usize {
        Kernel::immediate_bytes(self)
    }

    fn checks(&self) -> BoundsChecks {
        Kernel::checks(self)
    }
}

impl Compiled {
    fn pipeline(&self, constants: Constants<'_>) -> Option<Arc<Pipeline>> {
        let same = |cached: &[(String, ConstantValue)]| {
            cached.iter().map(|(name, value)| (name.as_str(), *value)).eq(constants.iter().copied())
        };
        self.pipelines
            .iter()
            .find(|(cached, _)| same(cached))
            .map(|(_, pipeline)| Arc::clone(pipeline))
    }
}

/// The pipelines of a device, by the hash of their kernels. They live as long as the device: a
/// program has a bounded number of kernels.
#[derive(Default)]
pub(crate) struct Pipelines {
    compiled: HashMap<u64, Vec<Compiled>>,
}

impl Pipelines {
    fn get(&mut self, hash: u64, kernel: &dyn AnyKernel) -> Option<&mut Compiled> {
        self.compiled.get_mut(&hash)?.iter_mut().find(|compiled| kernel.is(&*compiled.kernel))
    }
}

/// A kernel compiled for a device.
pub struct Pipeline {
    id: u64,
    context: u64,
    name: Cow<'static, str>,
    raw: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
    bindings: Cow<'static, [Access]>,
    immediate_bytes: usize,
    checks: BoundsChecks,
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("name", &self.name)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Pipeline {
    /// Returns the name of the kernel.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether it was compiled with run-time checks.
    #[must_use]
    pub fn checks(&self) -> BoundsChecks {
        self.checks
    }
}

impl GpuContext {
    /// Returns the pipeline of a kernel with these constants, compiled on first use.
    ///
    /// # Errors
    /// Returns [`Error::Validation`] if the shader or a constant is invalid, [`Error::TooLarge`] if
    /// its parameters are too large.
    pub fn pipeline<K: Kernel>(
        &self,
        kernel: &K,
        constants: Constants<'_>,
    ) -> Result<Arc<Pipeline>> {
        self.pipeline_of(kernel, constants)
    }

    fn pipeline_of(
        &self,
        kernel: &dyn AnyKernel,
        constants: Constants<'_>,
    ) -> Result<Arc<Pipeline>> {
        self.check()?;
        let hash = kernel.hash();
        let checks = match self.checks() {
            Checks::AsDeclared => kernel.checks(),
            Checks::Always => BoundsChecks::Enabled,
        };
        // Locked while compiling, so that nothing is compiled twice.
        let mut pipelines = lock(&self.pipelines);
        let module = match pipelines.get(hash, kernel) {
            Some(compiled) => match compiled.pipeline(constants) {
                Some(pipeline) => return Ok(pipeline),
                None => compiled.module.clone(),
            },
            None => {
                let (name, source) = (kernel.name(), kernel.source(self.capabilities()));
                if kernel.checks() == BoundsChecks::Enabled && source.contains(EXPERIMENTAL) {
                    let feature = "experimental extensions in kernels with run-time checks";
                    return Err(Error::Unsupported { adapter: self.name().to_owned(), feature });
                }
                let module =
                    self.scoped(|device| trusted::shader_module(device, &name, source, checks))?;
                let kernel = kernel.to_cached();
                let compiled = Compiled { kernel, module: module.clone(), pipelines: Vec::new() };
                pipelines.compiled.entry(hash).or_default().push(compiled);
                module
            }
        };
        let pipeline = Arc::new(self.compile(kernel, &module, checks, constants)?);
        self.counters.pipelines.fetch_add(1, Ordering::Relaxed);
        if let Some(compiled) = pipelines.get(hash, kernel) {
            let constants =
                constants.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
            compiled.pipelines.push((constants, Arc::clone(&pipeline)));
        }
        Ok(pipeline)
    }

    fn compile(
        &self,
        kernel: &dyn AnyKernel,
        module: &wgpu::ShaderModule,
        checks: BoundsChecks,
        constants: Constants<'_>,
    ) -> Result<Pipeline> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let (immediate_bytes, limit) = (kernel.immediate_bytes(), self.info().max_immediate_bytes);
        let immediate_size = match u32::try_from(immediate_bytes) {
            Ok(size) if size <= limit => size,
            _ => {
                let actual = immediate_bytes as u128;
                return Err(Error::TooLarge {
                    what: Limit::ImmediateBytes,
                    actual,
                    limit: limit.into(),
                });
            }
        };
        let (name, bindings) = (kernel.name(), kernel.bindings());
        let label = Some(&*name);
        let entries: Vec<_> =
            (0..).zip(&*bindings).map(|(binding, &access)| layout_entry(binding, access)).collect();
        let values: Vec<(&str, f64)> =
            constants.iter().map(|&(name, value)| (name, value.as_f64())).collect();
        let (raw, layout) = self.scoped(|device| {
            let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                label,
                entries: &entries,
            });
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
            (raw, layout)
        })?;
        Ok(Pipeline {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            context: self.id(),
            name,
            raw,
            layout,
            bindings,
            immediate_bytes,
            checks,
        })
    }

    /// Binds a pipeline to its buffers; the bind group of the same buffers is created once.
    ///
    /// # Errors
    /// Returns [`Error::Arguments`] for another number of buffers than the kernel declares,
    /// [`Error::Foreign`] for a buffer of another device, [`Error::EmptyBinding`] for a view
    /// without elements, [`Error::Unaligned`] for a view that does not begin at a multiple of
    /// [`Self::binding_alignment`], [`Error::TooLarge`] above the largest binding,
    /// [`Error::Aliased`] if a buffer is bound both for reading and for writing.
    pub fn bind(&self, pipeline: &Arc<Pipeline>, buffers: &[BufferView<'_>]) -> Result<Bound> {
        self.check_bindings(pipeline, buffers)?;
        let key: BindKey =
            (pipeline.id, buffers.iter().map(|v| [v.raw.id(), v.offset, v.bytes]).collect());
        let buffers_in_use = buffers.iter().map(|view| Arc::clone(view.raw)).collect();
        let bound =
            |group| Bound { pipeline: Arc::clone(pipeline), group, buffers: buffers_in_use };
        let mut bind_groups = lock(&self.bind_groups);
        if let Some(group) = bind_groups.cached.get(&key) {
            return Ok(bound(group.clone()));
        }
        let entries: Vec<_> =
            (0..).zip(buffers).map(|(binding, view)| group_entry(binding, view)).collect();
        let descriptor = wgpu::BindGroupDescriptor {
            label: Some(&*pipeline.name),
            layout: &pipeline.layout,
            entries: &entries,
        };
        let group = self.scoped(|device| device.create_bind_group(&descriptor))?;
        self.counters.bind_groups.fetch_add(1, Ordering::Relaxed);
        if bind_groups.cached.len() >= MAX_BIND_GROUPS {
            bind_groups.cached.clear();
        }
        bind_groups.cached.insert(key, group.clone());
        Ok(bound(group))
    }

    fn check_bindings(&self, pipeline: &Pipeline, buffers: &[BufferView<'_>]) -> Result<()> {
        if pipeline.context != self.id() {
            let [owner, user] = [pipeline.context, self.id()].map(Owner::Context);
            return Err(Error::Foreign { what: "pipeline", owner, user });
        }
        let (expected, actual) = (pipeline.bindings.len(), buffers.len());
        if expected != actual {
            let kernel = pipeline.name.clone();
            return Err(Error::Arguments { kernel, what: "buffers", expected, actual });
        }
        let (limit, alignment) = (self.info().max_binding_bytes, self.binding_alignment());
        for (binding, view) in buffers.iter().enumerate() {
            view.check_owner(self.id())?;
            if view.is_empty() {
                return Err(Error::EmptyBinding { kernel: pipeline.name.clone(), binding });
            }
            if view.bytes > limit {
                return Err(Error::TooLarge {
                    what: Limit::BindingBytes,
                    actual: view.bytes.into(),
                    limit,
                });
            }
            if !view.offset.is_multiple_of(alignment) {
                return Err(Error::Unaligned { offset: view.offset, alignment });
            }
            // A buffer is read or written by a dispatch, whichever its parts are.
            let other =
                buffers[..binding].iter().zip(&*pipeline.bindings).position(|(earlier, access)| {
                    earlier.raw.id() == view.raw.id() && *access != pipeline.bindings[binding]
                });
            if let Some(first) = other {
                let bindings = [first, binding];
                return Err(Error::Aliased { kernel: pipeline.name.clone(), bindings });
            }
        }
        Ok(())
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
            buffer: view.raw.buffer(),
            offset: view.offset,
            // Whole words, as bindings require; memory is allocated in them.
            size: wgpu::BufferSize::new(view.bytes.next_multiple_of(4)),
        }),
    }
}

/// The largest number of cached bind groups; a program that binds more different sets starts over.
const MAX_BIND_GROUPS: usize = 4096;

type BindKey = (u64, Vec<[u64; 3]>);

#[derive(Debug, Default)]
pub(crate) struct BindGroups {
    cached: HashMap<BindKey, wgpu::BindGroup>,
}

impl BindGroups {
    /// Drops the bind groups of a buffer before it is freed.
    pub(crate) fn evict_buffer(&mut self, buffer: u64) {
        self.cached.retain(|(_, buffers), _| buffers.iter().all(|[id, ..]| *id != buffer));
    }
}

/// A pipeline bound to its buffers, ready to be dispatched. It keeps the memory of its buffers
/// alive.
#[derive(Debug, Clone)]
pub struct Bound {
    pipeline: Arc<Pipeline>,
    group: wgpu::BindGroup,
    #[expect(dead_code, reason = "held, not read: the memory must not be reused meanwhile")]
    buffers: Arc<[Arc<RawBuffer>]>,
}

impl Bound {
    /// Returns the pipeline.
    #[must_use]
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    pub(crate) fn name(&self) -> Cow<'static, str> {
        self.pipeline.name.clone()
    }

    /// Checks the arguments of a dispatch.
    pub(crate) fn check_launch(
        &self,
        context: &GpuContext,
        params: &[u8],
        grid: [u32; 3],
    ) -> Result<()> {
        let (owner, user) = (self.pipeline.context, context.id());
        if owner != user {
            let [owner, user] = [owner, user].map(Owner::Context);
            return Err(Error::Foreign { what: "pipeline", owner, user });
        }
        check_params(&self.pipeline, params)?;
        check_grid(grid, context.info().max_workgroups)
    }

    /// Records one validated dispatch.
    pub(crate) fn dispatch(
        &self,
        pass: &mut wgpu::ComputePass<'_>,
        params: &[u8],
        [x, y, z]: [u32; 3],
    ) {
        pass.set_pipeline(&self.pipeline.raw);
        pass.set_bind_group(0, &self.group, &[]);
        if !params.is_empty() {
            pass.set_immediates(0, params);
        }
        pass.dispatch_workgroups(x, y, z);
    }
}

fn check_params(pipeline: &Pipeline, params: &[u8]) -> Result<()> {
    let (expected, actual) = (pipeline.immediate_bytes, params.len());
    if expected == actual {
        return Ok(());
    }
    let kernel = pipeline.name.clone();
    Err(Error::Arguments { kernel, what: "bytes of parameters", expected, actual })
}

/// Returns `total` workgroups as a grid whose sides do not exceed the device's limit. Kernels
/// number them `id.x + id.y * count.x` and ignore those from `total` on.
///
/// # Errors
/// Returns [`Error::TooLarge`] above the square of the limit or 2^32.
pub fn grid(total: u64, limit: u32) -> Result<[u32; 3]> {
    let most = max_grid(limit);
    if total > most {
        return Err(Error::TooLarge { what: Limit::Workgroups, actual: total.into(), limit: most });
    }
    let total = total.max(1);
    let y = total.div_ceil(u64::from(limit.max(1)));
    let [x, y] = [total.div_ceil(y), y].map(|side| size_u32(side, "workgroups of a side"));
    Ok([x?, y?, 1])
}

/// Returns the number of workgroups of the largest [`grid`]. Larger work needs several launches.
#[must_use]
pub fn max_grid(limit: u32) -> u64 {
    let side = u64::from(limit.max(1));
    // The grid of a total may have a row more than the total needs; its numbers, too, must fit 32
    // bits.
    (side * side).min(u64::from(u32::MAX) - side.min(1 << 16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_cover_all_workgroups_within_the_limit() {
        for total in [0u64, 1, 2, 65_535, 65_536, 65_537, 1_000_003, max_grid(65_535)] {
            let [x, y, z] = grid(total, 65_535).unwrap();
            assert!(x <= 65_535 && y <= 65_535 && z == 1);
            let covered = u64::from(x) * u64::from(y);
            assert!(
                covered >= total && covered - total.min(covered) <= u64::from(y),
                "{total}: {x} x {y}"
            );
            assert!(covered <= u64::from(u32::MAX), "{total}: {x} x {y}");
        }
        assert!(grid(max_grid(65_535) + 1, 65_535).is_err());
        assert!(grid(1 << 32, u32::MAX).is_err());
        assert!(grid(17, 4).is_err());
        assert_eq!(grid(16, 4).unwrap(), [4, 4, 1]);
    }
}
