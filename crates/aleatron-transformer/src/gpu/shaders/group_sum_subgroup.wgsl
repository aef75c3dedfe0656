// The sum over 32 threads, which are one subgroup.
fn group_sum(value: f32, t: u32) -> f32 {
    return subgroupAdd(value);
}
