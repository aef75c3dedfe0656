// The epilogue of the products of a matrix. Before this file: EPILOGUE, HAS_BIAS and HAS_SCALES, and the bindings `result`,
// `bias` and `scales`, of which the last two may be placeholders.
//
// Row `n` counts from the first row of this part of the matrix, `params.first` is that row in the whole matrix.

const STORE = 0u;
const ADD = 1u;
const GATED_SILU = 2u;
const GELU = 3u;

fn scaled(n: u32, sum: f32) -> f32 {
    var y = sum;
    if (HAS_SCALES) {
        y *= scales[n];
    }
    if (HAS_BIAS) {
        y += bias[params.first + n];
    }
    return y;
}

fn gelu(x: f32) -> f32 {
    // Past 10, tanh is 1 in f32; its exponentials would overflow.
    let inside = clamp(0.7978846 * (x + 0.044715 * x * x * x), -10.0, 10.0);
    return 0.5 * x * (1.0 + tanh(inside));
}

fn silu(x: f32) -> f32 {
    return x / (1.0 + exp(-x));
}

fn emit(m: u32, n: u32, sum: f32) {
    if (m >= params.m || n >= params.n_rows) {
        return;
    }
    let at = m * params.out_stride + params.first + n;
    let y = scaled(n, sum);
    if (EPILOGUE == ADD) {
        result[at] += y;
    } else if (EPILOGUE == GELU) {
        result[at] = gelu(y);
    } else {
        result[at] = y;
    }
}

// Two rows side by side, the first of which is even.
fn emit_pair(m: u32, n: u32, a: f32, b: f32) {
    if (EPILOGUE == GATED_SILU) {
        if (m < params.m && n < params.n_rows) {
            result[m * params.out_stride + (params.first + n) / 2u] = silu(scaled(n, a)) * scaled(n + 1u, b);
        }
    } else {
        emit(m, n, a);
        emit(m, n + 1u, b);
    }
}
