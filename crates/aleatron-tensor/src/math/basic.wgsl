// The basis of the other files. NaN and infinities are compared by their bits: shader compilers may assume that there are none.

const SIGN: vec4<u32> = vec4<u32>(0x80000000u);
const MAGNITUDE: vec4<u32> = vec4<u32>(0x7fffffffu);

// Variables, since no constant expression may be infinite.
var<private> infinity_bits: u32 = 0x7f800000u;
var<private> nan_bits: u32 = 0x7fc00000u;

fn infinity() -> vec4<f32> { return vec4<f32>(bitcast<f32>(infinity_bits)); }
fn nan() -> vec4<f32> { return vec4<f32>(bitcast<f32>(nan_bits)); }

fn magnitude_bits(x: vec4<f32>) -> vec4<u32> { return bitcast<vec4<u32>>(x) & MAGNITUDE; }
fn is_nan(x: vec4<f32>) -> vec4<bool> { return magnitude_bits(x) > vec4<u32>(0x7f800000u); }
fn is_inf(x: vec4<f32>) -> vec4<bool> { return magnitude_bits(x) == vec4<u32>(0x7f800000u); }
fn is_finite(x: vec4<f32>) -> vec4<bool> { return magnitude_bits(x) < vec4<u32>(0x7f800000u); }
fn is_negative(x: vec4<f32>) -> vec4<bool> { return bitcast<vec4<u32>>(x) >= SIGN; }

// Returns y, or x if x is NaN.
fn keep_nan(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> { return select(y, x, is_nan(x)); }

// Returns y, or NaN if x or z is NaN.
fn keep_nans(x: vec4<f32>, z: vec4<f32>, y: vec4<f32>) -> vec4<f32> { return keep_nan(z, keep_nan(x, y)); }

fn copy_sign(x: vec4<f32>, sign: vec4<f32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(magnitude_bits(x) | (bitcast<vec4<u32>>(sign) & SIGN));
}

fn max_nan(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> { return keep_nans(x, y, select(x, y, y > x)); }
fn min_nan(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> { return keep_nans(x, y, select(x, y, y < x)); }

// Devices may divide with an error of 2.5 units; one Newton step reduces it to about one half unless there is an overflow.
fn divide(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> {
    let quotient = x / y;
    let better = quotient + fma(-quotient, y, x) / y;
    return select(quotient, better, is_finite(better) & (magnitude_bits(y) < vec4<u32>(0x7e000000u)));
}

fn root(x: vec4<f32>) -> vec4<f32> {
    let estimate = sqrt(x);
    let better = estimate + fma(-estimate, estimate, x) * (vec4<f32>(0.5) / estimate);
    let value = select(estimate, better, is_finite(better) & (x > vec4<f32>(0.0)));
    return keep_nan(x, select(value, nan(), x < vec4<f32>(0.0)));
}

fn reciprocal_root(x: vec4<f32>) -> vec4<f32> {
    let estimate = inverseSqrt(x);
    let better = estimate + estimate * (vec4<f32>(0.5) * fma(-(x * estimate), estimate, vec4<f32>(1.0)));
    let value = select(estimate, better, is_finite(better) & (x > vec4<f32>(0.0)) & is_finite(x));
    let signed = select(value, select(infinity(), -infinity(), is_negative(x)), x == vec4<f32>(0.0));
    let whole = select(signed, vec4<f32>(0.0), is_inf(x));
    return keep_nan(x, select(whole, nan(), x < vec4<f32>(0.0)));
}

// Returns 2^n for n in -126..=127.
fn power_of_two(n: vec4<i32>) -> vec4<f32> { return bitcast<vec4<f32>>((n + vec4<i32>(127)) << vec4<u32>(23u)); }

// Returns x 2^n for n in -252..=254.
fn scale(x: vec4<f32>, n: vec4<i32>) -> vec4<f32> {
    let half = n >> vec4<u32>(1u);
    return x * power_of_two(half) * power_of_two(n - half);
}
