// Windows of images of integers, reduced to their maximum or to their mean. One window per thread.
// After int64.

override AVERAGE: bool = false;
// Whether a mean counts the positions in the padding.
override COUNT_PADDING: bool = false;

struct Params {
    // Rows and columns of an image, of the result, of a window, between windows, and before the image.
    image: vec2<u32>,
    windows: vec2<u32>,
    window: vec2<u32>,
    stride: vec2<u32>,
    padding: vec2<u32>,
    // Number of windows of all samples.
    n: u32,
    rest: u32,
}
var<immediate> params: Params;

@group(0) @binding(0) var<storage, read> values: array<vec2<u32>>;
@group(0) @binding(1) var<storage, read_write> made: array<vec2<u32>>;

// The nearest integer to sum / n, and the greater one of two: (2 sum + n) / (2 n), rounded down.
fn mean(sum: vec2<u32>, n: u32) -> vec2<u32> {
    let above = add64(add64(sum, sum), vec2<u32>(n, 0u));
    let below = 2u * n;
    if (is_negative64(above)) {
        return negated64(divided64(add64(negated64(above), vec2<u32>(below - 1u, 0u)), below));
    }
    return divided64(above, below);
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) size: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = (id.x + id.y * size.x) * 256u + local;
    if (index >= params.n) {
        return;
    }
    let rest = index / params.windows.y;
    let column = index - rest * params.windows.y;
    let image = rest / params.windows.x;
    let row = rest - image * params.windows.x;
    // Images are consecutive over channels and samples.
    let first = image * params.image.x * params.image.y;
    var sum = vec2<u32>();
    var best = vec2<u32>();
    var n = 0u;
    for (var r = 0u; r < params.window.x; r++) {
        // Positions before the image wrap around and exceed its end as well.
        let y = row * params.stride.x + r - params.padding.x;
        if (y >= params.image.x) {
            continue;
        }
        for (var c = 0u; c < params.window.y; c++) {
            let x = column * params.stride.y + c - params.padding.y;
            if (x >= params.image.y) {
                continue;
            }
            let value = values[first + y * params.image.y + x];
            sum = add64(sum, value);
            if (n == 0u || less64(best, value)) {
                best = value;
            }
            n++;
        }
    }
    if (!AVERAGE) {
        made[index] = best;
    } else if (COUNT_PADDING) {
        made[index] = mean(sum, params.window.x * params.window.y);
    } else {
        made[index] = mean(sum, n);
    }
}
