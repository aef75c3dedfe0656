//! Packing and unpacking, eight bits per multiplication.

/// The low bit of each byte.
const LOW_BITS: u64 = 0x0101_0101_0101_0101;

/// Packs bytes, any byte other than 0 is a 1, 64 to a word; `out` holds `bits.len().div_ceil(64)`
/// words.
pub(crate) fn pack(bits: &[u8], out: &mut [u64]) {
    for (word, bits) in out.iter_mut().zip(bits.chunks(64)) {
        let (octets, rest) = bits.as_chunks::<8>();
        *word = 0;
        for (i, &octet) in octets.iter().enumerate() {
            *word |= u64::from(pack_octet(octet)) << (8 * i);
        }
        for (k, _) in rest.iter().enumerate().filter(|(_, bit)| **bit != 0) {
            *word |= 1 << (8 * octets.len() + k);
        }
    }
}

/// Packs eight bytes into eight bits.
fn pack_octet(bytes: [u8; 8]) -> u8 {
    let bytes = u64::from_le_bytes(bytes);
    // A byte is non-zero if adding 0x7f to its low seven bits carries into bit 7, or bit 7 is
    // already set.
    let nonzero = (((bytes & 0x7f * LOW_BITS) + 0x7f * LOW_BITS) | bytes) >> 7 & LOW_BITS;
    // Bit 8k times 2^(56 - 7k) is bit 56 + k, and no two partial products overlap.
    (nonzero.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

/// Unpacks bits to bytes; `words` holds at least `out.len().div_ceil(64)` words.
pub(crate) fn unpack(words: &[u64], out: &mut [u8]) {
    for (&word, bits) in words.iter().zip(out.chunks_mut(64)) {
        let (octets, rest) = bits.as_chunks_mut::<8>();
        let n_octets = octets.len();
        for (i, octet) in octets.iter_mut().enumerate() {
            *octet = unpack_octet((word >> (8 * i)) as u8);
        }
        for (k, bit) in rest.iter_mut().enumerate() {
            *bit = (word >> (8 * n_octets + k)) as u8 & 1;
        }
    }
}

/// Unpacks eight bits to eight bytes.
fn unpack_octet(bits: u8) -> [u8; 8] {
    // Copy the bits to every byte, select bit k in byte k, and normalize each byte to 0 or 1.
    let spread = (u64::from(bits) * LOW_BITS) & 0x8040_2010_0804_0201;
    ((spread + 0x7f * LOW_BITS) >> 7 & LOW_BITS).to_le_bytes()
}
