// Chooses the next token of each row of logits, and its row in the next step. The rules are those of `sampling.rs`. Before this
// file: THREADS.
//
// A token of 2^32 - 1 means that no logit was finite.

struct Params {
    vocabulary: u32,
    // 1 / temperature, or 0 for the largest logit.
    scale: f32,
    top_k: u32,
    top_p: f32,
    seed_low: u32,
    seed_high: u32,
}
var<immediate> params: Params;

@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> tokens: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> selection: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read_write> next: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> chosen: array<u32>;

var<workgroup> parts: array<f32, THREADS>;
var<workgroup> keys: array<u32, THREADS>;
var<workgroup> places: array<u32, THREADS>;
var<workgroup> found: atomic<u32>;

fn mulhilo(a: u32, b: u32) -> vec2<u32> {
    let al = a & 0xffffu;
    let ah = a >> 16u;
    let bl = b & 0xffffu;
    let bh = b >> 16u;
    let middle = ((al * bl) >> 16u) + ((al * bh) & 0xffffu) + ((ah * bl) & 0xffffu);
    return vec2<u32>(ah * bh + ((al * bh) >> 16u) + ((ah * bl) >> 16u) + (middle >> 16u), a * b);
}

fn draw(position: u32, row: u32) -> f32 {
    var c = vec4<u32>(position, row, 0u, 0x74726e73u);
    var k = vec2<u32>(params.seed_low, params.seed_high);
    for (var round = 0u; round < 10u; round++) {
        let p = mulhilo(0xD2511F53u, c.x);
        let q = mulhilo(0xCD9E8D57u, c.z);
        c = vec4<u32>(q.x ^ c.y ^ k.x, q.y, p.x ^ c.w ^ k.y, p.y);
        k += vec2<u32>(0x9E3779B9u, 0xBB67AE85u);
    }
    return f32(c.x >> 8u) / 16777216.0;
}

// Bits that compare as the numbers do; NaN comes first.
fn order(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let key = select(bits | 0x80000000u, ~bits, (bits >> 31u) == 1u);
    return select(key, 0u, (bits & 0x7fffffffu) > 0x7f800000u);
}

fn total(value: f32, t: u32) -> f32 {
    workgroupBarrier();
    parts[t] = value;
    workgroupBarrier();
    for (var step = THREADS / 2u; step > 0u; step /= 2u) {
        if (t < step) {
            parts[t] += parts[t + step];
        }
        workgroupBarrier();
    }
    return parts[0];
}

// The probability mass, or the number, of logits from a threshold on.
fn mass_from(begin: u32, threshold: u32, largest: f32, counted: bool, t: u32) -> f32 {
    var sum = 0.0;
    for (var i = t; i < params.vocabulary; i += THREADS) {
        let logit = logits[begin + i];
        if (order(logit) >= threshold) {
            sum += select(exp((logit - largest) * params.scale), 1.0, counted);
        }
    }
    return total(sum, t);
}

// Returns the largest threshold from which on the mass or number is sufficient.
fn threshold_for(begin: u32, wanted: f32, largest: f32, counted: bool, t: u32) -> u32 {
    var threshold = 0u;
    for (var bit = 0u; bit < 32u; bit++) {
        let candidate = threshold | (0x80000000u >> bit);
        if (mass_from(begin, candidate, largest, counted, t) >= wanted) {
            threshold = candidate;
        }
    }
    return threshold;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) id: vec3<u32>) {
    let begin = id.x * params.vocabulary;
    var best = 0u;
    var place = 0xffffffffu;
    for (var i = t; i < params.vocabulary; i += THREADS) {
        let key = order(logits[begin + i]);
        if (key > best) {
            best = key;
            place = i;
        }
    }
    keys[t] = best;
    places[t] = place;
    if (t == 0u) {
        atomicStore(&found, 0xffffffffu);
    }
    workgroupBarrier();
    for (var step = THREADS / 2u; step > 0u; step /= 2u) {
        if (t < step) {
            let own = keys[t];
            let other = keys[t + step];
            if (other > own || (other == own && places[t + step] < places[t])) {
                keys[t] = other;
                places[t] = places[t + step];
            }
        }
        workgroupBarrier();
    }
    let token = places[0];
    let source = tokens[selection[id.x].x];
    let target_row = selection[id.x].y;
    let largest = logits[begin + min(token, params.vocabulary - 1u)];
    // NaN is smaller than everything, infinities are not finite.
    let finite = token < params.vocabulary && abs(largest) <= 3.4028235e38;
    var result = select(0xffffffffu, token, finite);
    if (params.scale > 0.0) {
        // The smallest finite number.
        var threshold = order(-3.4028235e38);
        if (params.top_k > 0u) {
            threshold = max(threshold, threshold_for(begin, f32(params.top_k), largest, true, t));
        }
        if (params.top_p < 1.0) {
            let all = mass_from(begin, threshold, largest, false, t);
            threshold = max(threshold, threshold_for(begin, params.top_p * all, largest, false, t));
        }
        // A run of tokens for each thread, so that sums are in their order.
        let run = (params.vocabulary + THREADS - 1u) / THREADS;
        let begin_run = min(t * run, params.vocabulary);
        let end_run = min(begin_run + run, params.vocabulary);
        var own = 0.0;
        for (var i = begin_run; i < end_run; i++) {
            if (order(logits[begin + i]) >= threshold) {
                own += exp((logits[begin + i] - largest) * params.scale);
            }
        }
        workgroupBarrier();
        parts[t] = own;
        workgroupBarrier();
        var before = 0.0;
        var all = 0.0;
        for (var i = 0u; i < THREADS; i++) {
            if (i == t) {
                before = all;
            }
            all += parts[i];
        }
        let wanted = draw(source.z + 1u, target_row) * all;
        if (own > 0.0 && before <= wanted && wanted < before + own) {
            var sum = before;
            for (var i = begin_run; i < end_run; i++) {
                if (order(logits[begin + i]) >= threshold) {
                    sum += exp((logits[begin + i] - largest) * params.scale);
                    if (sum > wanted) {
                        atomicMin(&found, i);
                        break;
                    }
                }
            }
        }
        workgroupBarrier();
        let drawn = atomicLoad(&found);
        // Rounding may leave the sum just below its total.
        if (finite && drawn < params.vocabulary) {
            result = drawn;
        }
    }
    if (t == 0u) {
        chosen[target_row] = result;
        // An invalid token continues as the first one; the host reports it.
        next[target_row] = vec4<u32>(select(0u, result, result < params.vocabulary), source.y, source.z + 1u, source.w);
    }
}
