// Encoding of thresholds to Bernoulli streams. After mulhilo, philox and address files.
//
// A thread computes WORDS 32-bit stream words, one after the other, a draw of four bit planes at a
// time, and continues with its next word as soon as one is settled. So the lanes of a subgroup wait
// for the longest sum of draws, not for the longest draw of each word.

override WORDS: u32 = 1u;

struct Params {
    key: vec2<u32>,
    // Domain and layer: counter word c3.
    tag: u32,
    first_row: u32,
    first_unit: u32,
    // Streams per row.
    n_units: u32,
    // Number of stored 32-bit words per stream, of those entirely inside its length, and the mask
    // of the one partly inside.
    stream_words: u32,
    full_words: u32,
    tail_mask: u32,
    // The part of a row computed here: its first word, the number of its words, and of occupied
    // words.
    row_begin: u32,
    row_words: u32,
    row_stride: u32,
    // The first written word, and their number.
    out_base: u32,
    n_words: u32,
    // The offset of the flags of the thresholds.
    n_thresholds: u32,
    padding: u32,
}
var<immediate> params: Params;

// Thresholds modulo 2^32, then one bit for each that is set if it is 2^32 and not 0.
@group(0) @binding(0) var<storage, read> thresholds: array<u32>;
@group(0) @binding(1) var<storage, read_write> streams: array<u32>;

// A stream word in progress: the bits that are 1, the undecided ones, the remaining threshold bits.
struct Word {
    counter: vec4<u32>,
    ones: u32,
    undecided: u32,
    rest: u32,
}

fn begin(index: u32) -> Word {
    let row = index / params.row_stride;
    let place = index - row * params.row_stride;
    let k = params.row_begin + place;
    // The padding of a row is not a unit; its bits are zero whatever is compared.
    let unit = min(k / params.stream_words, params.n_units - 1u);
    let word = k - unit * params.stream_words;
    var bits = select(0u, params.tail_mask, word == params.full_words);
    bits = select(bits, 0xffffffffu, word < params.full_words);
    bits = select(0u, bits, place < params.row_words);

    let at = row * params.n_units + unit;
    let threshold = thresholds[at];
    let address = address_of(row, unit);
    var made = Word(vec4<u32>(word << 3u, address.x, address.y, params.tag), 0u, bits, threshold);
    if (threshold == 0u) {
        let always = (thresholds[params.n_thresholds + (at >> 5u)] >> (at & 31u)) & 1u;
        made.ones = select(0u, bits, always == 1u);
    }
    return made;
}

// One plane: if the threshold has a 1, a 0 of U settles the bit as 1; if it has a 0, a 1 of U
// settles it as 0.
fn compare(word: Word, plane: u32) -> Word {
    var next = word;
    let bit = 0u - (word.rest >> 31u);
    next.ones = word.ones | (word.undecided & bit & ~plane);
    next.undecided = word.undecided & ~(plane ^ bit);
    next.rest = word.rest << 1u;
    return next;
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    var index = (group.x + group.y * groups.x) * (256u * WORDS) + local;
    if (index >= params.n_words) {
        return;
    }
    let end = min(index + 256u * WORDS, params.n_words);
    var word = begin(index);
    loop {
        // Without undecided bits or ones in the rest of the threshold no bit can become 1.
        if (word.undecided == 0u || word.rest == 0u) {
            streams[params.out_base + index] = word.ones;
            index += 256u;
            if (index >= end) {
                break;
            }
            word = begin(index);
        } else {
            let planes = philox(word.counter, params.key);
            word.counter.x += 1u;
            word = compare(compare(compare(compare(word, planes.x), planes.y), planes.z), planes.w);
        }
    }
}
