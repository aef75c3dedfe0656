//! Elementwise expressions: what the CPU evaluates block by block, and what one kernel computes on
//! a GPU.
//!
//! An [`Expr`] is a [`Program`], which says what is computed, over leaves and constants. Programs
//! are values: equal ones are one kernel.

use crate::dtype::{Constant, DType};
use crate::op::{BinaryOp, UnaryOp};

/// The place of a value in a program.
pub(crate) type Place = usize;

/// A step of a program: what makes a value of those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// The elements of a leaf.
    Leaf(Place),
    /// A constant, the same for all elements.
    Constant(Place),
    /// An operation of one argument.
    Unary(UnaryOp, Place),
    /// An operation of two arguments of one type.
    Binary(BinaryOp, Place, Place),
    /// The second where the first is true, else the third.
    Select(Place, Place, Place),
    /// The value as another type.
    Cast(Place),
}

/// What is computed, step by step, of which there is at least one; the last value is the result.
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
    fn last(&self) -> Place {
        self.steps.len() - 1
    }

    pub(crate) fn dtype_of(&self, place: Place) -> DType {
        self.steps[place].1
    }

    /// Returns the steps that compute.
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
    /// Returns the elements of a leaf.
    pub(crate) fn leaf(leaf: L, dtype: DType) -> Self {
        let program = Program { steps: vec![(Node::Leaf(0), dtype)] };
        Self { program, leaves: vec![leaf], constants: Vec::new() }
    }

    /// Returns a constant.
    pub(crate) fn constant(constant: Constant) -> Self {
        let program = Program { steps: vec![(Node::Constant(0), constant.dtype())] };
        Self { program, leaves: Vec::new(), constants: vec![constant] }
    }

    pub(crate) fn dtype(&self) -> DType {
        self.program.dtype()
    }

    /// Returns the place of a step, which is added unless it is there.
    fn add(&mut self, node: Node, dtype: DType) -> Place {
        let steps = &mut self.program.steps;
        steps.iter().position(|step| *step == (node, dtype)).unwrap_or_else(|| {
            steps.push((node, dtype));
            steps.len() - 1
        })
    }

    /// Takes over all of another expression; what both have is there once. Gives the place of its
    /// result.
    fn absorb(&mut self, other: &Self) -> Place {
        let mut places = Vec::with_capacity(other.program.steps.len());
        for &(node, dtype) in &other.program.steps {
            let at = |place: Place| places[place];
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
            places.push(self.add(node, dtype));
        }
        places[other.program.last()]
    }

    /// Makes a step the result: it must be the last one.
    fn end_with(mut self, node: Node, dtype: DType) -> Self {
        let place = self.add(node, dtype);
        // A step that was there before is the result only where nothing follows it.
        self.program.steps.truncate(place + 1);
        self
    }

    /// Returns an operation on the result.
    pub(crate) fn unary(self, op: UnaryOp, dtype: DType) -> Self {
        let x = self.program.last();
        self.end_with(Node::Unary(op, x), dtype)
    }

    /// Returns the result as another type.
    pub(crate) fn cast(self, dtype: DType) -> Self {
        if self.dtype() == dtype {
            return self;
        }
        let x = self.program.last();
        self.end_with(Node::Cast(x), dtype)
    }

    /// Returns an operation on two results of one type.
    pub(crate) fn binary(mut self, op: BinaryOp, other: &Self, dtype: DType) -> Self {
        let x = self.program.last();
        let y = self.absorb(other);
        self.end_with(Node::Binary(op, x, y), dtype)
    }

    /// `x` where this is true, else `y`.
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
    fn what_two_expressions_share_is_computed_once() {
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
