// Tangents, inverse circular functions and hyperbolic ones.

const QUARTER_PI: f32 = 0.7853981852531433;
const HALF_PI: f32 = 1.5707963705062866;
const PI: f32 = 3.1415927410125732;

fn m_tan(x: vec4<f32>) -> vec4<f32> { return divide(m_sin(x), m_cos(x)); }

// For |x| up to tan(pi / 8).
fn atan_reduced(x: vec4<f32>) -> vec4<f32> {
    let y = x * x;
    var p = vec4<f32>(-0.06083449721336365);
    p = p * y + 0.10595999658107758;
    p = p * y - 0.14243848621845245;
    p = p * y + 0.19998489320278168;
    p = p * y - 0.33333316445350647;
    return x + x * (y * p);
}

fn m_atan(x: vec4<f32>) -> vec4<f32> {
    let a = abs(x);
    let is_large = a > vec4<f32>(2.4142136573791504);
    let is_middle = a > vec4<f32>(0.4142135679721832);
    let r = select(select(a, divide(a - 1.0, a + 1.0), is_middle), divide(vec4<f32>(-1.0), a), is_large);
    let base = select(select(vec4<f32>(0.0), vec4<f32>(QUARTER_PI), is_middle), vec4<f32>(HALF_PI), is_large);
    return keep_nan(x, copy_sign(base + atan_reduced(select(r, vec4<f32>(0.0), is_inf(x))), x));
}

fn m_atan2(y: vec4<f32>, x: vec4<f32>) -> vec4<f32> {
    let a = abs(y); let b = abs(x);
    let low = min(a, b); let high = max(a, b);
    var t = select(divide(low, high), vec4<f32>(0.0), magnitude_bits(low) == vec4<u32>(0u));
    t = select(t, vec4<f32>(1.0), is_inf(low));
    t = select(t, vec4<f32>(0.0), is_inf(high) & !is_inf(low));
    let first = m_atan(t);
    let turned = select(first, HALF_PI - first, a > b);
    let value = select(turned, PI - turned, is_negative(x));
    return keep_nans(x, y, copy_sign(value, y));
}

fn m_asin(x: vec4<f32>) -> vec4<f32> { return m_atan2(x, root((1.0 - x) * (1.0 + x))); }
fn m_acos(x: vec4<f32>) -> vec4<f32> { return m_atan2(root((1.0 - x) * (1.0 + x)), x); }

fn half_exp_large(a: vec4<f32>) -> vec4<f32> {
    let e = m_exp(0.5 * a);
    return (0.5 * e) * e;
}

fn m_sinh(x: vec4<f32>) -> vec4<f32> {
    let a = abs(x);
    let e = m_expm1(min(a, vec4<f32>(40.0)));
    let near = 0.5 * (e + divide(e, e + 1.0));
    return keep_nan(x, copy_sign(select(near, half_exp_large(a), a > vec4<f32>(40.0)), x));
}

fn m_cosh(x: vec4<f32>) -> vec4<f32> {
    let a = abs(x);
    let e = m_exp(min(a, vec4<f32>(40.0)));
    let near = 0.5 * (e + divide(vec4<f32>(1.0), e));
    return keep_nan(x, select(near, half_exp_large(a), a > vec4<f32>(40.0)));
}

const LN2: f32 = 0.6931471824645996;

fn m_asinh(x: vec4<f32>) -> vec4<f32> {
    let a = abs(x);
    let b = min(a, vec4<f32>(1e4));
    let near = m_log1p(b + divide(b * b, 1.0 + root(b * b + 1.0)));
    return keep_nan(x, copy_sign(select(near, m_log(a) + LN2, a > vec4<f32>(1e4)), x));
}

fn m_acosh(x: vec4<f32>) -> vec4<f32> {
    let t = min(x, vec4<f32>(1e4)) - 1.0;
    let near = m_log1p(t + root(t * (t + 2.0)));
    let value = select(near, m_log(x) + LN2, x > vec4<f32>(1e4));
    return keep_nan(x, select(value, nan(), x < vec4<f32>(1.0)));
}

fn m_atanh(x: vec4<f32>) -> vec4<f32> {
    let a = abs(x);
    let value = 0.5 * m_log1p(divide(2.0 * a, 1.0 - a));
    let inside = select(value, nan(), a > vec4<f32>(1.0));
    return keep_nan(x, copy_sign(select(inside, infinity(), a == vec4<f32>(1.0)), x) + select(vec4<f32>(0.0), nan(), a > vec4<f32>(1.0)));
}

fn m_hypot(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> {
    let low = min(abs(x), abs(y)); let high = max(abs(x), abs(y));
    let q = select(divide(low, high), vec4<f32>(0.0), magnitude_bits(high) == vec4<u32>(0u));
    let value = keep_nans(x, y, high * root(1.0 + q * q));
    return select(value, infinity(), is_inf(x) | is_inf(y));
}

fn m_logaddexp(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> {
    let large = max_nan(x, y);
    let value = large + m_log1p(m_exp(-abs(x - y)));
    let is_equal = bitcast<vec4<u32>>(x) == bitcast<vec4<u32>>(y);
    let finite = select(value, large, is_inf(x) | is_inf(y));
    return keep_nans(x, y, select(finite, x + LN2, is_equal));
}

fn m_nextafter(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> {
    let bits = bitcast<vec4<u32>>(x);
    // Away from zero the bits go up, towards it down.
    let is_away = (y > x) == (x > vec4<f32>(0.0));
    let stepped = bitcast<vec4<f32>>(select(bits - 1u, bits + 1u, is_away));
    let smallest = copy_sign(bitcast<vec4<f32>>(vec4<u32>(1u)), y);
    let moved = select(stepped, smallest, magnitude_bits(x) == vec4<u32>(0u));
    return keep_nans(x, y, select(moved, y, x == y));
}
