// Normalises rows. Before this file: LAYER (mean 0 as well), HAS_BIAS, SELECTED (rows are those of a list), and the bindings.

struct Params {
    vectors: u32,
    width: u32,
    epsilon: f32,
}
var<immediate> params: Params;

var<workgroup> parts: array<f32, 256>;

fn total(value: f32, t: u32) -> f32 {
    workgroupBarrier();
    parts[t] = value;
    workgroupBarrier();
    for (var step = 128u; step > 0u; step /= 2u) {
        if (t < step) {
            parts[t] += parts[t + step];
        }
        workgroupBarrier();
    }
    return parts[0];
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) id: vec3<u32>) {
    var row = id.x;
    if (SELECTED) {
        row = selection[id.x].x;
    }
    let begin = row * params.vectors;
    let n = f32(params.width);
    var mean = 0.0;
    if (LAYER) {
        var sum = 0.0;
        for (var i = t; i < params.vectors; i += 256u) {
            sum += dot(x[begin + i], vec4<f32>(1.0));
        }
        mean = total(sum, t) / n;
    }
    var squares = 0.0;
    for (var i = t; i < params.vectors; i += 256u) {
        var d = x[begin + i] - mean;
        if (LAYER) {
            // Padding is 0, not the mean.
            let place = vec4<u32>(4u * i, 4u * i + 1u, 4u * i + 2u, 4u * i + 3u);
            d = select(vec4<f32>(), d, place < vec4<u32>(params.width));
        }
        squares += dot(d, d);
    }
    let scale = inverseSqrt(total(squares, t) / n + params.epsilon);
    for (var i = t; i < params.vectors; i += 256u) {
        var y = (x[begin + i] - mean) * scale * gain[i];
        if (HAS_BIAS) {
            y += bias[i];
        }
        result[id.x * params.vectors + i] = y;
    }
}
