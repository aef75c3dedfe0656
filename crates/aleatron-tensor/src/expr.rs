//! Elementwise expressions, which the CPU evaluates block by block and a GPU computes in one
//! kernel.
//!
//! An [`Expr`] is a [`Program`] over leaves and constants. Equal programs share one kernel.

use crate::dtype::{Constant, DType};
use crate::op::{BinaryOp, UnaryOp};

/// The index of a step in a program.
pub(crate) type StepIndex = usize;

/// A step of a program, which computes a value from earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// The elements of a leaf.
    Leaf(StepIndex),
    /// A constant, the same for all elements.
    Constant(StepIndex),
    /// An operation of one argument.
    Unary(UnaryOp, StepIndex),
    /// An operation of two arguments of one type.
    Binary(BinaryOp, StepIndex, StepIndex),
    /// The second value if the first is true, otherwise the third.
    Select(StepIndex, StepIndex, StepIndex),
    /// The value, cast to another type.
    Cast(StepIndex),
}

/// A sequence of at least one step; the value of the last step is the result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Program {
    /// The steps, each with the type of its value.
    pub(crate) steps: Vec<(Node, DType)>,
}

impl Program {
    /// Returns the type of the result.
    pub(crate) fn dtype(&self) -> DType {
        self.dtype_of(self.last())
    }

    /// Returns the index of the result.
    fn last(&self) -> StepIndex {
        self.steps.len() - 1
    }

    pub(crate) fn dtype_of(&self, index: StepIndex) -> DType {
        self.steps[index].1
    }

    /// Returns the number of steps that compute.
    pub(crate) fn operations(&self) -> usize {
        self.steps
            .iter()
            .filter(|(node, _)| !matches!(node, Node::Leaf(_) | Node::Constant(_)))
            .count()
    }
}

/// A program over leaves of some kind.
#[derive(Debug, Clone)]
pub(crate) struct Expr<L> {
    pub(crate) program: Program,
    pub(crate) leaves: Vec<L>,
    pub(crate) constants: Vec<Constant>,
}

impl<L: Clone + PartialEq> Expr<L> {
    /// Creates an expression of the elements of a leaf.
    pub(crate) fn leaf(leaf: L, dtype: DType) -> Self {
        let program = Program { steps: vec![(Node::Leaf(0), dtype)] };
        Self { program, leaves: vec![leaf], constants: Vec::new() }
    }

    /// Creates a constant expression.
    pub(crate) fn constant(constant: Constant) -> Self {
        let program = Program { steps: vec![(Node::Constant(0), constant.dtype())] };
        Self { program, leaves: Vec::new(), constants: vec![constant] }
    }

    pub(crate) fn dtype(&self) -> DType {
        self.program.dtype()
    }

    /// Returns the index of a step; adds the step if it is missing.
    fn add(&mut self, node: Node, dtype: DType) -> StepIndex {
        let steps = &mut self.program.steps;
        steps.iter().position(|step| *step == (node, dtype)).unwrap_or_else(|| {
            steps.push((node, dtype));
            steps.len() - 1
        })
    }

    /// Merges another expression, whose steps in common are shared. Returns the index of its
    /// result.
    fn absorb(&mut self, other: &Self) -> StepIndex {
        let mut indices = Vec::with_capacity(other.program.steps.len());
        for &(node, dtype) in &other.program.steps {
            let at = |index: StepIndex| indices[index];
            let node = match node {
                Node::Leaf(leaf) => {
                    let leaf = &other.leaves[leaf];
                    let known = self.leaves.iter().position(|own| own == leaf);
                    Node::Leaf(known.unwrap_or_else(|| {
                        self.leaves.push(leaf.clone());
                        self.leaves.len() - 1
                    }))
                }
                Node::Constant(constant) => {
                    let constant = other.constants[constant];
                    let known = self.constants.iter().position(|own| *own == constant);
                    Node::Constant(known.unwrap_or_else(|| {
                        self.constants.push(constant);
                        self.constants.len() - 1
                    }))
                }
                Node::Unary(op, x) => Node::Unary(op, at(x)),
                Node::Binary(op, x, y) => Node::Binary(op, at(x), at(y)),
                Node::Select(c, x, y) => Node::Select(at(c), at(x), at(y)),
                Node::Cast(x) => Node::Cast(at(x)),
            };
            indices.push(self.add(node, dtype));
        }
        indices[other.program.last()]
    }

    /// Makes a step the result: it must be the last one.
    fn end_with(mut self, node: Node, dtype: DType) -> Self {
        let index = self.add(node, dtype);
        // An existing step is the result only if no step follows it.
        self.program.steps.truncate(index + 1);
        self
    }

    /// Applies an operation to the result.
    pub(crate) fn unary(self, op: UnaryOp, dtype: DType) -> Self {
        let x = self.program.last();
        self.end_with(Node::Unary(op, x), dtype)
    }

    /// Casts the result to another type.
    pub(crate) fn cast(self, dtype: DType) -> Self {
        if self.dtype() == dtype {
            return self;
        }
        let x = self.program.last();
        self.end_with(Node::Cast(x), dtype)
    }

    /// Applies an operation to two results of one type.
    pub(crate) fn binary(mut self, op: BinaryOp, other: &Self, dtype: DType) -> Self {
        let x = self.program.last();
        let y = self.absorb(other);
        self.end_with(Node::Binary(op, x, y), dtype)
    }

    /// Selects `x` where this is true, otherwise `y`.
    pub(crate) fn select(mut self, x: &Self, y: &Self) -> Self {
        let condition = self.program.last();
        let (x_at, y_at) = (self.absorb(x), self.absorb(y));
        self.end_with(Node::Select(condition, x_at, y_at), x.dtype())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Scalar;

    #[test]
    fn shared_steps_of_expressions_are_computed_once() {
        let leaf = |name: &'static str| Expr::leaf(name, DType::F32);
        let y = leaf("a").unary(UnaryOp::Exp, DType::F32);
        let twice = y.clone().binary(BinaryOp::Add, &y, DType::F32);
        assert_eq!(twice.program.steps.len(), 3);
        assert_eq!(twice.leaves, ["a"]);
        // Doubling thirty times is thirty additions.
        let many = (0..30)
            .fold(twice.clone(), |sum, _| sum.clone().binary(BinaryOp::Add, &sum, DType::F32));
        assert_eq!((many.program.operations(), many.leaves.len()), (32, 1));
        let one = Expr::constant(Scalar::Float(1.0).to_dtype(DType::F32).unwrap());
        let two = Expr::constant(Scalar::Float(2.0).to_dtype(DType::F32).unwrap());
        let sum = leaf("b").binary(BinaryOp::Add, &one, DType::F32).binary(
            BinaryOp::Mul,
            &two,
            DType::F32,
        );
        let both = sum.binary(
            BinaryOp::Mul,
            &leaf("b").binary(BinaryOp::Add, &one, DType::F32),
            DType::F32,
        );
        assert_eq!((both.leaves.len(), both.constants.len(), both.program.operations()), (1, 2, 3));
        assert_eq!(both.program.dtype(), DType::F32);
    }
}
