//! Activity of the adders of a parallel counter: changes of their outputs, including glitches.

use crate::verilog::Counter;

/// An adder of up to three bits of one weight. The highest weight has no carries.
struct Adder {
    inputs: [u32; 3],
    sum: u32,
    carry: Option<u32>,
}

/// A simulation of the adders of an accumulative parallel counter. Each adder takes one unit of
/// time, so that an output changes several times if the inputs of its adder arrive at different
/// times.
pub(super) struct Adders {
    adders: Vec<Adder>,
    /// The adders that read each net, in one list, and the offset of each net in it.
    readers: Vec<u32>,
    first_reader: Vec<u32>,
    values: Vec<bool>,
    /// The adders whose inputs have changed.
    pending: Vec<u32>,
    is_pending: Vec<bool>,
    /// The first bit of the count; the counted bits precede it.
    count: usize,
    width: usize,
    /// Whether each net is one of the new count.
    is_sum: Vec<bool>,
    /// The changes of outputs so far.
    pub(super) toggles: u64,
    /// The changes of the bits of the new count so far.
    pub(super) sum_toggles: u64,
}

impl Adders {
    /// Creates the adders with all nets at 0.
    pub(super) fn new(counter: Counter) -> Self {
        let width = counter.count as usize;
        let count = counter.inputs;
        // The net after the count is always 0.
        let zero = (count + width) as u32;
        let mut n_nets = count + width + 1;
        let mut columns: Vec<Vec<u32>> =
            (0..width).map(|weight| vec![(count + weight) as u32]).collect();
        if let Some(first) = columns.first_mut() {
            first.splice(0..0, 0..count as u32);
        }
        let (mut adders, mut sums) = (Vec::new(), Vec::new());
        let mut net = || {
            n_nets += 1;
            (n_nets - 1) as u32
        };
        let mut carries: Vec<u32> = Vec::new();
        for (weight, mut column) in columns.into_iter().enumerate() {
            column.append(&mut carries);
            while column.len() > 1 {
                // Adders in a vector take the first third of the bits, the second and the last.
                let n = (column.len() / 3).max(1);
                let taken: Vec<u32> = column.drain(..column.len().min(3 * n)).collect();
                for k in 0..n {
                    let bit = |part: usize| taken.get(part * n + k).copied().unwrap_or(zero);
                    let carry = (weight + 1 < width).then(&mut net);
                    let adder = Adder { inputs: [bit(0), bit(1), bit(2)], sum: net(), carry };
                    column.push(adder.sum);
                    carries.extend(adder.carry);
                    adders.push(adder);
                }
            }
            sums.extend(column);
        }
        let mut first_reader = vec![0_u32; n_nets + 1];
        let inputs = |adder: &Adder| adder.inputs.into_iter().filter(move |&net| net != zero);
        adders.iter().flat_map(inputs).for_each(|net| first_reader[net as usize + 1] += 1);
        for k in 0..n_nets {
            first_reader[k + 1] += first_reader[k];
        }
        let mut next = first_reader.clone();
        let mut readers = vec![0; first_reader.last().copied().unwrap_or(0) as usize];
        for (k, adder) in adders.iter().enumerate() {
            for net in inputs(adder) {
                readers[next[net as usize] as usize] = k as u32;
                next[net as usize] += 1;
            }
        }
        let mut is_sum = vec![false; n_nets];
        sums.iter().for_each(|&net| is_sum[net as usize] = true);
        Self {
            is_pending: vec![false; adders.len()],
            adders,
            readers,
            first_reader,
            values: vec![false; n_nets],
            pending: Vec::new(),
            count,
            width,
            is_sum,
            toggles: 0,
            sum_toggles: 0,
        }
    }

    /// Sets a counted bit.
    pub(super) fn set_bit(&mut self, index: usize, value: bool) {
        if index < self.count {
            self.change(index as u32, value);
        }
    }

    /// Sets the count so far.
    pub(super) fn set_count(&mut self, count: u64) {
        for bit in 0..self.width {
            self.change((self.count + bit) as u32, bit < 64 && count >> bit & 1 == 1);
        }
    }

    /// Advances by a number of units of time, fewer if nothing changes any more.
    pub(super) fn advance(&mut self, units: usize) {
        let mut changes = Vec::new();
        for _ in 0..units {
            if self.pending.is_empty() {
                return;
            }
            for k in std::mem::take(&mut self.pending) {
                self.is_pending[k as usize] = false;
                let adder = &self.adders[k as usize];
                let ones = adder.inputs.iter().filter(|&&net| self.values[net as usize]).count();
                changes.push((adder.sum, ones & 1 == 1));
                changes.extend(adder.carry.map(|carry| (carry, ones > 1)));
            }
            for (net, value) in changes.drain(..) {
                if self.change(net, value) {
                    self.toggles += 1;
                    self.sum_toggles += u64::from(self.is_sum[net as usize]);
                }
            }
        }
    }

    /// Advances until nothing changes any more; adders have no loops.
    pub(super) fn settle(&mut self) {
        self.advance(usize::MAX);
    }

    /// Resets the changes so far.
    pub(super) fn reset_toggles(&mut self) {
        (self.toggles, self.sum_toggles) = (0, 0);
    }

    /// Sets a net. Returns whether it has changed.
    fn change(&mut self, net: u32, value: bool) -> bool {
        let net = net as usize;
        if self.values[net] == value {
            return false;
        }
        self.values[net] = value;
        for k in self.first_reader[net]..self.first_reader[net + 1] {
            let adder = self.readers[k as usize];
            if !std::mem::replace(&mut self.is_pending[adder as usize], true) {
                self.pending.push(adder);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number at the sums, which are in the order of their weights.
    fn sum(adders: &Adders) -> u64 {
        let sums = (0..adders.values.len()).filter(|&net| adders.is_sum[net]);
        sums.enumerate().map(|(k, net)| u64::from(adders.values[net]) << k).sum()
    }

    #[test]
    fn adders_add_their_bits_to_the_count() {
        for (inputs, count) in [(1, 3), (5, 6), (16, 9), (64, 13)] {
            let counter = Counter { inputs, count };
            let mut adders = Adders::new(counter);
            let full = adders.adders.iter().filter(|adder| {
                adder.carry.is_some() && adder.inputs[2] != (inputs + count as usize) as u32
            });
            assert_eq!(full.count(), counter.size().full);
            let mut state = 1_u64;
            for _ in 0..50 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (bits, before) = (state >> 7, state >> 40 & ((1 << count) - 1));
                let ones = (0..inputs).filter(|k| bits >> (k % 57) & 1 == 1).count() as u64;
                (0..inputs).for_each(|k| adders.set_bit(k, bits >> (k % 57) & 1 == 1));
                adders.set_count(before);
                adders.settle();
                assert_eq!(sum(&adders), (before + ones) % (1 << count), "{inputs} {count}");
            }
        }
    }

    #[test]
    fn glitches_of_a_chain_are_counted() {
        // One bit and a count of 2 bits: s0 = b + c0, carry into s1 = c1 ^ carry. All of 1: s0
        // stays 0 from 1 + 1, its carry rises, and s1 rises with c1 at the first unit of
        // time and falls with the carry at the second.
        let mut adders = Adders::new(Counter { inputs: 1, count: 2 });
        adders.set_bit(0, true);
        adders.set_count(0b11);
        adders.settle();
        assert_eq!((adders.toggles, adders.sum_toggles), (3, 2));
    }
}
