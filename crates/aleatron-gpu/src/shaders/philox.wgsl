// Philox 4x32-10 as published with Random123. `mulhilo` comes from the previous file.

const PHILOX_STEP = vec2<u32>(0x9E3779B9u, 0xBB67AE85u);

fn philox_round(c: vec4<u32>, key: vec2<u32>) -> vec4<u32> {
    let p = mulhilo(0xD2511F53u, c.x);
    let q = mulhilo(0xCD9E8D57u, c.z);
    return vec4<u32>(q.x ^ c.y ^ key.x, q.y, p.x ^ c.w ^ key.y, p.y);
}

// The ten rounds are written out: a loop would be counted at run time by the bounds wgpu adds to every loop.
fn philox(counter: vec4<u32>, key: vec2<u32>) -> vec4<u32> {
    let k1 = key + PHILOX_STEP;
    let k2 = k1 + PHILOX_STEP;
    let k3 = k2 + PHILOX_STEP;
    let k4 = k3 + PHILOX_STEP;
    let k5 = k4 + PHILOX_STEP;
    let k6 = k5 + PHILOX_STEP;
    let k7 = k6 + PHILOX_STEP;
    let k8 = k7 + PHILOX_STEP;
    let k9 = k8 + PHILOX_STEP;
    var c = philox_round(counter, key);
    c = philox_round(c, k1);
    c = philox_round(c, k2);
    c = philox_round(c, k3);
    c = philox_round(c, k4);
    c = philox_round(c, k5);
    c = philox_round(c, k6);
    c = philox_round(c, k7);
    c = philox_round(c, k8);
    return philox_round(c, k9);
}
