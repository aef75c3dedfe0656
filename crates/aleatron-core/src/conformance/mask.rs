//! The masks of a fault as a case.

use crate::fault::{FaultMask, FaultSite, Operand, plain};
use crate::stream::Length;

/// Fault masks at rows of consecutive units.
#[derive(Debug, Clone)]
pub struct MaskCase {
    /// The fault, in a layer.
    pub mask: FaultMask,
    /// The length of each mask.
    pub length: Length,
    /// The operand in the key.
    pub operand: Operand,
    /// The sample, which is the first row of sites whose rows are samples.
    pub sample: u32,
    /// The first row of other sites.
    pub row: u32,
    /// The first unit.
    pub unit: u32,
    /// The number of rows.
    pub n_rows: u32,
    /// The number of units in each row.
    pub n_units: u32,
}

impl MaskCase {
    /// Returns the masks by the plain definition, row after row.
    pub(super) fn answer(&self) -> Vec<u64> {
        let fault = self.mask.fault();
        let rows_are_samples = fault.is_per_sample()
            && matches!(
                fault.site(),
                FaultSite::Inputs
                    | FaultSite::Counters
                    | FaultSite::Accumulators
                    | FaultSite::Activations
            );
        let mut words = Vec::new();
        for k in 0..self.n_rows {
            let (sample, row) = match rows_are_samples {
                true => (self.sample + k, self.row),
                false => (self.sample, self.row + k),
            };
            for unit in (self.unit..=u32::MAX).take(self.n_units as usize) {
                let mask = plain::mask(&self.mask, self.length, self.operand, sample, row, unit);
                words.extend(mask.into_words());
            }
        }
        words
    }
}
