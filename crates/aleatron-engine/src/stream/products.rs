//! Sums of products in floating point, by the topology of a layer.

use crate::Result;
use aleatron_core::windows::Windows;
use aleatron_core::{ConvShape, Quantity, Topology, memory};
use std::ops::Range;

/// Returns the sum of each neuron's products for one sample. Inputs in the padding of a convolution
/// add nothing.
///
/// # Errors
/// Returns [`aleatron_core::Error::Memory`] if they would not fit.
pub(crate) fn sums(topology: &Topology, weights: &[f64], inputs: &[f64]) -> Result<Vec<f64>> {
    let dot = |row: &[f64], inputs: &[f64]| row.iter().zip(inputs).map(|(w, x)| w * x).sum();
    match topology {
        Topology::Dense { n_inputs, .. } => {
            Ok(weights.chunks_exact((*n_inputs).max(1)).map(|row| dot(row, inputs)).collect())
        }
        Topology::Conv(shape) => convolve(shape, weights, inputs),
        topology => {
            let mut sums: Vec<f64> =
                memory::zeros(topology.n_neurons() as u128, Quantity::Neurons)?;
            each_product(topology, |neuron, weight, input| {
                sums[neuron] += weights[weight] * inputs[input]
            });
            Ok(sums)
        }
    }
}

/// Visits every product of a layer: its neuron, and the indices of its weight and of its input.
pub fn each_product(topology: &Topology, mut visit: impl FnMut(usize, usize, usize)) {
    match topology {
        Topology::Sparse(connections) => {
            for neuron in 0..connections.n_neurons() {
                let first = connections.offsets()[neuron];
                for (k, &input) in connections.inputs_of(neuron).iter().enumerate() {
                    visit(neuron, first + k, input as usize);
                }
            }
        }
        Topology::Conv(shape) => {
            let (positions, taps) = (shape.n_positions(), shape.kernel_weights());
            for neuron in 0..shape.n_outputs() {
                let (channel, position) = (neuron / positions, neuron % positions);
                let first_channel = shape.first_input_channel(channel);
                for tap in 0..taps {
                    if let Some(input) = shape.input_at(first_channel, position, tap) {
                        visit(neuron, channel * taps + tap, input);
                    }
                }
            }
        }
        topology => {
            let n = topology.n_inputs();
            for weight in 0..topology.n_weights() {
                visit(weight / n.max(1), weight, weight % n.max(1));
            }
        }
    }
}

/// Computes a convolution of one sample: each weight is added at all its positions at once, so that
/// the inner loop runs over a row.
fn convolve(shape: &ConvShape, weights: &[f64], image: &[f64]) -> Result<Vec<f64>> {
    let ([over_rows, over_columns], [_, rows, columns]) = (shape.windows(), shape.output());
    let [height, width] = shape.convolution().kernel;
    let [_, image_rows, image_columns] = shape.convolution().input;
    let stride = over_columns.axis().stride;
    // The positions along a row at which a tap is inside the image, and its input position at the
    // first of them.
    let inside: Vec<(Range<usize>, usize)> =
        (0..width).map(|tap| positions(over_columns, tap)).collect();
    let mut sums: Vec<f64> = memory::zeros(shape.n_outputs() as u128, Quantity::Neurons)?;
    let kernels = weights.chunks_exact(shape.kernel_weights().max(1));
    for (channel, (kernel, sums)) in kernels.zip(sums.chunks_exact_mut(rows * columns)).enumerate()
    {
        let first_channel = shape.first_input_channel(channel);
        for (tap, &weight) in kernel.iter().enumerate() {
            let (plane, tap_row) = (first_channel + tap / (height * width), tap / width % height);
            let (positions, first) = &inside[tap % width];
            for (row, sums) in sums.chunks_exact_mut(columns).enumerate() {
                let Some(image_row) = over_rows.at(row, tap_row).filter(|_| !positions.is_empty())
                else {
                    continue;
                };
                let under = &image[(plane * image_rows + image_row) * image_columns + first..];
                let sums = sums[positions.clone()].iter_mut();
                match stride {
                    1 => sums.zip(under).for_each(|(sum, x)| *sum += weight * x),
                    _ => sums
                        .zip(under.iter().step_by(stride))
                        .for_each(|(sum, x)| *sum += weight * x),
                }
            }
        }
    }
    Ok(sums)
}

/// Returns the windows in which a tap is inside the image, and its position in the first of them.
fn positions(windows: &Windows, tap: usize) -> (Range<usize>, usize) {
    let is_inside = |window: &usize| windows.at(*window, tap).is_some();
    let first = (0..windows.len()).find(is_inside).unwrap_or(windows.len());
    let last = (first..windows.len()).rev().find(is_inside).map_or(first, |last| last + 1);
    // There is no window after the last, and no position for it.
    let position = if first < last { windows.at(first, tap) } else { None };
    (first..last, position.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use aleatron_core::Convolution;

    /// Whole numbers, so that the order of the sums makes no difference.
    #[test]
    fn convolutions_equal_sums_of_products() {
        let conv = Convolution::conv2d;
        for convolution in [
            conv([2, 4, 5], 3, [3, 2]).with_padding([1, 1]),
            conv([4, 5, 5], 2, [3, 3])
                .with_groups(2)
                .with_stride([2, 3])
                .with_paddings([[0, 2], [3, 0]]),
            conv([1, 6, 7], 1, [2, 3]).with_dilation([2, 3]).with_padding([2, 2]),
            conv([1, 1, 1], 2, [1, 1]).with_padding([2, 1]),
            conv([1, 1, 1], 1, [1, 1]).with_paddings([[1, 0], [1, 0]]).with_stride([1 << 63; 2]),
            Convolution::conv1d([3, 20], 2, 4).with_stride([1, 3]),
        ] {
            let topology = Topology::Conv(ConvShape::new(convolution).unwrap());
            let number = |k: usize| ((7 * k + 3) % 23) as f64 - 11.0;
            let weights: Vec<f64> = (0..topology.n_weights()).map(number).collect();
            let inputs: Vec<f64> = (5..5 + topology.n_inputs()).map(number).collect();
            let mut expected = vec![0.0; topology.n_neurons()];
            let mut products = 0;
            each_product(&topology, |neuron, weight, input| {
                expected[neuron] += weights[weight] * inputs[input];
                products += 1;
            });
            assert_eq!(sums(&topology, &weights, &inputs).unwrap(), expected, "{convolution:?}");
            assert_eq!(products, topology.n_products());
        }
    }
    #[test]
    fn sparse_layers_sum_existing_connections() {
        let mask = [true, false, true, false, true, true];
        let connections = aleatron_core::Connections::from_mask(&mask, 3).unwrap();
        let topology = Topology::Sparse(connections.into());
        let found = sums(&topology, &[2.0, 3.0, 5.0, 7.0], &[1.0, 10.0, 100.0]).unwrap();
        assert_eq!(found, [2.0 + 300.0, 50.0 + 700.0]);
    }
}
