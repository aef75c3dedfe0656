// Inverse and hyperbolic functions, and functions of two arguments. On the CPU these are libm's.

const PI_HIGH: f32 = 3.1415927410125732;
const PI_LOW: f32 = -8.742277657347586e-08;
const QUARTER_TURN_HIGH: f32 = 1.5707963705062866;
const QUARTER_TURN_LOW: f32 = -4.371138828673793e-08;
const EIGHTH_TURN_HIGH: f32 = 0.7853981852531433;
const EIGHTH_TURN_LOW: f32 = -2.1855694143368964e-08;
const LN2: f32 = 0.6931471824645996;

// The inverse tangent of a number in [0, 1]: above tan(pi/8), from pi/4 on.
fn atan_unit(x: vec4<f32>) -> vec4<f32> {
    let is_high = x > vec4<f32>(0.41421357);
    let r = select(x, divide(x - 1.0, x + 1.0), is_high);
    let z = r * r;
    var p = vec4<f32>(0.05054115131497383);
    p = p * z - 0.08627261966466904;
    p = p * z + 0.11071757227182388;
    p = p * z - 0.14284175634384155;
    p = p * z + 0.19999977946281433;
    p = p * z - 0.3333333432674408;
    let rest = r * z * p;
    return select(r + rest, EIGHTH_TURN_HIGH + (r + (rest + EIGHTH_TURN_LOW)), is_high);
}

fn from_quarter_turn(x: vec4<f32>) -> vec4<f32> { return QUARTER_TURN_HIGH - (x - QUARTER_TURN_LOW); }

fn m_atan(x: vec4<f32>) -> vec4<f32> {
    let a = abs(x);
    let is_far = a > vec4<f32>(1.0);
    let near = atan_unit(select(a, select(divide(vec4<f32>(1.0), a), vec4<f32>(0.0), is_inf(x)), is_far));
    return keep_nan(x, copy_sign(select(near, from_quarter_turn(near), is_far), x));
}

fn m_atan2(y: vec4<f32>, x: vec4<f32>) -> vec4<f32> {
    let a = abs(y);
    let b = abs(x);
    let is_steep = a > b;
    let large = select(b, a, is_steep);
    let ratio = divide(select(a, b, is_steep), large);
    let is_equal = (magnitude_bits(x) == magnitude_bits(y));
    let unit = select(select(ratio, vec4<f32>(0.0), is_inf(large)), vec4<f32>(1.0), is_equal);
    let slope = atan_unit(select(unit, vec4<f32>(0.0), large == vec4<f32>(0.0)));
    let right = select(slope, from_quarter_turn(slope), is_steep);
    let angle = select(right, PI_HIGH - (right - PI_LOW), is_negative(x));
    return keep_nans(x, y, copy_sign(angle, y));
}

// The inverse sine of a number in [-1/2, 1/2].
fn asin_near(x: vec4<f32>) -> vec4<f32> {
    let z = x * x;
    var p = vec4<f32>(0.03381597250699997);
    p = p * z + 0.017072083428502083;
    p = p * z + 0.031117288395762444;
    p = p * z + 0.044597942382097244;
    p = p * z + 0.07500098645687103;
    p = p * z + 0.1666666567325592;
    return x + x * z * p;
}

// Past 1/2 both come from the inverse sine of the root of half the distance to 1; past 1 that root is NaN.
fn m_asin(x: vec4<f32>) -> vec4<f32> {
    let a = abs(x);
    let is_near = a <= vec4<f32>(0.5);
    let far = 2.0 * asin_near(root((1.0 - a) * 0.5));
    let value = select(from_quarter_turn(far), asin_near(a), is_near);
    return keep_nan(x, select(copy_sign(value, x), nan(), is_nan(value)));
}

fn m_acos(x: vec4<f32>) -> vec4<f32> {
    let a = abs(x);
    let far = 2.0 * asin_near(root((1.0 - a) * 0.5));
    let left = select(far, PI_HIGH - (far - PI_LOW), is_negative(x));
    return keep_nan(x, select(left, from_quarter_turn(asin_near(x)), a <= vec4<f32>(0.5)));
}

// Half of e^a, for large a, without overflow before the result has it.
fn half_exp(a: vec4<f32>) -> vec4<f32> {
    let half = m_exp(a * 0.5);
    return (0.5 * half) * half;
}

fn m_sinh(x: vec4<f32>) -> vec4<f32> {
    let a = abs(x);
    let e = m_expm1(min(a, vec4<f32>(10.0)));
    let near = 0.5 * (e + divide(e, e + 1.0));
    return keep_nan(x, copy_sign(select(near, half_exp(a), a >= vec4<f32>(9.0)), x));
}

fn m_cosh(x: vec4<f32>) -> vec4<f32> {
    let a = abs(x);
    let e = m_exp(min(a, vec4<f32>(10.0)));
    let near = 0.5 * (e + divide(vec4<f32>(1.0), e));
    return keep_nan(x, select(near, half_exp(a), a >= vec4<f32>(9.0)));
}

fn m_asinh(x: vec4<f32>) -> vec4<f32> {
    let a = abs(x);
    let b = min(a, vec4<f32>(20000.0));
    let near = m_log1p(b + divide(b * b, 1.0 + root(b * b + 1.0)));
    let value = select(near, m_log(a) + LN2, a > vec4<f32>(10000.0));
    return keep_nan(x, copy_sign(value, x));
}

fn m_acosh(x: vec4<f32>) -> vec4<f32> {
    let t = clamp(x, vec4<f32>(1.0), vec4<f32>(20000.0)) - 1.0;
    let near = m_log1p(t + root(t * (t + 2.0)));
    let value = select(near, m_log(x) + LN2, x > vec4<f32>(10000.0));
    return keep_nan(x, select(value, nan(), x < vec4<f32>(1.0)));
}

fn m_atanh(x: vec4<f32>) -> vec4<f32> {
    let a = abs(x);
    let inside = 0.5 * m_log1p(divide(2.0 * a, 1.0 - a));
    let value = select(select(inside, infinity(), a == vec4<f32>(1.0)), nan(), a > vec4<f32>(1.0));
    return keep_nan(x, select(copy_sign(value, x), nan(), is_nan(value)));
}

fn m_tan(x: vec4<f32>) -> vec4<f32> { return divide(m_sin(x), m_cos(x)); }

fn m_hypot(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> {
    let large = max(abs(x), abs(y));
    let ratio = select(divide(min(abs(x), abs(y)), large), vec4<f32>(0.0), large == vec4<f32>(0.0));
    let value = keep_nans(x, y, large * root(1.0 + ratio * ratio));
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
