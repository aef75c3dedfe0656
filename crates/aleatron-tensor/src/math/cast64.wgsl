// Floats to 64-bit integers, as in cast.wgsl.

fn m_to_i64(x: vec4<f32>) -> vec4<i64> {
    let inside = vec4<i64>(clamp(x, vec4<f32>(-9223372036854775808.0), vec4<f32>(9223371487098961920.0)));
    let high = select(inside, vec4<i64>(9223372036854775807li), x >= vec4<f32>(9223372036854775808.0));
    return select(high, vec4<i64>(0), is_nan(x));
}
