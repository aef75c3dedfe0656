//! The optional capabilities of devices.

use std::fmt;

/// The optional capabilities of a device. Kernels use them if present, and alternatives otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Capabilities {
    /// The host reads and writes buffers of kernels in place.
    pub mapped_buffers: bool,
    /// Kernels can be timed.
    pub timestamps: bool,
    /// 64-bit integers in shaders.
    pub int64: bool,
    /// Operations across the lanes of a subgroup.
    pub subgroups: bool,
    /// 16-bit floats in shaders (`enable f16;`).
    pub float16: bool,
    /// Matrix products of a whole subgroup (`enable wgpu_cooperative_matrix;`), in the shapes of
    /// [`AdapterInfo::cooperative_matrices`](crate::AdapterInfo::cooperative_matrices). wgpu calls
    /// this feature experimental: its shaders are less well tested than others.
    pub cooperative_matrices: bool,
}

impl Capabilities {
    /// All capabilities.
    pub const ALL: Self = Self {
        mapped_buffers: true,
        timestamps: true,
        int64: true,
        subgroups: true,
        float16: true,
        cooperative_matrices: true,
    };

    /// No optional capability.
    pub const NONE: Self = Self {
        mapped_buffers: false,
        timestamps: false,
        int64: false,
        subgroups: false,
        float16: false,
        cooperative_matrices: false,
    };

    /// Returns the intersection.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            mapped_buffers: self.mapped_buffers && other.mapped_buffers,
            timestamps: self.timestamps && other.timestamps,
            int64: self.int64 && other.int64,
            subgroups: self.subgroups && other.subgroups,
            float16: self.float16 && other.float16,
            cooperative_matrices: self.cooperative_matrices && other.cooperative_matrices,
        }
    }

    const FEATURES: [wgpu::Features; 6] = [
        wgpu::Features::MAPPABLE_PRIMARY_BUFFERS,
        wgpu::Features::TIMESTAMP_QUERY,
        wgpu::Features::SHADER_INT64,
        wgpu::Features::SUBGROUP,
        wgpu::Features::SHADER_F16,
        wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX,
    ];

    pub(crate) fn of(features: wgpu::Features) -> Self {
        let [mapped_buffers, timestamps, int64, subgroups, float16, cooperative_matrices] =
            Self::FEATURES.map(|f| features.contains(f));
        Self { mapped_buffers, timestamps, int64, subgroups, float16, cooperative_matrices }
    }

    pub(crate) fn features(self) -> wgpu::Features {
        let Self { mapped_buffers, timestamps, int64, subgroups, float16, cooperative_matrices } =
            self;
        let flags = [mapped_buffers, timestamps, int64, subgroups, float16, cooperative_matrices];
        let on = Self::FEATURES.into_iter().zip(flags).filter(|(_, on)| *on);
        on.fold(wgpu::Features::empty(), |all, (feature, _)| all | feature)
    }
}

/// The element type of a cooperative matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MatrixElement {
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    F16,
    /// 32-bit signed integers.
    I32,
    /// 32-bit unsigned integers.
    U32,
}

impl MatrixElement {
    fn of(scalar: wgpu::CooperativeScalarType) -> Self {
        match scalar {
            wgpu::CooperativeScalarType::F32 => Self::F32,
            wgpu::CooperativeScalarType::F16 => Self::F16,
            wgpu::CooperativeScalarType::I32 => Self::I32,
            wgpu::CooperativeScalarType::U32 => Self::U32,
        }
    }
}

/// A matrix product supported by the subgroups of a device: C + A B, A of m x k and B of k x n.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CooperativeMatrix {
    /// The rows of A and C.
    pub m: u32,
    /// The columns of B and C.
    pub n: u32,
    /// The columns of A and rows of B.
    pub k: u32,
    /// The elements of A and B.
    pub operands: MatrixElement,
    /// The elements of C and the result.
    pub sums: MatrixElement,
    /// Whether integer sums can saturate instead of wrapping.
    pub saturating: bool,
}

impl CooperativeMatrix {
    pub(crate) fn of(properties: &wgpu::CooperativeMatrixProperties) -> Self {
        Self {
            m: properties.m_size,
            n: properties.n_size,
            k: properties.k_size,
            operands: MatrixElement::of(properties.ab_type),
            sums: MatrixElement::of(properties.cr_type),
            saturating: properties.saturating_accumulation,
        }
    }
}

impl fmt::Display for CooperativeMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { m, n, k, operands, sums, .. } = self;
        write!(f, "{m}x{n}x{k} {operands:?} to {sums:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_and_features_correspond() {
        assert_eq!(Capabilities::of(Capabilities::ALL.features()), Capabilities::ALL);
        assert_eq!(Capabilities::NONE.features(), wgpu::Features::empty());
        let only = Capabilities { int64: true, ..Capabilities::NONE };
        assert_eq!(only.features(), wgpu::Features::SHADER_INT64);
        assert_eq!(only.and(Capabilities::ALL), only);
        assert_eq!(only.and(Capabilities::NONE), Capabilities::NONE);
    }
}
