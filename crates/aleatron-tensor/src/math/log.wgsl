// Logarithms: the counterpart of log.rs.

const LN2_HIGH: f32 = 0.693115234375;
const LN2_LOW: f32 = 3.194618329871446e-05;
const LOG2_E: f32 = 1.4426950216293335;
const LOG10_E: f32 = 0.4342944920063019;
const ROOT_HALF: u32 = 0x3f3504f3u;

struct Split { exponent: vec4<f32>, f: vec4<f32> }

fn split(x: vec4<f32>) -> Split {
    let is_small = magnitude_bits(x) < vec4<u32>(0x00800000u);
    let bits = bitcast<vec4<u32>>(select(x, x * 8388608.0, is_small));
    let shifted = bits + vec4<u32>(0x3f800000u - ROOT_HALF);
    let exponent = vec4<i32>(shifted >> vec4<u32>(23u)) - select(vec4<i32>(127), vec4<i32>(150), is_small);
    let m = bitcast<vec4<f32>>((shifted & vec4<u32>(0x007fffffu)) + vec4<u32>(ROOT_HALF));
    return Split(vec4<f32>(exponent), m - 1.0);
}

fn log_rest(f: vec4<f32>) -> vec4<f32> {
    let square = f * f;
    var p = vec4<f32>(0.06921172887086868);
    p = p * f - 0.11780741065740585;
    p = p * f + 0.11865099519491196;
    p = p * f - 0.12385543435811996;
    p = p * f + 0.14220024645328522;
    p = p * f - 0.16669216752052307;
    p = p * f + 0.20002146065235138;
    p = p * f - 0.24999986588954926;
    p = p * f + 0.3333331048488617;
    return square * (f * p) - 0.5 * square;
}

fn log_special(x: vec4<f32>, value: vec4<f32>) -> vec4<f32> {
    let at_zero = select(value, -infinity(), magnitude_bits(x) == vec4<u32>(0u));
    let below = select(at_zero, nan(), is_negative(x) & (magnitude_bits(x) != vec4<u32>(0u)));
    let above = select(below, x, bitcast<vec4<u32>>(x) == vec4<u32>(0x7f800000u));
    return keep_nan(x, above);
}

fn m_log(x: vec4<f32>) -> vec4<f32> {
    let s = split(x);
    return log_special(x, s.exponent * LN2_HIGH + (s.f + (log_rest(s.f) + s.exponent * LN2_LOW)));
}

fn m_log2(x: vec4<f32>) -> vec4<f32> {
    let s = split(x);
    return log_special(x, s.exponent + (s.f * LOG2_E + log_rest(s.f) * LOG2_E));
}

fn m_log10(x: vec4<f32>) -> vec4<f32> { return m_log(x) * LOG10_E; }

// Compilers may replace (1 + x) - 1 by x, so small arguments never go through the sum.
fn m_log1p(x: vec4<f32>) -> vec4<f32> {
    let sum = 1.0 + x;
    let lost = x - (sum - 1.0);
    let s = split(sum);
    let far = s.exponent * LN2_HIGH + (s.f + (log_rest(s.f) + (s.exponent * LN2_LOW + lost / sum)));
    let near = x + log_rest(x);
    return log_special(sum, select(far, select(near, x, x == vec4<f32>(0.0)), (x > vec4<f32>(-0.29)) & (x < vec4<f32>(0.41))));
}
