//! Coefficients of the cost model, written by the example `cost_model`.

use super::{AreaTerm, EnergyTerm, Technology};

/// The coefficients of a technology, in the order of the terms.
pub(super) struct Coefficients {
    /// Gate equivalents of one structure.
    pub(super) area: [f64; AreaTerm::ALL.len()],
    /// Nanojoules of one unit of activity.
    pub(super) energy: [f64; EnergyTerm::ALL.len()],
}

/// Returns the coefficients of a technology.
pub(super) fn of(technology: Technology) -> &'static Coefficients {
    match technology {
        Technology::Generic => &GENERIC,
        Technology::Sky130 => &SKY130,
    }
}

const GENERIC: Coefficients = Coefficients {
    area: [
        8.9848,  // LfsrBit
        5.6056,  // SobolBit
        3.2498,  // SobolDirection
        0.4386,  // SequenceTableBit
        6.1239,  // BufferBit
        0.0,     // MemoryBit
        13.3551, // BufferIndexBit
        4.7970,  // ComparatorBit
        1.2963,  // ConstantGate
        2.0372,  // SelectedWeight
        0.0,     // WeightSelector
        6.4861,  // WeightRegister
        1.5000,  // UnipolarProduct
        4.0000,  // BipolarProduct
        3.5000,  // SignedProduct
        8.0000,  // FullAdder
        4.0000,  // HalfAdder
        2.5000,  // TopGate
        8.0530,  // CountBit
        2.9188,  // StartBit
        4.0192,  // StartAdderBit
        0.5506,  // OffsetBit
        5.0926,  // SumBit
        7.7676,  // MultiplierBit
        14.6485, // LevelBit
        1.2957,  // ConstantBit
        8.6174,  // PoolBit
        12.9660, // IndexBit
        7.0089,  // RegisterBit
        18.7370, // Stage
        2.8527,  // ReadBit
        2.4939,  // MaskedTap
        2.4879,  // SignedLane
        5.5639,  // InputRegister
        0.0,     // GroupedInput
        3.0463,  // OperandBit
        0.3329,  // WeightTableBit
        9.5271,  // MultiplierCell
        14.1444, // MultiplyAddBit
    ],
    energy: [
        5.332e-5, // LfsrStep
        3.960e-5, // SobolStep
        1.983e-5, // TableStep
        7.595e-7, // TableBit
        2.014e-5, // SequenceIdle
        6.005e-7, // BufferIdle
        3.303e-5, // BufferClock
        2.244e-5, // BufferToggle
        1.411e-5, // BufferIndex
        1.012e-5, // CompareStep
        2.047e-5, // CompareShift
        1.579e-5, // CompareToggle
        2.152e-6, // WeightStep
        7.061e-6, // WeightToggle
        2.003e-5, // SelectedWeight
        0.0,      // UnselectedWeight
        4.098e-5, // WeightClock
        9.180e-6, // AndToggle
        1.968e-5, // XnorToggle
        2.024e-5, // SignedToggle
        1.347e-5, // AdderToggle
        2.669e-6, // DirectAdderToggle
        2.439e-6, // TableAdderToggle
        1.980e-5, // AdderInput
        2.292e-5, // AdderPulse
        2.791e-5, // CountClock
        4.912e-5, // CountGate
        2.176e-5, // CountIdle
        5.833e-5, // CountToggle
        7.270e-6, // SignedSum
        2.909e-5, // StartSum
        1.801e-5, // SumRun
        8.201e-5, // SumRead
        1.916e-4, // RequantizeStep
        1.716e-5, // ArithmeticStep
        0.0,      // CycleStep
        6.070e-4, // PushStep
        0.0,      // RegisterStep
        2.351e-5, // IndexIdle
        6.287e-5, // StageIdle
        1.434e-5, // MaskToggle
        3.802e-6, // ReadRun
        3.422e-5, // ReadSelect
        0.0,      // ReadDecode
        4.372e-5, // InputClock
        4.227e-5, // OperandToggle
        1.787e-5, // WeightTableToggle
        1.102e-4, // MultiplierToggle
        7.153e-5, // MultiplyAddStep
    ],
};
const SKY130: Coefficients = Coefficients {
    area: [
        8.4435,  // LfsrBit
        5.0078,  // SobolBit
        2.6138,  // SobolDirection
        0.3018,  // SequenceTableBit
        5.4762,  // BufferBit
        0.0,     // MemoryBit
        12.0154, // BufferIndexBit
        3.0330,  // ComparatorBit
        0.9597,  // ConstantGate
        1.3590,  // SelectedWeight
        0.0,     // WeightSelector
        5.9069,  // WeightRegister
        1.6667,  // UnipolarProduct
        4.0000,  // BipolarProduct
        3.3333,  // SignedProduct
        5.3333,  // FullAdder
        3.3333,  // HalfAdder
        2.3333,  // TopGate
        7.5824,  // CountBit
        2.4997,  // StartBit
        3.5180,  // StartAdderBit
        0.3772,  // OffsetBit
        5.7236,  // SumBit
        7.8925,  // MultiplierBit
        11.2284, // LevelBit
        0.9604,  // ConstantBit
        6.8678,  // PoolBit
        11.6149, // IndexBit
        5.8371,  // RegisterBit
        22.9583, // Stage
        1.6588,  // ReadBit
        2.6649,  // MaskedTap
        2.2719,  // SignedLane
        4.8577,  // InputRegister
        0.0,     // GroupedInput
        1.9191,  // OperandBit
        0.2309,  // WeightTableBit
        9.5847,  // MultiplierCell
        12.2477, // MultiplyAddBit
    ],
    energy: [
        6.848e-5, // LfsrStep
        5.562e-5, // SobolStep
        2.929e-5, // TableStep
        9.242e-7, // TableBit
        3.661e-5, // SequenceIdle
        1.034e-6, // BufferIdle
        4.661e-5, // BufferClock
        2.519e-5, // BufferToggle
        2.687e-5, // BufferIndex
        1.373e-5, // CompareStep
        2.733e-5, // CompareShift
        1.574e-5, // CompareToggle
        6.028e-6, // WeightStep
        7.025e-6, // WeightToggle
        2.187e-5, // SelectedWeight
        3.008e-6, // UnselectedWeight
        5.524e-5, // WeightClock
        1.962e-5, // AndToggle
        3.064e-5, // XnorToggle
        4.113e-5, // SignedToggle
        1.053e-5, // AdderToggle
        0.0,      // DirectAdderToggle
        1.298e-6, // TableAdderToggle
        1.918e-5, // AdderInput
        6.966e-6, // AdderPulse
        3.583e-5, // CountClock
        1.211e-4, // CountGate
        4.200e-5, // CountIdle
        7.083e-5, // CountToggle
        1.313e-5, // SignedSum
        6.059e-5, // StartSum
        2.938e-5, // SumRun
        1.191e-4, // SumRead
        3.116e-4, // RequantizeStep
        3.318e-5, // ArithmeticStep
        0.0,      // CycleStep
        8.156e-4, // PushStep
        0.0,      // RegisterStep
        3.660e-5, // IndexIdle
        9.942e-5, // StageIdle
        1.933e-5, // MaskToggle
        6.082e-6, // ReadRun
        6.609e-5, // ReadSelect
        2.106e-6, // ReadDecode
        6.321e-5, // InputClock
        7.301e-5, // OperandToggle
        2.423e-5, // WeightTableToggle
        1.681e-4, // MultiplierToggle
        9.981e-5, // MultiplyAddStep
    ],
};
