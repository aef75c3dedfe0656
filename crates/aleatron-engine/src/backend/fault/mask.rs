//! Fault masks of the weights of a layer.

use aleatron_core::fault::{FaultMask, FaultSite, Faults, Operand};
use aleatron_core::{Error, LayerSpec, Length, Quantity, Result, StreamAddress, Topology, memory};
use aleatron_cpu::{Cpu, MaskDrawer, MaskGrid, set_run, split_hit};

/// Flips the bits of `words` that `mask` has.
pub(super) fn flip(words: &mut [u64], mask: &[u64]) {
    words.iter_mut().zip(mask).for_each(|(word, mask)| *word ^= mask);
}

/// Returns a number as a field of a Philox counter.
pub(super) fn field(what: Quantity, value: usize) -> Result<u32> {
    let (actual, limit) = (value as u128, u32::MAX.into());
    u32::try_from(value).map_err(|_| Error::TooLarge { what, actual, limit })
}

/// The weights of a layer as rows of units.
pub(super) struct WeightGrid<'a> {
    pub(super) spec: &'a LayerSpec,
}

impl WeightGrid<'_> {
    /// Returns the mask of each weight of all rows for a site, in their order; `None` without
    /// faults. A mask has `length` bits.
    pub(super) fn masks(
        &self,
        cpu: &Cpu,
        masks: impl Iterator<Item = FaultMask>,
        length: Length,
        operand: Operand,
    ) -> Result<Option<Vec<u64>>> {
        let (spec, mut all) = (self.spec, None::<Vec<u64>>);
        let units = match spec.topology() {
            Topology::Conv(shape) => shape.kernel_weights(),
            topology => topology.n_inputs(),
        };
        let grid = MaskGrid { length, rows: spec.n_rows(), units };
        for mask in masks {
            let drawer = MaskDrawer::new(mask);
            let addresses = drawer.addresses(0, spec.first_neuron(), operand);
            let drawn = self.draw_rows(cpu, &drawer, addresses, grid, 0)?;
            match &mut all {
                Some(all) => flip(all, &drawn),
                None => all = Some(drawn),
            }
        }
        Ok(all)
    }

    /// Returns the masks of a grid whose first mask has the given addresses and whose first row is
    /// row `first` of weights; of sparse layers, those of connections alone.
    pub(super) fn draw_rows(
        &self,
        cpu: &Cpu,
        drawer: &MaskDrawer,
        addresses: [StreamAddress; 2],
        grid: MaskGrid,
        first: usize,
    ) -> Result<Vec<u64>> {
        let Topology::Sparse(connections) = self.spec.topology() else {
            return drawer.masks(cpu, addresses, grid);
        };
        let neurons = self.spec.neurons(first..first + grid.rows)?;
        let Topology::Sparse(own) = neurons.topology() else {
            return Err(Error::Internal { place: "engine::fault::WeightGrid::draw_rows" });
        };
        let (length, offsets) = (grid.length, own.offsets());
        let mut words: Vec<u64> =
            memory::zeros(own.len() as u128 * length.words() as u128, Quantity::Streams)?;
        let mut hits = Vec::new();
        for (row, &start) in offsets.iter().enumerate().take(grid.rows) {
            // One row at a time: hits of positions without connections are not worth memory.
            let at = addresses.map(|at| at.at_row(at.row.wrapping_add(row as u32)));
            hits.clear();
            if !drawer.hits(cpu, at, MaskGrid { rows: 1, ..grid }, &mut hits)? {
                drawer.compare_connections(cpu, addresses, own, length, &mut words)?;
                return Ok(words);
            }
            for &hit in &hits {
                let (unit, k) = split_hit(hit, length);
                if let Ok(slot) = connections.inputs_of(first + row).binary_search(&(unit as u32)) {
                    let stream = (start + slot) * length.words();
                    set_run(&mut words[stream..][..length.words()], k, drawer.cycles(), length);
                }
            }
        }
        Ok(words)
    }
}

/// Returns which operands of a grid have a stuck generator: for each, the level it is stuck at.
pub(super) fn stuck_at(zero: Option<&[u64]>, one: Option<&[u64]>, n: usize) -> Vec<Option<bool>> {
    let is_set = |mask: Option<&[u64]>, k: usize| {
        mask.and_then(|mask| mask.get(k)).is_some_and(|&bit| bit == 1)
    };
    let level = |k| match (is_set(zero, k), is_set(one, k)) {
        (_, true) => Some(true),
        (true, false) => Some(false),
        (false, false) => None,
    };
    (0..n).map(level).collect()
}

/// Returns the sites of generators that are stuck, at 0 and at 1.
pub(super) fn has_stuck(faults: &Faults) -> bool {
    faults.has(FaultSite::StuckAtZero) || faults.has(FaultSite::StuckAtOne)
}
