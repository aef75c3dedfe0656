// Powers: the counterpart of pow.rs.

struct Pair { high: vec4<f32>, low: vec4<f32> }

fn first_half(x: vec4<f32>) -> vec4<f32> { return bitcast<vec4<f32>>(bitcast<vec4<u32>>(x) & vec4<u32>(0xfffff000u)); }

fn product(a: vec4<f32>, b: vec4<f32>) -> Pair {
    let rounded = a * b;
    let a_high = first_half(a); let b_high = first_half(b);
    let a_low = a - a_high; let b_low = b - b_high;
    return Pair(rounded, ((a_high * b_high - rounded) + a_high * b_low + a_low * b_high) + a_low * b_low);
}

fn log2_parts(x: vec4<f32>) -> Pair {
    let s = split(x);
    let f = s.f; let n = s.exponent;
    let square = product(f, 0.5 * f);
    let rest = log_rest(f) + square.high + square.low;
    let sum0 = f - square.high;
    let off0 = ((f - sum0) - square.high) - square.low + rest;
    let sum = sum0 + off0;
    let off = off0 - (sum - sum0);
    let high = first_half(sum);
    let low = (sum - high) + off;
    let main = high * 1.4423828125;
    let minor = low * LOG2_E + high * 0.00031222839606925845;
    let total = n + main;
    return Pair(total, ((n - total) + main) + minor);
}

fn m_pow(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> {
    let size = abs(x);
    let log = log2_parts(size);
    let limited = clamp(y, vec4<f32>(-1e10), vec4<f32>(1e10));
    let times = product(log.high, limited);
    let minor = times.low + log.low * limited;
    let exponent = times.high + minor;
    let inside = clamp(exponent, vec4<f32>(-200.0), vec4<f32>(200.0));
    let n = round(inside);
    let r = select(vec4<f32>(0.0), (times.high - n) + minor, inside == exponent);
    var p = vec4<f32>(1.5252734e-5);
    p = p * r + 0.0001540353;
    p = p * r + 0.0013333558;
    p = p * r + 0.009618129;
    p = p * r + 0.05550411;
    p = p * r + 0.24022651;
    p = p * r + 0.6931471824645996;
    var value = scale(1.0 + r * p, vec4<i32>(n));

    let is_integer = trunc(y) == y;
    let half = y * 0.5;
    let is_odd = is_integer & (trunc(half) != half);
    let grows = (size > vec4<f32>(1.0)) == (y > vec4<f32>(0.0));
    let is_limit = (magnitude_bits(x) == vec4<u32>(0u)) | is_inf(x) | is_inf(y);
    value = select(value, select(vec4<f32>(0.0), infinity(), grows), is_limit);
    value = select(value, nan(), (x < vec4<f32>(0.0)) & is_finite(x) & !is_integer);
    value = select(value, -value, is_negative(x) & is_odd);
    value = keep_nans(x, y, value);
    let is_one = (magnitude_bits(y) == vec4<u32>(0u)) | (bitcast<vec4<u32>>(x) == vec4<u32>(0x3f800000u))
        | ((magnitude_bits(x) == vec4<u32>(0x3f800000u)) & is_inf(y));
    return select(value, vec4<f32>(1.0), is_one);
}
