// Counts of a layer as sums of table entries: 32 neurons of one sample per workgroup, eight threads
// per neuron.

const NEURONS = 32u;
const PARTS = 8u;

// Whether every sample and input has a separate row; otherwise rows are by the threshold of the
// input.
override OWN_ROWS: bool = false;
// Whether counts are added to existing ones, rather than replacing them.
override ADD: bool = false;

struct Params {
    n_inputs: u32,
    // The inputs of this dispatch.
    begin: u32,
    end: u32,
    // Number of neurons of this block, and of their workgroups for one sample.
    n_neurons: u32,
    n_groups: u32,
    n_samples: u32,
    row_len: u32,
    // The first neuron of this block, and the number of neurons of the layer.
    first: u32,
    stride: u32,
}
var<immediate> params: Params;

@group(0) @binding(0) var<storage, read> rows: array<u32>;
// Thresholds of the inputs, by sample and input.
@group(0) @binding(1) var<storage, read> inputs: array<u32>;
// Thresholds of the weights, by input and neuron: neighbours read neighbours.
@group(0) @binding(2) var<storage, read> weights: array<u32>;
// Low and high words.
@group(0) @binding(3) var<storage, read_write> counts: array<vec2<u32>>;

var<workgroup> partial: array<vec2<u32>, 256>;

fn plus(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) size: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let workgroup = id.x + id.y * size.x;
    let sample = workgroup / params.n_groups;
    let neuron = (workgroup - sample * params.n_groups) * NEURONS + local % NEURONS;
    var sum = vec2<u32>(0u);
    if (sample < params.n_samples && neuron < params.n_neurons) {
        for (var i = params.begin + local / NEURONS; i < params.end; i += PARTS) {
            let place = sample * params.n_inputs + i;
            var row = place;
            if (!OWN_ROWS) {
                row = inputs[place];
            }
            let entry = rows[row * params.row_len + weights[i * params.n_neurons + neuron]];
            sum = plus(sum, vec2<u32>(entry, 0u));
        }
    }
    partial[local] = sum;
    workgroupBarrier();
    if (local < NEURONS && sample < params.n_samples && neuron < params.n_neurons) {
        for (var part = 1u; part < PARTS; part += 1u) {
            sum = plus(sum, partial[part * NEURONS + local]);
        }
        let at = sample * params.stride + params.first + neuron;
        if (ADD) {
            sum = plus(sum, counts[at]);
        }
        counts[at] = sum;
    }
}
