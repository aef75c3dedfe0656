//! Hits of fault masks, the blocks of several lanes at a time.

use aleatron_core::StreamAddress;
use aleatron_core::fault::FlipBlocks;
use aleatron_core::philox::{KEY_INCREMENTS, MULTIPLIERS, ROUNDS};

/// Blocks that are drawn together.
const LANES: usize = 16;

/// Rows of masks of which the hits within some positions are wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HitRows<'a> {
    pub(crate) blocks: &'a FlipBlocks,
    /// The first row.
    pub(crate) address: StreamAddress,
    pub(crate) n_rows: usize,
    /// The first block with a wanted position.
    pub(crate) first_block: u64,
    /// The number of blocks with wanted positions.
    pub(crate) n_blocks: usize,
    /// The first wanted position in the first block.
    pub(crate) first: u64,
    /// The number of wanted positions of a row.
    pub(crate) row_bits: u64,
}

/// Appends the hits of rows, as the index of the row times `row_bits` plus the position behind the
/// first wanted one, row after row.
pub(crate) fn hits(rows: HitRows<'_>, out: &mut Vec<u64>) {
    hits_of_lanes(rows, out);
}

/// The same, to be compiled for the instructions of a tier.
#[inline(always)]
pub(crate) fn hits_of_lanes(rows: HitRows<'_>, out: &mut Vec<u64>) {
    let HitRows { blocks, address, n_rows, first_block, n_blocks, first, row_bits } = rows;
    let unused = 32 - blocks.log2_bits();
    let (mut row, mut block, mut start) = (0, 0, out.len());
    let mut words = [[0u32; LANES]; FlipBlocks::MAX_HITS + 2];
    loop {
        // Lanes past the last block repeat it and have no hits.
        let mut counters = [[0u32; LANES]; 4];
        let [mut bases, mut origins] = [[0u64; LANES]; 2];
        let mut filled = 0;
        for lane in 0..LANES {
            if row == n_rows {
                break;
            }
            let of_row = address.at_row(address.row.wrapping_add(row as u32));
            let counter = FlipBlocks::counter(of_row, first_block + block as u64, 0);
            for (words, word) in counters.iter_mut().zip(counter) {
                words[lane] = word;
            }
            bases[lane] = ((block as u64) << blocks.log2_bits()).wrapping_sub(first);
            origins[lane] = row as u64 * row_bits;
            filled = lane + 1;
            block += 1;
            if block == n_blocks {
                (row, block) = (row + 1, 0);
            }
        }
        if filled == 0 {
            return;
        }
        let first_words = philox(&counters, address.key());
        let mut numbers = [0u64; LANES];
        for lane in 0..LANES {
            numbers[lane] = u64::from(first_words[1][lane]) << 32 | u64::from(first_words[0][lane]);
        }
        let mut n_hits = [0u64; LANES];
        for thresholds in blocks.thresholds().chunks(4) {
            let before = n_hits;
            for &threshold in thresholds {
                for lane in 0..LANES {
                    n_hits[lane] += u64::from(threshold <= numbers[lane]);
                }
            }
            if n_hits == before {
                break;
            }
        }
        let most = n_hits.iter().fold(0, |most, &n| most.max(n));
        words[..2].copy_from_slice(&first_words[2..]);
        for first in (2..most as usize).step_by(4) {
            for c0 in &mut counters[0] {
                *c0 += 1;
            }
            // There are at most 62 hits.
            words[first..first + 4].copy_from_slice(&philox(&counters, address.key()));
        }
        for lane in 0..filled {
            let n = n_hits[lane] as usize;
            // An entry that is not kept is overwritten by the next one: no branch depends on it.
            out.resize(start + n, 0);
            let (kept, mut end) = (&mut out[start..], 0);
            for words in &words[..n] {
                let position = bases[lane].wrapping_add(u64::from(words[lane] >> unused));
                kept[end] = origins[lane].wrapping_add(position);
                end += usize::from(position < row_bits);
            }
            start += end;
        }
        out.truncate(start);
    }
}

/// Philox of a counter in each lane. Words lie in 64 bits, the upper half of which is ignored:
/// vector registers multiply 32 bits to 64 in lanes of that size.
#[inline(always)]
fn philox(counters: &[[u32; LANES]; 4], key: [u32; 2]) -> [[u32; LANES]; 4] {
    const LOW: u64 = u32::MAX as u64;
    let [mut c0, mut c1, mut c2, mut c3] = counters.map(|words| words.map(u64::from));
    let [mut k0, mut k1] = key;
    for _ in 0..ROUNDS {
        for lane in 0..LANES {
            let p0 = (c0[lane] & LOW) * u64::from(MULTIPLIERS[0]);
            let p1 = (c2[lane] & LOW) * u64::from(MULTIPLIERS[1]);
            c0[lane] = p1 >> 32 ^ c1[lane] ^ u64::from(k0);
            c2[lane] = p0 >> 32 ^ c3[lane] ^ u64::from(k1);
            (c1[lane], c3[lane]) = (p1, p0);
        }
        k0 = k0.wrapping_add(KEY_INCREMENTS[0]);
        k1 = k1.wrapping_add(KEY_INCREMENTS[1]);
    }
    [c0, c1, c2, c3].map(|words| words.map(|word| word as u32))
}
