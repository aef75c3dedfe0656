// Exponentials: the counterpart of exp.rs.

fn expm1_reduced(r: vec4<f32>) -> vec4<f32> {
    var p = vec4<f32>(0.00019907791283912957);
    p = p * r + 0.001393382204696536;
    p = p * r + 0.008333285339176655;
    p = p * r + 0.041666463017463684;
    p = p * r + 0.1666666716337204;
    p = p * r + 0.5;
    return r + r * r * p;
}

fn exp_of_sum(high: vec4<f32>, low: vec4<f32>) -> vec4<f32> {
    let n = round((high + low) * LOG2_E);
    let r = ((high - n * LN2_HIGH) - n * LN2_LOW) + low;
    return scale(1.0 + expm1_reduced(r), vec4<i32>(n));
}

fn m_exp(x: vec4<f32>) -> vec4<f32> {
    return keep_nan(x, exp_of_sum(clamp(x, vec4<f32>(-104.0), vec4<f32>(89.0)), vec4<f32>(0.0)));
}

fn m_expm1(x: vec4<f32>) -> vec4<f32> {
    let inside = clamp(x, vec4<f32>(-18.0), vec4<f32>(89.0));
    let n = round(inside * LOG2_E);
    let k = vec4<i32>(n);
    let r = (inside - n * LN2_HIGH) - n * LN2_LOW;
    let value = scale(expm1_reduced(r) + (1.0 - power_of_two(max(-k, vec4<i32>(-126)))), k);
    return keep_nan(x, copy_sign(value, x));
}

fn m_tanh(x: vec4<f32>) -> vec4<f32> {
    let e = m_expm1(2.0 * min(abs(x), vec4<f32>(10.0)));
    return keep_nan(x, copy_sign(divide(e, e + 2.0), x));
}

fn m_sigmoid(x: vec4<f32>) -> vec4<f32> {
    let e = m_exp(-abs(x));
    return keep_nan(x, divide(select(e, vec4<f32>(1.0), x >= vec4<f32>(0.0)), 1.0 + e));
}

fn m_silu(x: vec4<f32>) -> vec4<f32> {
    let limited = max(x, vec4<f32>(-200.0));
    return keep_nan(x, limited * m_sigmoid(limited));
}

fn m_softplus(x: vec4<f32>) -> vec4<f32> {
    return keep_nan(x, max(x, vec4<f32>(0.0)) + m_log1p(m_exp(-abs(x))));
}

fn m_elu(x: vec4<f32>, slope: vec4<f32>) -> vec4<f32> {
    return select(slope * m_expm1(x), x, x > vec4<f32>(0.0));
}

fn m_gelu_tanh(x: vec4<f32>) -> vec4<f32> {
    let limited = max(x, vec4<f32>(-30.0));
    let inner = limited * (1.5957691669464111 + 0.07135481387376785 * (limited * limited));
    return keep_nan(x, limited * m_sigmoid(inner));
}
