//! Instruction sets used by the kernels, detected at run time.
//!
//! | tier | count | encode | pack, unpack |
//! |---|---|---|---|
//! | `avx512-vpopcntdq` | native 512-bit popcount, 4x4 register tiles; tables by permutations of bytes (VBMI) | 512-bit | 512-bit masks |
//! | `avx512bw` | 512-bit Harley-Seal over a byte lookup | 512-bit | 512-bit masks |
//! | `avx512f` | as `avx2` | 512-bit | as `avx2` |
//! | `avx2` | 256-bit Harley-Seal over a byte lookup | 256-bit | 256-bit |
//! | `popcnt` | one `popcnt` per word | portable | portable |
//! | `neon` | 128-bit popcount of bytes, 4x4 register tiles | 128-bit | 128-bit |
//! | `portable` | `u64::count_ones` | portable | portable |

use crate::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The environment variable that forces a tier by name.
pub const TIER_VARIABLE: &str = "ALEATRON_TIER";

/// The instruction sets, fastest first. Each set of x86-64 includes those after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Isa {
    Avx512Vpopcntdq,
    Avx512bw,
    Avx512f,
    Avx2,
    Popcnt,
    Neon,
    Portable,
}

impl Isa {
    const ALL: [Self; 7] = [
        Self::Avx512Vpopcntdq,
        Self::Avx512bw,
        Self::Avx512f,
        Self::Avx2,
        Self::Popcnt,
        Self::Neon,
        Self::Portable,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Avx512Vpopcntdq => "avx512-vpopcntdq",
            Self::Avx512bw => "avx512bw",
            Self::Avx512f => "avx512f",
            Self::Avx2 => "avx2",
            Self::Popcnt => "popcnt",
            Self::Neon => "neon",
            Self::Portable => "portable",
        }
    }

    /// Returns whether this machine has every instruction of the tier's kernels.
    fn detected(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            let popcnt = || is_x86_feature_detected!("popcnt");
            let avx2 = || popcnt() && is_x86_feature_detected!("avx2");
            let avx512f = || avx2() && is_x86_feature_detected!("avx512f");
            let avx512bw = || avx512f() && is_x86_feature_detected!("avx512bw");
            match self {
                Self::Avx512Vpopcntdq => {
                    // Processors with the first and lanes of bytes have the second too.
                    avx512bw()
                        && is_x86_feature_detected!("avx512vpopcntdq")
                        && is_x86_feature_detected!("avx512vbmi")
                }
                Self::Avx512bw => avx512bw(),
                Self::Avx512f => avx512f(),
                Self::Avx2 => avx2(),
                Self::Popcnt => popcnt(),
                Self::Neon => false,
                Self::Portable => true,
            }
        }
        #[cfg(target_arch = "aarch64")]
        match self {
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            Self::Portable => true,
            _ => false,
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        {
            self == Self::Portable
        }
    }
}

/// A tier of this machine. Tiers are created by detection only, so a value proves that its kernels
/// may run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tier(Isa);

impl Tier {
    /// Returns all tiers of this machine, fastest first; `portable` is always included.
    #[must_use]
    pub fn available() -> Vec<Self> {
        Isa::ALL.into_iter().filter(|isa| isa.detected()).map(Self).collect()
    }

    /// Returns the fastest tier of this machine.
    #[must_use]
    pub fn best() -> Self {
        Isa::ALL.into_iter().find(|isa| isa.detected()).map_or(Self(Isa::Portable), Self)
    }

    /// Returns the tier of this process: that of `ALEATRON_TIER`, otherwise the best. The variable
    /// is read once, or again after an error.
    ///
    /// # Errors
    /// As for [`Self::from_name`].
    pub fn current() -> Result<Self, Error> {
        // The index of the tier plus one; no lock, which a child of a fork could find locked.
        static CURRENT: AtomicUsize = AtomicUsize::new(0);
        let known =
            CURRENT.load(Ordering::Relaxed).checked_sub(1).and_then(|index| Isa::ALL.get(index));
        if let Some(&isa) = known {
            return Ok(Self(isa));
        }
        let tier = match std::env::var_os(TIER_VARIABLE) {
            Some(name) if !name.is_empty() => Self::from_name(&name.to_string_lossy())?,
            _ => Self::best(),
        };
        CURRENT.store(tier.index() + 1, Ordering::Relaxed);
        Ok(tier)
    }

    /// Returns the tier with this name.
    ///
    /// ```
    /// use aleatron_cpu::{Error, Tier};
    /// assert_eq!(Tier::from_name("portable")?.name(), "portable");
    /// assert!(matches!(Tier::from_name("sse9"), Err(Error::UnknownTier { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::UnknownTier`] for an unknown name, [`Error::UnavailableTier`] if this
    /// machine lacks the tier.
    pub fn from_name(name: &str) -> Result<Self, Error> {
        let Some(isa) = Isa::ALL.into_iter().find(|isa| isa.name() == name) else {
            return Err(Error::UnknownTier {
                name: name.into(),
                known: Isa::ALL.map(Isa::name).to_vec(),
            });
        };
        if isa.detected() {
            Ok(Self(isa))
        } else {
            let available = Self::available().into_iter().map(Self::name).collect();
            Err(Error::UnavailableTier { name: isa.name(), available })
        }
    }

    /// Returns the name, as in `ALEATRON_TIER`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name()
    }

    /// Returns whether kernels may use POPCNT.
    #[must_use]
    pub fn has_popcnt(self) -> bool {
        self.0 <= Isa::Popcnt
    }

    /// Returns whether kernels may use AVX2, and AVX with it.
    ///
    /// These predicates let other crates dispatch to their own kernels: true proves that the
    /// machine has the instructions; a slower tier, selected by name, makes them false.
    ///
    /// ```
    /// use aleatron_cpu::Tier;
    ///
    /// #[cfg(target_arch = "x86_64")]
    /// #[target_feature(enable = "avx2,fma")]
    /// fn dot_fma(a: &[f32], b: &[f32]) -> f32 {
    ///     a.iter().zip(b).fold(0.0, |sum, (a, b)| a.mul_add(*b, sum))
    /// }
    ///
    /// fn dot(tier: Tier, a: &[f32], b: &[f32]) -> f32 {
    ///     #[cfg(target_arch = "x86_64")]
    ///     if tier.has_avx2() && tier.has_fma() {
    ///         // SAFETY: the tier proves that the machine has both.
    ///         return unsafe { dot_fma(a, b) };
    ///     }
    ///     a.iter().zip(b).map(|(a, b)| a * b).sum()
    /// }
    ///
    /// for tier in Tier::available() {
    ///     assert_eq!(dot(tier, &[1.0, 2.0], &[3.0, 4.0]), 11.0);
    /// }
    /// ```
    #[must_use]
    pub fn has_avx2(self) -> bool {
        self.0 <= Isa::Avx2
    }

    /// Returns whether kernels may use the fused multiply-add of 128 and 256 bits. Nearly every
    /// machine with AVX2 has it, but no tier includes it.
    #[must_use]
    pub fn has_fma(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            self.has_avx2() && is_x86_feature_detected!("fma")
        }
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Returns whether kernels may convert half-precision floats with F16C. Nearly every machine
    /// with AVX2 has it, but no tier includes it.
    #[must_use]
    pub fn has_f16c(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            self.has_avx2() && is_x86_feature_detected!("f16c")
        }
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Returns whether kernels may use AVX-512F, which has fused multiply-adds and half-precision
    /// conversions of 512 bits.
    #[must_use]
    pub fn has_avx512f(self) -> bool {
        self.0 <= Isa::Avx512f
    }

    /// Returns whether kernels may use AVX-512BW.
    #[must_use]
    pub fn has_avx512bw(self) -> bool {
        self.0 <= Isa::Avx512bw
    }

    /// Returns whether kernels may use AVX-512VPOPCNTDQ.
    #[must_use]
    pub fn has_avx512vpopcntdq(self) -> bool {
        self.0 == Isa::Avx512Vpopcntdq
    }

    /// Returns whether kernels may use NEON, which has fused multiply-adds and conversions of
    /// half-precision floats.
    #[must_use]
    pub fn has_neon(self) -> bool {
        self.0 == Isa::Neon
    }

    /// The number of tiers.
    pub(crate) const COUNT: usize = Isa::ALL.len();

    /// Returns the index among all tiers.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) const fn isa(self) -> Isa {
        self.0
    }
}

impl fmt::Debug for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tier({})", self.name())
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tier_has_its_index() {
        assert!(Isa::ALL.into_iter().enumerate().all(|(index, isa)| Tier(isa).index() == index));
    }

    #[test]
    fn tier_predicates_match_name_and_machine() {
        let all = |tier: Tier| {
            [
                tier.has_popcnt(),
                tier.has_avx2(),
                tier.has_fma(),
                tier.has_f16c(),
                tier.has_avx512f(),
                tier.has_avx512bw(),
                tier.has_avx512vpopcntdq(),
                tier.has_neon(),
            ]
        };
        #[cfg(target_arch = "x86_64")]
        let machine = [
            is_x86_feature_detected!("popcnt"),
            is_x86_feature_detected!("avx2"),
            is_x86_feature_detected!("fma"),
            is_x86_feature_detected!("f16c"),
            is_x86_feature_detected!("avx512f"),
            is_x86_feature_detected!("avx512bw"),
            is_x86_feature_detected!("avx512vpopcntdq"),
            false,
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let machine =
            [false, false, false, false, false, false, false, cfg!(target_arch = "aarch64")];
        for tier in Tier::available() {
            let has = all(tier);
            assert!(has.iter().zip(machine).all(|(has, machine)| !has || machine), "{tier}");
            let lowest = |name: &str, n: usize| tier.name() != name || has[n];
            assert!(
                lowest("popcnt", 0)
                    && lowest("avx2", 1)
                    && lowest("avx512f", 4)
                    && lowest("neon", 7)
            );
            assert!(lowest("avx512bw", 5) && lowest("avx512-vpopcntdq", 6));
            // Each includes the ones below it.
            assert!(
                (!has[1] || has[0])
                    && (!has[4] || has[1])
                    && (!has[5] || has[4])
                    && (!has[6] || has[5])
            );
            assert!((!has[2] && !has[3]) || has[1]);
            assert_eq!(tier.name() == "portable", has == [false; 8], "{tier}");
        }
    }
}
