// 16-bit floats in words, converted in integers: every device rounds to nearest, ties to even, and keeps subnormal ones.

fn half_decode(half: u32) -> f32 {
    let sign = (half & 0x8000u) << 16u;
    let magnitude = half & 0x7fffu;
    var bits = (magnitude << 13u) + 0x38000000u;
    if (magnitude >= 0x7c00u) { bits = (magnitude << 13u) | 0x7f800000u; }
    if (magnitude < 0x0400u) {
        // 2^-14 and the bits, less 2^-14: both are normal floats.
        bits = bitcast<u32>(bitcast<f32>((magnitude << 13u) | 0x38800000u) - 6.103515625e-05);
    }
    return bitcast<f32>(bits | sign);
}

fn half_encode(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let sign = (bits >> 16u) & 0x8000u;
    let magnitude = bits & 0x7fffffffu;
    var half = (magnitude - 0x38000000u + 0x0fffu + ((magnitude >> 13u) & 1u)) >> 13u;
    // From 65520 on everything rounds to infinity.
    if (magnitude >= 0x477ff000u) { half = 0x7c00u; }
    if (magnitude > 0x7f800000u) { half = 0x7e00u; }
    if (magnitude < 0x38800000u) {
        // Adding 1/2 rounds to multiples of 2^-24.
        half = bitcast<u32>(bitcast<f32>(magnitude) + 0.5) - 0x3f000000u;
    }
    return half | sign;
}

fn half_decode2(word: u32) -> vec2<f32> { return vec2<f32>(half_decode(word & 0xffffu), half_decode(word >> 16u)); }
fn half_encode2(x: f32, y: f32) -> u32 { return half_encode(x) | (half_encode(y) << 16u); }

// The nearest 16-bit floats.
fn half_round(x: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(half_decode(half_encode(x.x)), half_decode(half_encode(x.y)),
                     half_decode(half_encode(x.z)), half_decode(half_encode(x.w)));
}
