// The high and low halves of a 32 x 32 bit product, with 64-bit integers.
fn mulhilo(a: u32, b: u32) -> vec2<u32> {
    let product = u64(a) * u64(b);
    return vec2<u32>(u32(product >> 32u), u32(product));
}
