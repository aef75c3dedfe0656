// Counts of one segment of a neuron's connections for one sample per workgroup. After counts.
//
// Elements are the 64-bit words of the connections' weight streams, numbered consecutively. A
// neuron with many has several segments; a segment may begin and end inside a stream.

const THREADS = 128u;

struct Params {
    n_segments: u32,
    // The samples of this dispatch.
    first_sample: u32,
    n_samples: u32,
    // 64-bit words of a stream, and of a sample's streams.
    stream_words: u32,
    sample_words: u32,
    stride: u32,
    high: u32,
}
var<immediate> params: Params;

struct Segment {
    neuron: u32,
    begin: u32,
    end: u32,
}

@group(0) @binding(0) var<storage, read> weights: array<vec2<u32>>;
@group(0) @binding(1) var<storage, read> inputs: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read> units: array<u32>;
@group(0) @binding(3) var<storage, read> segments: array<Segment>;
@group(0) @binding(4) var<storage, read_write> counts: array<atomic<u32>>;

var<workgroup> partial: array<u32, THREADS>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) size: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let workgroup = id.x + id.y * size.x;
    let place = workgroup / params.n_segments;
    if (place >= params.n_samples) {
        return;
    }
    let segment = segments[workgroup - place * params.n_segments];
    let sample = params.first_sample + place;
    var sum = 0u;
    for (var e = segment.begin + local; e < segment.end; e += THREADS) {
        let connection = e / params.stream_words;
        let word = e - connection * params.stream_words;
        let w = weights[e];
        let x = inputs[sample * params.sample_words + units[connection] * params.stream_words + word];
        var p = w & x;
        if (XOR) {
            p = w ^ x;
        }
        let n = countOneBits(p);
        sum += n.x + n.y;
    }
    partial[local] = sum;
    for (var half = THREADS / 2u; half > 0u; half >>= 1u) {
        workgroupBarrier();
        if (local < half) {
            partial[local] += partial[local + half];
        }
    }
    if (local == 0u) {
        store(sample * params.stride + segment.neuron, partial[0]);
    }
}
