//! Validates every shader, with and without optional capabilities, without a device; and tests that
//! launch kernels directly.

use std::sync::Arc;

use aleatron_core::golden::{Answer, answers};
use aleatron_device::{
    AdapterChoice, BoundsChecks, Capabilities, Checks, ConstantValue, ContextOptions, GpuContext,
    Kernel,
};
use naga::valid::{Capabilities as Allowed, ValidationFlags, Validator};

use super::StreamKernel;

/// Returns a device as it is, one that checks every kernel, and one without optional capabilities.
fn contexts() -> [Arc<GpuContext>; 3] {
    let choice = match AdapterChoice::from_env() {
        AdapterChoice::Strongest => AdapterChoice::named("llvmpipe"),
        named => named,
    };
    let options = ContextOptions::default;
    let kinds = [
        options(),
        ContextOptions { checks: Checks::Always, ..options() },
        ContextOptions { capabilities: Capabilities::NONE, ..options() },
    ];
    kinds.map(|options| GpuContext::open(&choice, &options).unwrap())
}

fn validate(kernel: StreamKernel, capabilities: Capabilities) -> Result<(), String> {
    let mut allowed = Allowed::IMMEDIATES;
    if capabilities.int64 {
        allowed |= Allowed::SHADER_INT64;
    }
    if capabilities.subgroups {
        allowed |= Allowed::SUBGROUP;
    }
    let source = kernel.source(capabilities);
    let module = naga::front::wgsl::parse_str(&source).map_err(|e| e.emit_to_string(&source))?;
    Validator::new(ValidationFlags::all(), allowed)
        .validate(&module)
        .map_err(|e| e.emit_to_string(&source))?;
    assert_eq!(module.entry_points.len(), 1, "{}: one entry point", kernel.name());
    assert_eq!(module.entry_points[0].name, "main");
    Ok(())
}

#[test]
fn shaders_are_valid_with_and_without_optional_capabilities() {
    let some = Capabilities { int64: true, ..Capabilities::NONE };
    for capabilities in [Capabilities::ALL, Capabilities::NONE, some] {
        for kernel in StreamKernel::ALL {
            if let Err(message) = validate(kernel, capabilities) {
                panic!("{} with {capabilities:?}:\n{message}", kernel.name());
            }
        }
    }
}

#[test]
fn shaders_without_a_capability_do_not_use_it() {
    // Parsed as for a device without capabilities, so the validator itself rejects their use.
    for kernel in [StreamKernel::Encode, StreamKernel::Accumulate] {
        let source = kernel.source(Capabilities::ALL);
        let module = naga::front::wgsl::parse_str(&source).unwrap();
        let error = Validator::new(ValidationFlags::all(), Allowed::IMMEDIATES).validate(&module);
        assert!(error.is_err(), "{} uses no optional ability", kernel.name());
    }
}

#[test]
fn kernel_declarations_match_shader_bindings() {
    for kernel in StreamKernel::ALL {
        let source = kernel.source(Capabilities::ALL);
        let module = naga::front::wgsl::parse_str(&source).unwrap();
        let bindings = module
            .global_variables
            .iter()
            .filter(|(_, variable)| variable.binding.is_some())
            .count();
        assert_eq!(bindings, kernel.bindings().len(), "{}", kernel.name());
        let immediates = module
            .global_variables
            .iter()
            .filter(|(_, variable)| variable.space == naga::AddressSpace::Immediate)
            .map(|(_, variable)| module.types[variable.ty].inner.size(module.to_ctx()))
            .sum::<u32>();
        assert_eq!(immediates as usize, kernel.immediate_bytes(), "{}", kernel.name());
    }
}

/// Every file is part of a kernel, so that each is validated.
#[test]
fn shader_files_all_belong_to_a_kernel() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/shaders");
    let all = [Capabilities::ALL, Capabilities::NONE];
    let sources: Vec<_> =
        all.iter().flat_map(|&c| StreamKernel::ALL.map(|k| k.source(c))).collect();
    let mut seen = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(
            sources.iter().any(|source| source.contains(&text)),
            "{}",
            text.lines().next().unwrap()
        );
        seen += 1;
    }
    assert!(seen >= 15, "{seen} files");
}

#[test]
fn hot_kernels_are_compiled_without_checks() {
    for kernel in
        [StreamKernel::Encode, StreamKernel::Accumulate, StreamKernel::Tile, StreamKernel::Sparse]
    {
        assert!(matches!(kernel.checks(), BoundsChecks::Removed(_)), "{}", kernel.name());
    }
}

/// Adds the counts of a kernel over streams of ones to counts that are about to exceed 32 bits.
fn carry<const N: usize>(
    context: &Arc<GpuContext>,
    kernel: StreamKernel,
    constants: &[(&str, ConstantValue)],
    params: [u32; N],
    added: u32,
) where
    [u32; N]: bytemuck::Pod,
{
    let ones = context.upload(&[u32::MAX; 4]).unwrap();
    let units = context.upload(&[0u32]).unwrap();
    let segments = context.upload(&[[0u32, 0, 1]]).unwrap();
    let pipeline = context.pipeline(&kernel, constants).unwrap();
    for before in [0, u32::MAX - added, u32::MAX - added + 1, u32::MAX] {
        let counts = context.upload(&[before, 0]).unwrap();
        let mut views = vec![ones.view(), ones.view()];
        if kernel == StreamKernel::Sparse {
            views.extend([units.view(), segments.view()]);
        }
        views.push(counts.view());
        let bound = context.bind(&pipeline, &views).unwrap();
        let mut recorder = context.recorder(None).unwrap();
        recorder.dispatch(&bound, &params, [1, 1, 1], 0).unwrap();
        recorder.submit().unwrap();
        let sum = u64::from(before) + u64::from(added);
        let found: Vec<u64> = counts.read().unwrap().into_iter().map(u64::from).collect();
        assert_eq!(found, [sum % (1 << 32), sum >> 32], "{kernel:?} from {before}");
    }
}

#[test]
fn sums_carry_into_the_high_word() {
    for context in contexts() {
        let flags = [("XOR", false.into()), ("ADD", true.into()), ("WIDE", true.into())];
        let rows: Vec<_> = flags.into_iter().chain([("ROWS", 1u32.into())]).collect();
        carry(&context, StreamKernel::Accumulate, &rows, [1, 1, 1, 1, 0, 1, 1, 0], 128);
        carry(&context, StreamKernel::Tile, &flags, [1, 1, 1, 4, 1, 1, 1, 0, 1, 1], 128);
        carry(&context, StreamKernel::Sparse, &flags, [1, 0, 1, 1, 1, 1, 1], 64);
    }
}

#[test]
fn philox_words_match_published_values() {
    let mut seen = 0;
    for context in contexts() {
        for answer in answers().unwrap() {
            let Answer::Philox { counter: [c0, c1, c2, c3], seed, words } = answer else {
                continue;
            };
            let [k0, k1] = aleatron_core::philox::key(seed);
            let questions = context.upload(&[[c0, c1, c2, c3, k0, k1, 0, 0]]).unwrap();
            let answers = context.buffer::<[u32; 4]>(1).unwrap();
            let pipeline = context.pipeline(&StreamKernel::PhiloxWords, &[]).unwrap();
            let bound = context.bind(&pipeline, &[questions.view(), answers.view()]).unwrap();
            let mut recorder = context.recorder(None).unwrap();
            recorder.dispatch(&bound, &1u32, [1, 1, 1], 0).unwrap();
            recorder.submit().unwrap();
            assert_eq!(answers.read().unwrap()[0][..], words);
            seen += 1;
        }
    }
    assert!(seen >= 12, "{seen} answers");
}
