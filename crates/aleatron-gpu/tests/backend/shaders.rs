//! Every shader is valid, with and without optional abilities, before any device sees it.

use aleatron_gpu::device::{BoundsChecks, Kernel};
use aleatron_gpu::{Capabilities, StreamKernel};
use naga::valid::{Capabilities as Allowed, ValidationFlags, Validator};

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
fn shaders_are_valid_with_and_without_optional_abilities() {
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
fn shaders_without_an_ability_do_not_use_it() {
    // Parsed as if the device had nothing, so the validator itself says so.
    for kernel in [StreamKernel::Encode, StreamKernel::Accumulate] {
        let source = kernel.source(Capabilities::ALL);
        let module = naga::front::wgsl::parse_str(&source).unwrap();
        let error = Validator::new(ValidationFlags::all(), Allowed::IMMEDIATES).validate(&module);
        assert!(error.is_err(), "{} uses no optional ability", kernel.name());
    }
}

#[test]
fn kernels_declare_the_bindings_their_shaders_have() {
    for kernel in StreamKernel::ALL {
        let source = kernel.source(Capabilities::ALL);
        let module = naga::front::wgsl::parse_str(&source).unwrap();
        let bindings =
            module.global_variables.iter().filter(|(_, variable)| variable.binding.is_some()).count();
        assert_eq!(bindings, kernel.bindings().len(), "{}", kernel.name());
        let immediates = module
            .global_variables
            .iter()
            .filter(|(_, variable)| variable.space == naga::AddressSpace::Immediate)
            .map(|(_, variable)| module.types[variable.ty].inner.size(module.to_ctx()))
            .sum::<u32>();
        assert_eq!(immediates, kernel.immediate_bytes(), "{}", kernel.name());
    }
}

/// Every file is part of a kernel, so that none goes unvalidated.
#[test]
fn every_file_belongs_to_a_kernel() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/shaders");
    let all = [Capabilities::ALL, Capabilities::NONE];
    let sources: Vec<_> = all.iter().flat_map(|&c| StreamKernel::ALL.map(|k| k.source(c))).collect();
    let mut seen = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(sources.iter().any(|source| source.contains(&text)), "{}", text.lines().next().unwrap());
        seen += 1;
    }
    assert!(seen >= 15, "{seen} files");
}

#[test]
fn hot_kernels_are_compiled_without_checks() {
    for kernel in [StreamKernel::Encode, StreamKernel::Accumulate, StreamKernel::Tile, StreamKernel::Sparse] {
        assert_eq!(kernel.checks(), BoundsChecks::Removed, "{}", kernel.name());
    }
}
