//! Terms of the cost model: structures whose number in a circuit is counted.

use super::Part;

/// Declares the terms of a sum, with their parts.
macro_rules! terms {
    ($(#[$doc:meta])* $name:ident { $($(#[$term_doc:meta])* $term:ident: $part:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$term_doc])* $term,)+
        }

        impl $name {
            /// All terms.
            pub const ALL: [Self; [$(Self::$term),+].len()] = [$(Self::$term),+];

            /// Returns the part of the circuit that the term belongs to.
            #[must_use]
            pub const fn part(self) -> Part {
                match self { $(Self::$term => Part::$part,)+ }
            }

            /// Returns the name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$term => stringify!($term),)+ }
            }
        }
    };
}

terms! {
    /// A structure that takes area.
    AreaTerm {
        /// Bits of linear-feedback shift registers.
        LfsrBit: Sequences,
        /// Bits of Sobol sequences.
        SobolBit: Sequences,
        /// Ones of direction numbers.
        SobolDirection: Sequences,
        /// Bits of tables of sequences.
        SequenceTableBit: Sequences,
        /// Bits of line buffers.
        BufferBit: InputRegisters,
        /// Bits of memories with addresses.
        MemoryBit: InputRegisters,
        /// Bits of the indices of line buffers and memories.
        BufferIndexBit: InputRegisters,
        /// Bits of the comparators of inputs.
        ComparatorBit: InputComparators,
        /// Gates of constant comparators, equal ones once.
        ConstantGate: WeightBits,
        /// Weights that a lane selects, but for the first group of neurons.
        SelectedWeight: WeightBits,
        /// Weights of lanes that take turns.
        WeightSelector: WeightBits,
        /// Registers of weight bits.
        WeightRegister: WeightBits,
        /// Products of unipolar streams.
        UnipolarProduct: Products,
        /// Products of bipolar streams.
        BipolarProduct: Products,
        /// Products of signed streams.
        SignedProduct: Products,
        /// Full adders of parallel counters.
        FullAdder: Counters,
        /// Half adders of parallel counters.
        HalfAdder: Counters,
        /// XOR gates of the highest bits of parallel counters.
        TopGate: Counters,
        /// Bits of counters.
        CountBit: Accumulators,
        /// Bits of the start values of counters.
        StartBit: Accumulators,
        /// Bits of adders that multiply start values by the length.
        StartAdderBit: Accumulators,
        /// Bits of the table of offsets.
        OffsetBit: Arithmetic,
        /// Bits of the sums of counts and offsets.
        SumBit: Arithmetic,
        /// Pairs of bits of multipliers.
        MultiplierBit: Arithmetic,
        /// Bits of products and levels behind multipliers.
        LevelBit: Arithmetic,
        /// Bits of tables of constants.
        ConstantBit: Arithmetic,
        /// Bits of the values that a pool compares or adds.
        PoolBit: Arithmetic,
        /// Bits of the indices of control.
        IndexBit: Control,
        /// Bits of registers with handshakes.
        RegisterBit: Control,
        /// Stages.
        Stage: Control,
        /// Bits of counts that a multiplexer selects, but for the first lane.
        ReadBit: Other,
        /// Inputs whose stream bits are masked between runs.
        MaskedTap: Other,
        /// Signs of products whose input may be negative.
        SignedLane: Other,
        /// Registers of input bits.
        InputRegister: Other,
        /// Inputs that lanes select by their group of channels.
        GroupedInput: Other,
        /// Bits of inputs that a multiplier selects, but for the first input.
        OperandBit: Other,
        /// Bits of tables of integer weights.
        WeightTableBit: WeightBits,
        /// Pairs of bits of multipliers of integers.
        MultiplierCell: Products,
        /// Bits of the accumulators of multipliers, with their adders.
        MultiplyAddBit: Products,
    }
}

terms! {
    /// An activity that takes energy: how often structures of a kind change in a sample. A run is
    /// one window with one group of neurons.
    EnergyTerm {
        /// Bits of linear-feedback shift registers, in cycles of runs.
        LfsrStep: Sequences,
        /// Bits of Sobol sequences, in cycles of runs.
        SobolStep: Sequences,
        /// Bits of sequences from tables, in cycles of streams.
        TableStep: Sequences,
        /// Bits of tables of sequences, in cycles of streams.
        TableBit: Sequences,
        /// Sequences with registers, in all cycles.
        SequenceIdle: Sequences,
        /// Bits of line buffers and memories, in all cycles.
        BufferIdle: InputRegisters,
        /// Bits of line buffers and memories, for each word that arrives.
        BufferClock: InputRegisters,
        /// Bits of line buffers and memories that change.
        BufferToggle: InputRegisters,
        /// Bits of the indices of line buffers and memories, in all cycles.
        BufferIndex: InputRegisters,
        /// Bits of comparators of inputs, for each bit of a sequence that changes.
        CompareStep: InputComparators,
        /// Bits of comparators of inputs, for each bit of a threshold that changes.
        CompareShift: InputComparators,
        /// Stream bits of inputs that change.
        CompareToggle: InputComparators,
        /// Gates of constant comparators, for each bit of a sequence that changes.
        WeightStep: WeightBits,
        /// Bits of constant comparators that change.
        WeightToggle: WeightBits,
        /// Bits of weights that change behind the selection of a group of neurons.
        SelectedWeight: WeightBits,
        /// Bits of weights of all other groups of neurons that change before the selection.
        UnselectedWeight: WeightBits,
        /// Registers of weight bits, in cycles of runs.
        WeightClock: WeightBits,
        /// AND gates of products that change.
        AndToggle: Products,
        /// XNOR gates of products that change.
        XnorToggle: Products,
        /// Products of layers with signs that change.
        SignedToggle: Products,
        /// Outputs of adders that change.
        AdderToggle: Counters,
        /// Outputs of adders that change and whose products come from comparators without registers
        /// between.
        DirectAdderToggle: Counters,
        /// Outputs of adders that change in layers with sequences from tables, whose bits change
        /// several times in a cycle.
        TableAdderToggle: Counters,
        /// Products that change at the inputs of adders.
        AdderInput: Counters,
        /// Pulses of products whose input changes after their weight.
        AdderPulse: Counters,
        /// Bits of counters, in cycles of runs.
        CountClock: Accumulators,
        /// Counters, in cycles of runs.
        CountGate: Accumulators,
        /// Counters, in all cycles.
        CountIdle: Accumulators,
        /// Bits of counters that change.
        CountToggle: Accumulators,
        /// Bits of new counts that change in layers with signs, which select a start value.
        SignedSum: Accumulators,
        /// Bits of new counts that change, for each addition of the multiplication of start values
        /// by the length.
        StartSum: Accumulators,
        /// Bits of the sums of counts and offsets, for each change of the count of the first lane.
        SumRun: Arithmetic,
        /// Bits of the sums of counts and offsets, for each neuron.
        SumRead: Arithmetic,
        /// Bits of products and levels of requantizers, for each element.
        RequantizeStep: Arithmetic,
        /// Area of other arithmetic, for each element.
        ArithmeticStep: Arithmetic,
        /// Layers, in cycles of streams.
        CycleStep: Control,
        /// Words that arrive at layers.
        PushStep: Control,
        /// Bits of registers with handshakes, for each element.
        RegisterStep: Control,
        /// Bits of indices, in all cycles.
        IndexIdle: Control,
        /// Stages, in all cycles.
        StageIdle: Control,
        /// Masks of stream bits that change.
        MaskToggle: Other,
        /// Bits of counters that change at the inputs of the multiplexer of counts.
        ReadRun: Other,
        /// Bits of counts behind the multiplexer, for each neuron.
        ReadSelect: Other,
        /// Lanes that the multiplexer chooses from, for each neuron.
        ReadDecode: Other,
        /// Registers of input bits, in cycles of runs.
        InputClock: Other,
        /// Bits of inputs of multipliers that change, for each level of the selection.
        OperandToggle: Other,
        /// Bits of integer weights that change, for each level of the selection.
        WeightTableToggle: WeightBits,
        /// Pairs of bits of multipliers whose AND changes.
        MultiplierToggle: Products,
        /// Bits of the accumulators of multipliers, for each product.
        MultiplyAddStep: Products,
    }
}
