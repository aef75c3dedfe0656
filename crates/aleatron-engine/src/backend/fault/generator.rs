//! Streams of shared sequences whose generators start from faulty states.

use super::mask::field;
use aleatron_core::fault::{
    FaultSite, Faults, Operand, encode_faulty, sequence_of_input, sequence_of_weight,
};
use aleatron_core::threshold::magnitude;
use aleatron_core::{
    InputSource, LayerSpec, Length, OperandSequences, Quantity, Result, Topology, WeightSource,
};
use aleatron_cpu::{Cpu, MaskDrawer, MaskGrid};

/// The shared sequences of an operand whose generators have faults.
struct FaultySequences<'a> {
    cpu: &'a Cpu,
    spec: &'a LayerSpec,
    mask: MaskDrawer,
    sequences: OperandSequences,
    operand: Operand,
}

impl FaultySequences<'_> {
    /// Writes the stream of a threshold under sequence number `q`.
    fn encode(&self, q: usize, threshold: u64, out: &mut [u64]) -> Result<()> {
        let unit = field(Quantity::Sequence, q)?;
        let addresses =
            self.mask.addresses(0, 0, self.operand).map(|address| address.at_unit(unit));
        let length = Length::new(self.sequences.width().bits() as usize)?;
        let drawn = self.mask.masks(self.cpu, addresses, MaskGrid { length, rows: 1, units: 1 })?;
        // A sequence has at most 32 bits.
        let mask = drawn.first().map_or(0, |&mask| mask as u32);
        let sequence = self.sequences.first.nth(q)?;
        out.copy_from_slice(
            encode_faulty(&sequence, mask, magnitude(threshold), self.spec.length())?.words(),
        );
        Ok(())
    }
}

/// Replaces the weight streams of thresholds by those of faulty generators, if the weights have
/// shared sequences.
pub(super) fn replace_weights(
    cpu: &Cpu,
    spec: &LayerSpec,
    faults: &Faults,
    thresholds: &[u64],
    streams: &mut [u64],
) -> Result<()> {
    let own = faults.at(FaultSite::Generators, spec.index()).next();
    let (Some(mask), WeightSource::Sequences(sequences)) = (own, spec.encoding().weight_source())
    else {
        return Ok(());
    };
    let faulty = FaultySequences {
        cpu,
        spec,
        mask: MaskDrawer::new(mask),
        sequences,
        operand: Operand::Weights,
    };
    let first = spec.first_neuron() as usize;
    let numbers: Vec<usize> = match spec.topology() {
        Topology::Sparse(connections) => {
            let units =
                |j: usize| connections.inputs_of(j).iter().map(move |&unit| (j, unit as usize));
            let units = (0..connections.n_neurons()).flat_map(units);
            units
                .map(|(j, i)| sequence_of_weight(&sequences, first + j, i, spec.n_inputs()))
                .collect()
        }
        _ => {
            let n = spec.n_weights() / spec.n_rows();
            (0..spec.n_weights())
                .map(|k| sequence_of_weight(&sequences, first + k / n, k % n, n))
                .collect()
        }
    };
    let streams = streams.chunks_exact_mut(spec.length().words());
    for ((stream, &threshold), q) in streams.zip(thresholds).zip(numbers) {
        faulty.encode(q, threshold, stream)?;
    }
    Ok(())
}

/// Replaces the input streams of thresholds by those of faulty generators, if the inputs have
/// shared sequences.
pub(super) fn replace_inputs(
    cpu: &Cpu,
    spec: &LayerSpec,
    faults: &Faults,
    thresholds: &[u64],
    streams: &mut [u64],
) -> Result<()> {
    let own = faults.at(FaultSite::Generators, spec.index()).next();
    let (Some(mask), InputSource::Sequences(sequences)) = (own, spec.encoding().input_source())
    else {
        return Ok(());
    };
    let faulty = FaultySequences {
        cpu,
        spec,
        mask: MaskDrawer::new(mask),
        sequences,
        operand: Operand::Inputs,
    };
    let streams = streams.chunks_exact_mut(spec.length().words());
    for (k, (stream, &threshold)) in streams.zip(thresholds).enumerate() {
        let q = sequence_of_input(&sequences, k % spec.n_inputs());
        faulty.encode(q, threshold, stream)?;
    }
    Ok(())
}
