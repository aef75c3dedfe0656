// Floats to integers: truncated, saturating, 0 for NaN.

fn m_to_i32(x: vec4<f32>) -> vec4<i32> {
    let inside = vec4<i32>(clamp(x, vec4<f32>(-2147483648.0), vec4<f32>(2147483520.0)));
    let high = select(inside, vec4<i32>(2147483647), x >= vec4<f32>(2147483648.0));
    return select(high, vec4<i32>(0), is_nan(x));
}

fn m_to_u8(x: vec4<f32>) -> vec4<u32> {
    return select(vec4<u32>(clamp(x, vec4<f32>(0.0), vec4<f32>(255.0))), vec4<u32>(0u), is_nan(x));
}
