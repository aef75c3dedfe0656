// Sine and cosine: the counterpart of trig.rs. Large arguments are reduced in integers, by the bits of 2 / pi that matter for them.

const REDUCED: f32 = 8192.0;

struct Turned { r: vec4<f32>, quarters: vec4<i32> }

fn turn_near(x: vec4<f32>) -> Turned {
    let n = round(x * 0.6366197466850281);
    let r = (((x - n * 1.5703125) - n * 0.0004837512969970703) - n * 7.549533620476723e-08) - n * 2.5633440682570896e-12;
    return Turned(r, vec4<i32>(n));
}

// Bits 32 i to 32 i + 31 of the fraction of 2 / pi.
fn two_over_pi(i: u32) -> u32 {
    switch i {
        case 0u: { return 0xa2f9836eu; }
        case 1u: { return 0x4e441529u; }
        case 2u: { return 0xfc2757d1u; }
        case 3u: { return 0xf534ddc0u; }
        case 4u: { return 0xdb629599u; }
        case 5u: { return 0x3c439041u; }
        case 6u: { return 0xfe5163abu; }
        default: { return 0u; }
    }
}

// Bits first to first + 31 of it; those before the point are 0.
fn two_over_pi_from(first: i32) -> u32 {
    if (first <= -32) { return 0u; }
    if (first < 0) { return two_over_pi(0u) >> u32(-first); }
    let word = u32(first) / 32u;
    let shift = u32(first) % 32u;
    let high = two_over_pi(word) << shift;
    if (shift == 0u) { return high; }
    return high | (two_over_pi(word + 1u) >> (32u - shift));
}

fn mul_high(a: u32, b: u32) -> u32 {
    let a0 = a & 0xffffu; let a1 = a >> 16u;
    let b0 = b & 0xffffu; let b1 = b >> 16u;
    let middle = a1 * b0 + ((a0 * b0) >> 16u);
    let other = a0 * b1 + (middle & 0xffffu);
    return a1 * b1 + (middle >> 16u) + (other >> 16u);
}

struct TurnedOne { r: f32, quarters: i32 }

// x = m 2^e with m of 24 bits. The product of m and 2 / pi, modulo 4, in 32-bit words below the bits of the quarters.
fn turn_far(x: f32) -> TurnedOne {
    let bits = bitcast<u32>(x) & 0x7fffffffu;
    let m = ((bits & 0x007fffffu) | 0x00800000u) << 8u;
    let e = i32(bits >> 23u) - 150 - 8;
    // Words of 2 / pi from the bit on whose product with m is below 4: bit i weighs 2^-(i + 1), and m 2^e its 2^(e + 32).
    let first = e - 2;
    let a0 = two_over_pi_from(first);
    let a1 = two_over_pi_from(first + 32);
    let a2 = two_over_pi_from(first + 64);
    // The words of the product from the second on; the first is a multiple of 4.
    let low2 = mul_high(m, a2);
    let low1 = m * a1;
    let w2 = low1 + low2;
    var carry = select(0u, 1u, w2 < low1);
    let high1 = mul_high(m, a1);
    let w1 = m * a0 + high1 + carry;
    // w1 has the quarters in its first two bits, and the fraction of a quarter after them.
    var quarters = i32(w1 >> 30u);
    var f1 = (w1 << 2u) | (w2 >> 30u);
    var f2 = w2 << 2u;
    // To the nearest quarter.
    let is_upper = f1 >= 0x80000000u;
    if (is_upper) {
        quarters += 1;
        f2 = ~f2 + 1u;
        f1 = ~f1 + select(0u, 1u, f2 == 0u);
    }
    // Leading zeros are shifted out, so that the float has all its bits.
    if (f1 == 0u) { f1 = f2; f2 = 0u; return finish_turn(x, f1, f2, -32, quarters, is_upper); }
    return finish_turn(x, f1, f2, 0, quarters, is_upper);
}

fn finish_turn(x: f32, f1: u32, f2: u32, e: i32, quarters: i32, is_upper: bool) -> TurnedOne {
    let zeros = countLeadingZeros(f1);
    var top = f1 << zeros;
    if (zeros > 0u && zeros < 32u) { top |= f2 >> (32u - zeros); }
    // top 2^-32 2^-zeros quarters.
    var r = f32(top) * bitcast<f32>(u32(127 - 32 - i32(zeros) + e) << 23u) * 1.5707963705062866;
    if (is_upper != (bitcast<u32>(x) >= 0x80000000u)) { r = -r; }
    return TurnedOne(r, select(quarters, -quarters, bitcast<u32>(x) >= 0x80000000u));
}

fn sin_of_turned(t: Turned, plus: i32) -> vec4<f32> {
    let y = t.r * t.r;
    var s = vec4<f32>(2.7248777314525796e-06);
    s = s * y - 0.0001984007831197232;
    s = s * y + 0.008333331905305386;
    s = s * y - 0.1666666716337204;
    let sine = select(t.r + t.r * y * s, t.r, t.r == vec4<f32>(0.0));
    var c = vec4<f32>(-2.7299992666485196e-07);
    c = c * y + 2.4800592655083165e-05;
    c = c * y - 0.00138888880610466;
    c = c * y + 0.0416666679084301;
    let cosine = 1.0 - 0.5 * y + y * y * c;
    let turned = bitcast<vec4<u32>>(t.quarters + vec4<i32>(plus));
    let value = select(cosine, sine, (turned & vec4<u32>(1u)) == vec4<u32>(0u));
    return bitcast<vec4<f32>>(bitcast<vec4<u32>>(value) ^ ((turned & vec4<u32>(2u)) << vec4<u32>(30u)));
}

fn m_sin_plus(x: vec4<f32>, plus: i32) -> vec4<f32> {
    var t = turn_near(x);
    if (any(magnitude_bits(x) > vec4<u32>(bitcast<u32>(REDUCED)))) {
        for (var i = 0u; i < 4u; i++) {
            if ((bitcast<u32>(x[i]) & 0x7fffffffu) > bitcast<u32>(REDUCED)) {
                let far = turn_far(x[i]);
                t.r[i] = far.r;
                t.quarters[i] = far.quarters;
            }
        }
    }
    return select(nan(), sin_of_turned(t, plus), is_finite(x));
}

fn m_sin(x: vec4<f32>) -> vec4<f32> { return m_sin_plus(x, 0); }
fn m_cos(x: vec4<f32>) -> vec4<f32> { return m_sin_plus(x, 1); }
