// The error function: the counterpart of erf.rs.

fn erf_near(x: vec4<f32>) -> vec4<f32> {
    let y = x * x;
    var p = vec4<f32>(7.889072003308684e-05);
    p = p * y - 0.000802082649897784;
    p = p * y + 0.005189533345401287;
    p = p * y - 0.026854444295167923;
    p = p * y + 0.11283600330352783;
    p = p * y - 0.3761262595653534;
    p = p * y + 1.1283791065216064;
    return x * p;
}

fn scaled_erfc(x: vec4<f32>) -> vec4<f32> {
    let t = divide(x - 3.0, x + 3.0);
    var p = vec4<f32>(-0.0002597667626105249);
    p = p * t - 0.0007563421968370676;
    p = p * t + 0.0020140488632023335;
    p = p * t + 0.002559160115197301;
    p = p * t - 0.023806272074580193;
    p = p * t + 0.06829604506492615;
    p = p * t - 0.11926931142807007;
    p = p * t + 0.12964653968811035;
    p = p * t - 0.04756249859929085;
    p = p * t - 0.13562114536762238;
    p = p * t + 1.2530080080032349;
    return divide(p, 1.0 + 2.0 * x);
}

fn exp_of_square(x: vec4<f32>, factor: f32) -> vec4<f32> {
    let high = bitcast<vec4<f32>>(bitcast<vec4<u32>>(x) & vec4<u32>(0xfffff000u));
    return exp_of_sum(-(high * high) * factor, (high - x) * (high + x) * factor);
}

fn m_erf(x: vec4<f32>) -> vec4<f32> {
    let far_x = min(abs(x), vec4<f32>(5.0));
    let far = copy_sign(1.0 - exp_of_square(far_x, 1.0) * scaled_erfc(far_x), x);
    return keep_nan(x, select(far, erf_near(x), abs(x) < vec4<f32>(1.0)));
}

fn m_gelu(x: vec4<f32>) -> vec4<f32> {
    let limited = max(x, vec4<f32>(-14.4));
    let size = min(abs(limited), vec4<f32>(14.4));
    let tail = 0.5 * exp_of_square(size, 0.5) * scaled_erfc(size * 0.7071067690849304);
    let far = select(tail, 1.0 - tail, limited >= vec4<f32>(0.0));
    let near = 0.5 + 0.5 * erf_near(limited * 0.7071067690849304);
    return keep_nan(x, limited * select(far, near, size < vec4<f32>(0.75)));
}
