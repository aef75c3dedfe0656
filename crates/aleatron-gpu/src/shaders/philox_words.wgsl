// The words of given counters, for the known answers.

struct Params {
    n: u32,
}
var<immediate> params: Params;

struct Question {
    counter: vec4<u32>,
    key: vec2<u32>,
    padding: vec2<u32>,
}

@group(0) @binding(0) var<storage, read> questions: array<Question>;
@group(0) @binding(1) var<storage, read_write> words: array<vec4<u32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < params.n) {
        words[id.x] = philox(questions[id.x].counter, questions[id.x].key);
    }
}
