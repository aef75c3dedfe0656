//! Recording the kernels of a pass.

use std::sync::Arc;

use aleatron_device::{
    AdapterKind, Bound, BufferView, GpuBuffer, GpuContext, MatrixElement, Recorder, grid, size_u32,
};
use bytemuck::Pod;

use super::kernels::{
    ActivateParams, AttentionParams, CombineParams, EmbedParams, Epilogue, LoraDownParams,
    LoraUpParams, NormParams, PassKernel, Product, ProductKind, ProductParams, RotateParams,
    SampleParams,
};
use super::memory::{DeviceMatrix, DeviceNorm};
use super::{DeviceLayer, WgslForwardPass};
use crate::config::{Activation, Config, NormKind, Precision};
use crate::error::{Error, Result};
use crate::sampling::Sampling;
use crate::weights::{Matrix, Slot};

/// The largest number of rows for which a product reads the weights once.
pub(super) const FEW: usize = 16;

/// The largest number of rows that a product normalises itself, in the registers of one lane.
const NORMED_ROWS: usize = 2;

/// The largest number of positions of a single workgroup: combining parts takes another kernel.
const UNSPLIT: usize = 128;

/// The largest number of positions of a workgroup if several share them.
const PART: usize = 64;

/// The number of workgroups of attention that keep a large device busy.
const BUSY: usize = 512;

/// Returns the length of a row of activations of this width.
pub(super) fn padded(width: usize) -> usize {
    width.next_multiple_of(Matrix::PADDING)
}

/// The kinds of products that a device supports well.
#[derive(Debug, Clone, Copy)]
pub(super) struct Abilities {
    pub(super) subgroups_of_32: bool,
    /// The number of lanes of a subgroup, if it is fixed and 8, 16 or 32.
    pub(super) subgroup: Option<u32>,
    pub(super) matrices: bool,
    pub(super) sample_threads: u32,
}

impl Abilities {
    pub(super) fn of(context: &GpuContext) -> Self {
        let (info, can) = (context.info(), context.capabilities());
        let [least, most] = info.subgroup_lanes;
        let subgroup =
            Some(most).filter(|_| can.subgroups && least == most && [8, 16, 32].contains(&most));
        let subgroups_of_32 = subgroup == Some(32);
        let fits = info.cooperative_matrices.iter().any(|matrix| {
            [matrix.m, matrix.n, matrix.k] == [16; 3]
                && matrix.operands == MatrixElement::F16
                && matrix.sums == MatrixElement::F32
        });
        let many = info.max_workgroup_threads >= 1024 && info.kind != AdapterKind::Software;
        let room = info.workgroup_bytes >= 48 << 10;
        Self {
            subgroups_of_32,
            subgroup,
            matrices: subgroups_of_32 && can.float16 && can.cooperative_matrices && fits && room,
            sample_threads: if many { 1024 } else { 256 },
        }
    }
}

/// The activations of a pass, reused between calls.
#[derive(Debug)]
pub(super) struct Buffers {
    /// The capacity in rows.
    pub(super) rows: usize,
    pub(super) tokens: GpuBuffer<u32>,
    pub(super) x: GpuBuffer<f32>,
    pub(super) normed: GpuBuffer<f32>,
    pub(super) qkv: GpuBuffer<f32>,
    pub(super) queries: GpuBuffer<f32>,
    pub(super) heads: GpuBuffer<f32>,
    pub(super) up: GpuBuffer<f32>,
    pub(super) inner: GpuBuffer<f32>,
    pub(super) ranks: GpuBuffer<f32>,
}

impl Buffers {
    pub(super) fn new(
        context: &Arc<GpuContext>,
        config: &Config,
        rows: usize,
        rank: usize,
        head4: usize,
    ) -> Result<Self> {
        let mut recorder = context.recorder(None)?;
        let mut buffer = |width: usize| -> Result<GpuBuffer<f32>> {
            let buffer = context.buffer::<f32>(rows * padded(width))?;
            // Padding is read and never written.
            recorder.clear(buffer.view())?;
            Ok(buffer)
        };
        let buffers = Self {
            rows,
            tokens: context.buffer(rows * 4)?,
            x: buffer(config.hidden)?,
            normed: buffer(config.hidden)?,
            qkv: buffer(config.qkv_rows())?,
            queries: buffer(config.heads * head4 * 4)?,
            heads: buffer(config.query_width())?,
            up: buffer(config.up_rows())?,
            inner: buffer(config.inner)?,
            ranks: buffer(rank.max(1))?,
        };
        recorder.submit()?;
        Ok(buffers)
    }
}

/// The parameters of a launch.
#[derive(Debug, Clone, Copy)]
struct Params {
    words: [u32; 8],
    len: usize,
}

impl Params {
    fn of(params: &impl Pod) -> Self {
        let given: &[u32] = bytemuck::cast_slice(std::slice::from_ref(params));
        let mut words = [0; 8];
        words[..given.len()].copy_from_slice(given);
        Self { words, len: given.len() }
    }
}

/// A kernel, ready to be dispatched.
#[derive(Debug)]
struct Launch {
    bound: Bound,
    params: Params,
    grid: [u32; 3],
    bytes: u64,
}

/// Kernels in their order. Looking up their pipelines and buffers takes longer than dispatching
/// them, so those of a step are cached for the next.
#[derive(Debug, Default)]
pub(super) struct Launches(Vec<Launch>);

impl Launches {
    pub(super) fn play(&self, recorder: &mut Recorder<'_>) -> Result<()> {
        for Launch {
            bound,
            params: Params { words: words @ [a, b, c, d, e, f, ..], len },
            grid,
            bytes,
        } in &self.0
        {
            match len {
                2 => recorder.dispatch(bound, &[*a, *b], *grid, *bytes)?,
                3 => recorder.dispatch(bound, &[*a, *b, *c], *grid, *bytes)?,
                4 => recorder.dispatch(bound, &[*a, *b, *c, *d], *grid, *bytes)?,
                5 => recorder.dispatch(bound, &[*a, *b, *c, *d, *e], *grid, *bytes)?,
                6 => recorder.dispatch(bound, &[*a, *b, *c, *d, *e, *f], *grid, *bytes)?,
                8 => recorder.dispatch(bound, words, *grid, *bytes)?,
                _ => return Err(Error::Internal { place: "parameters of a launch" }),
            }
        }
        Ok(())
    }
}

/// The rows of one submission.
#[derive(Debug, Clone)]
pub(super) struct Work<'a> {
    /// Token, slot, position and adapter of each row.
    pub(super) tokens: &'a GpuBuffer<u32>,
    pub(super) rows: usize,
    /// The largest number of positions that a row attends to.
    pub(super) positions: usize,
    /// The adapters in use.
    pub(super) adapters: Vec<usize>,
}

impl Work<'_> {
    fn row_count(&self) -> Result<u32> {
        Ok(size_u32(self.rows, "rows")?)
    }
}

impl WgslForwardPass {
    fn launch<P: Pod>(
        &self,
        launches: &mut Launches,
        kernel: PassKernel,
        views: &[BufferView<'_>],
        params: &P,
        grid: [u32; 3],
        bytes: u64,
    ) -> Result<()> {
        let pipeline = self.context.pipeline(&kernel, &[])?;
        let bound = self.context.bind(&pipeline, views)?;
        launches.0.push(Launch { bound, params: Params::of(params), grid, bytes });
        Ok(())
    }

    /// Records all layers, from tokens to the residual stream.
    pub(super) fn record_layers(&self, launches: &mut Launches, work: &Work<'_>) -> Result<()> {
        self.record_embedding(launches, work)?;
        for (index, layer) in self.layers.iter().enumerate() {
            self.record_layer(launches, work, index, layer)?;
        }
        Ok(())
    }

    fn record_embedding(&self, launches: &mut Launches, work: &Work<'_>) -> Result<()> {
        let vectors = padded(self.config.hidden) / 4;
        let kernel = PassKernel::Embed {
            precision: self.embedding.precision,
            learned: self.positions.is_some(),
        };
        for part in &self.embedding.parts {
            let mut views = vec![
                work.tokens.view_of(0, work.rows * 4)?,
                part.data.view(),
                self.buffers.x.view(),
            ];
            views.extend(part.scales.as_ref().map(GpuBuffer::view));
            views.extend(self.positions.as_ref().map(GpuBuffer::view));
            let params = EmbedParams {
                first: size_u32(part.first, "first token of a part")?,
                n_rows: size_u32(part.rows, "tokens of a part")?,
                vectors: size_u32(vectors, "vectors of a row")?,
            };
            let grid = [size_u32(vectors.div_ceil(64), "blocks of a row")?, work.row_count()?, 1];
            self.launch(
                launches,
                kernel,
                &views,
                &params,
                grid,
                (work.rows * vectors * 32) as u64,
            )?;
        }
        Ok(())
    }

    fn record_layer(
        &self,
        launches: &mut Launches,
        work: &Work<'_>,
        index: usize,
        layer: &DeviceLayer,
    ) -> Result<()> {
        let (b, m) = (&self.buffers, work.rows);
        self.record_normed(
            launches,
            work,
            (&layer.attention_norm, &layer.qkv),
            &b.qkv,
            Epilogue::Store,
        )?;
        self.record_loras(launches, work, index, Slot::Qkv, &b.normed, &b.qkv)?;
        self.record_attention(launches, work, index)?;
        self.record_product(launches, &layer.output, (&b.heads, None), &b.x, m, Epilogue::Add)?;
        self.record_loras(launches, work, index, Slot::Output, &b.heads, &b.x)?;
        let activation = self.config.activation;
        let up = (&layer.feed_forward_norm, &layer.up);
        if self.has_lora(work, index, Slot::Up) {
            // An adapter adds to the input of the function, which then cannot be fused with the
            // product.
            self.record_normed(launches, work, up, &b.up, Epilogue::Store)?;
            self.record_loras(launches, work, index, Slot::Up, &b.normed, &b.up)?;
            let inner = self.config.inner;
            let params = ActivateParams {
                inner: size_u32(inner, "inner size")?,
                up_stride: size_u32(padded(self.config.up_rows()), "padded rows of gates")?,
                out_stride: size_u32(padded(inner), "padded inner size")?,
            };
            let grid = [size_u32(inner.div_ceil(64), "blocks of a row")?, work.row_count()?, 1];
            let views = [b.up.view(), b.inner.view()];
            self.launch(
                launches,
                PassKernel::Activate(activation),
                &views,
                &params,
                grid,
                (m * inner * 12) as u64,
            )?;
        } else {
            let epilogue = match activation {
                Activation::GatedSilu => Epilogue::GatedSilu,
                Activation::GeluTanh => Epilogue::Gelu,
            };
            self.record_normed(launches, work, up, &b.inner, epilogue)?;
        }
        self.record_product(launches, &layer.down, (&b.inner, None), &b.x, m, Epilogue::Add)?;
        self.record_loras(launches, work, index, Slot::Down, &b.inner, &b.x)
    }

    /// Records a product with the normalised residual stream: in one kernel for very few rows,
    /// whose norm every workgroup computes itself. Adapters need the normalised rows.
    fn record_normed(
        &self,
        launches: &mut Launches,
        work: &Work<'_>,
        (norm, matrix): (&DeviceNorm, &DeviceMatrix),
        out: &GpuBuffer<f32>,
        epilogue: Epilogue,
    ) -> Result<()> {
        let (b, rows) = (&self.buffers, work.rows);
        if rows <= NORMED_ROWS && self.config.norm == NormKind::Rms && work.adapters.is_empty() {
            return self.record_product(launches, matrix, (&b.x, Some(norm)), out, rows, epilogue);
        }
        self.record_norm(launches, norm, None, rows)?;
        self.record_product(launches, matrix, (&b.normed, None), out, rows, epilogue)
    }

    /// Normalises the residual stream: all rows, or those of a list.
    pub(super) fn record_norm(
        &self,
        launches: &mut Launches,
        norm: &DeviceNorm,
        selection: Option<BufferView<'_>>,
        rows: usize,
    ) -> Result<()> {
        let kernel = PassKernel::Norm { kind: self.config.norm, selected: selection.is_some() };
        let mut views = vec![self.buffers.x.view(), norm.weight.view(), self.buffers.normed.view()];
        views.extend(norm.bias.as_ref().map(GpuBuffer::view));
        views.extend(selection);
        let (width, vectors) = (self.config.hidden, padded(self.config.hidden) / 4);
        let params = NormParams {
            vectors: size_u32(vectors, "vectors of a row")?,
            width: size_u32(width, "hidden size")?,
            epsilon: self.config.norm_epsilon,
        };
        let grid = [size_u32(rows, "rows")?, 1, 1];
        self.launch(launches, kernel, &views, &params, grid, (rows * vectors * 32) as u64)
    }

    /// Returns the algorithm of the products of a matrix with this many rows.
    fn product_kind(&self, matrix: &DeviceMatrix, rows: usize) -> Result<ProductKind> {
        let Abilities { subgroups_of_32, subgroup, .. } = self.abilities;
        if rows <= NORMED_ROWS {
            let rows = size_u32(rows.next_power_of_two(), "rows")?;
            return Ok(ProductKind::Few { rows, subgroups_of_32 });
        }
        if rows <= FEW {
            // Three and four rows take less time as eight rows than lane by lane.
            let rows = size_u32(rows.next_power_of_two().max(8), "rows")?;
            return Ok(ProductKind::Rows { rows, subgroup });
        }
        if self.abilities.matrices
            && matrix.precision != Precision::F32
            && matrix.stride.is_multiple_of(32)
        {
            let tiles = matrix.rows.div_ceil(128) * rows.div_ceil(64);
            // Larger tiles reuse more, smaller ones keep more of the device busy.
            return Ok(ProductKind::Matrices { tile: if tiles >= 256 { 128 } else { 64 } });
        }
        Ok(ProductKind::Tiles)
    }

    /// Records the products of a matrix with the first rows of activations, as rows of activations.
    fn record_product(
        &self,
        launches: &mut Launches,
        matrix: &DeviceMatrix,
        inputs: (&GpuBuffer<f32>, Option<&DeviceNorm>),
        out: &GpuBuffer<f32>,
        rows: usize,
        epilogue: Epilogue,
    ) -> Result<()> {
        let width = match epilogue {
            Epilogue::GatedSilu => matrix.rows / 2,
            _ => matrix.rows,
        };
        self.record_product_to(launches, matrix, inputs, (out, padded(width)), rows, epilogue)
    }

    /// Like [`Self::record_product`], with a stride of the rows of results.
    fn record_product_to(
        &self,
        launches: &mut Launches,
        matrix: &DeviceMatrix,
        (x, norm): (&GpuBuffer<f32>, Option<&DeviceNorm>),
        (out, out_stride): (&GpuBuffer<f32>, usize),
        rows: usize,
        epilogue: Epilogue,
    ) -> Result<()> {
        let kind = self.product_kind(matrix, rows)?;
        let (precision, has_bias) = (matrix.precision, matrix.bias.is_some());
        let product = Product { kind, precision, epilogue, has_bias, normed: norm.is_some() };
        for part in &matrix.parts {
            let mut views = vec![part.data.view(), x.view(), out.view()];
            views.extend(matrix.bias.as_ref().map(GpuBuffer::view));
            views.extend(part.scales.as_ref().map(GpuBuffer::view));
            views.extend(norm.map(|norm| norm.weight.view()));
            let stride = size_u32(matrix.stride, "weights of a row")?;
            let params = ProductParams {
                n_rows: size_u32(part.rows, "rows of weights of a part")?,
                first: size_u32(part.first, "first row of weights of a part")?,
                k_vectors: stride / product.vector_weights(),
                x_stride: stride / 4,
                out_stride: size_u32(out_stride, "padded width of results")?,
                m: size_u32(rows, "rows")?,
                epsilon: self.config.norm_epsilon,
                width: self.config.hidden as f32,
            };
            let across = params.n_rows.div_ceil(product.rows_of_workgroup());
            let down = params.m.div_ceil(product.activations_of_workgroup());
            let grid = match kind {
                ProductKind::Few { .. } | ProductKind::Rows { .. } => {
                    grid(across.into(), self.context.info().max_workgroups)?
                }
                _ => [across, down, 1],
            };
            let bytes = part.data.len() + rows * (matrix.stride + part.rows) * 4;
            self.launch(
                launches,
                PassKernel::Product(product),
                &views,
                &params,
                grid,
                bytes as u64,
            )?;
        }
        Ok(())
    }

    fn has_lora(&self, work: &Work<'_>, layer: usize, slot: Slot) -> bool {
        work.adapters.iter().any(|&adapter| self.adapters[adapter][layer][slot as usize].is_some())
    }

    /// Records the corrections of adapters to a product.
    fn record_loras(
        &self,
        launches: &mut Launches,
        work: &Work<'_>,
        layer: usize,
        slot: Slot,
        x: &GpuBuffer<f32>,
        out: &GpuBuffer<f32>,
    ) -> Result<()> {
        let [n_rows, width] = slot.shape(&self.config);
        for &adapter in &work.adapters {
            let Some(lora) = &self.adapters[adapter][layer][slot as usize] else { continue };
            let (tokens, ranks) = (work.tokens.view_of(0, work.rows * 4)?, &self.buffers.ranks);
            let adapter = size_u32(adapter + 1, "number of an adapter")?;
            let rank = size_u32(lora.rank, "rank of an adapter")?;
            let params = LoraDownParams {
                adapter,
                width: size_u32(width, "width of inputs")?,
                x_stride: size_u32(padded(width), "padded width of inputs")?,
                rank,
            };
            let views = [tokens, lora.a.view(), x.view(), ranks.view()];
            let bytes = (lora.a.len() + work.rows * width) as u64 * 4;
            self.launch(
                launches,
                PassKernel::LoraDown,
                &views,
                &params,
                [rank, work.row_count()?, 1],
                bytes,
            )?;
            let params = LoraUpParams {
                adapter,
                n_rows: size_u32(n_rows, "width of results")?,
                out_stride: size_u32(padded(n_rows), "padded width of results")?,
                rank,
            };
            let views = [tokens, lora.b.view(), ranks.view(), out.view()];
            let grid = [size_u32(n_rows.div_ceil(64), "blocks of a row")?, work.row_count()?, 1];
            let bytes = (lora.b.len() + work.rows * n_rows * 2) as u64 * 4;
            self.launch(launches, PassKernel::LoraUp, &views, &params, grid, bytes)?;
        }
        Ok(())
    }

    fn record_attention(
        &self,
        launches: &mut Launches,
        work: &Work<'_>,
        layer: usize,
    ) -> Result<()> {
        let (config, b, heads) = (&self.config, &self.buffers, self.heads);
        let [keys, values] = &self.cache.layers[layer];
        let (rows, row_count) = (work.rows, work.row_count()?);
        let capacity = size_u32(self.cache.capacity, "positions of the cache")?;
        let tokens = work.tokens.view_of(0, rows * 4)?;
        let kernel = PassKernel::Rotate { heads, rotary: self.cache.rotations.is_some() };
        let mut views = vec![tokens, b.qkv.view(), b.queries.view(), keys.view(), values.view()];
        views.extend(self.cache.rotations.as_ref().map(GpuBuffer::view));
        let qkv_stride =
            size_u32(padded(config.qkv_rows()), "padded width of queries, keys and values")?;
        let params = RotateParams { n_rows: row_count, qkv_stride, capacity };
        let threads = (config.heads + 2 * config.kv_heads) * heads.head4() as usize;
        let grid = [size_u32(threads.div_ceil(64), "blocks of a row")?, row_count, 1];
        self.launch(
            launches,
            kernel,
            &views,
            &params,
            grid,
            (rows * config.qkv_rows() * 8) as u64,
        )?;

        let out_stride = size_u32(padded(config.query_width()), "padded width of heads")?;
        let tiles = size_u32(config.kv_heads * heads.tiles() as usize, "tiles of heads")?;
        let positions =
            config.window(layer).map_or(work.positions, |window| window.min(work.positions));
        let window = config
            .window(layer)
            .map_or(Ok(u32::MAX), |window| size_u32(window, "sliding window"))?;
        let splits = self.splits(rows, positions);
        let split_count = size_u32(splits, "parts of attention")?;
        let scale = 1.0 / (config.head_dim as f32).sqrt();
        let params = AttentionParams { capacity, out_stride, splits: split_count, scale, window };
        let grid = [row_count, tiles, split_count];
        let bytes = (rows * positions * config.kv_width()) as u64 * heads.vector_bytes() as u64 / 2;
        let kernel = PassKernel::Attention { heads, split: splits > 1 };
        let target = if splits > 1 { self.partial.view() } else { b.heads.view() };
        let views = [tokens, b.queries.view(), keys.view(), values.view(), target];
        self.launch(launches, kernel, &views, &params, grid, bytes)?;
        if splits > 1 {
            let params = CombineParams { out_stride, splits: split_count };
            let grid = [row_count, size_u32(config.heads, "number of heads")?, 1];
            let bytes = (rows * config.query_width() * 4 * (splits + 1)) as u64;
            let views = [self.partial.view(), b.heads.view()];
            self.launch(launches, PassKernel::Combine { heads }, &views, &params, grid, bytes)?;
        }
        Ok(())
    }

    /// Returns the number of workgroups that share the positions of one row. The number doubles, so
    /// that the kernels of steps are seldom recorded again.
    pub(super) fn splits(&self, rows: usize, positions: usize) -> usize {
        if positions <= UNSPLIT {
            return 1;
        }
        let others = rows * self.config.kv_heads * self.heads.tiles() as usize;
        let parts = positions.div_ceil(PART).next_power_of_two();
        (BUSY / others.max(1)).clamp(1, parts).min(self.most_splits(rows))
    }

    /// Returns the largest number of parts of attention that fit the buffer.
    fn most_splits(&self, rows: usize) -> usize {
        let part = (self.heads.head4() as usize + 1) * 4;
        (self.partial.len() / (rows * self.config.heads * part)).max(1)
    }

    /// Records the logits of the normalised rows.
    pub(super) fn record_head(
        &self,
        launches: &mut Launches,
        logits: &GpuBuffer<f32>,
        rows: usize,
    ) -> Result<()> {
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        // Logits are not padded: nothing multiplies them.
        let out = (logits, self.config.vocabulary);
        self.record_product_to(
            launches,
            head,
            (&self.buffers.normed, None),
            out,
            rows,
            Epilogue::Store,
        )
    }

    /// Records the choice of a token for each row of logits, and stores it for the next step.
    pub(super) fn record_sample(
        &self,
        launches: &mut Launches,
        tokens: &GpuBuffer<u32>,
        selection: BufferView<'_>,
        next: &GpuBuffer<u32>,
        rows: usize,
        sampling: &Sampling,
    ) -> Result<()> {
        let kernel = PassKernel::Sample { threads: self.abilities.sample_threads };
        let views = [self.logits.view(), tokens.view(), selection, next.view(), self.chosen.view()];
        let [seed_low, seed_high] = aleatron_core::philox::key(sampling.seed);
        let params = SampleParams {
            vocabulary: size_u32(self.config.vocabulary, "vocabulary size")?,
            scale: if sampling.temperature > 0.0 { 1.0 / sampling.temperature } else { 0.0 },
            top_k: sampling.top_k,
            top_p: sampling.top_p,
            seed_low,
            seed_high,
        };
        let bytes = (rows * self.config.vocabulary * 4) as u64;
        self.launch(launches, kernel, &views, &params, [size_u32(rows, "rows")?, 1, 1], bytes)
    }
}
