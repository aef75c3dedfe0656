//! Every shader is valid, with and without optional abilities, before any device sees it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use aleatron_gpu::{Capabilities, Kernel, StreamKernel};
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
