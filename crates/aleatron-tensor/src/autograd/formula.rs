//! Formulas of gradients, computed by one fused elementwise kernel each.

use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::dtype::{Constant, DType};
use crate::expr::Expr;
use crate::op::{BinaryOp, UnaryOp};

/// A value inside a formula.
#[derive(Clone)]
pub(super) struct Value<L>(Expr<L>);

impl<L: Clone + PartialEq> Value<L> {
    pub(super) fn new(expr: Expr<L>) -> Self {
        Self(expr)
    }

    pub(super) fn into_expr(self) -> Expr<L> {
        self.0
    }

    /// Returns a constant of the type of this value.
    pub(super) fn number(&self, value: f64) -> Self {
        Self(Expr::constant(match self.0.dtype() {
            DType::F64 => Constant::double(value),
            dtype => Constant::float(value as f32, dtype),
        }))
    }

    pub(super) fn unary(self, op: UnaryOp) -> Self {
        let dtype = self.0.dtype();
        Self(self.0.unary(op, dtype))
    }

    pub(super) fn binary(self, op: BinaryOp, other: &Self) -> Self {
        let dtype = self.0.dtype();
        Self(self.0.binary(op, &other.0, dtype))
    }

    /// Compares two values.
    pub(super) fn compare(&self, op: BinaryOp, other: &Self) -> Condition<L> {
        Condition(self.0.clone().binary(op, &other.0, DType::Bool))
    }

    /// Compares a value with a number.
    pub(super) fn is(&self, op: BinaryOp, number: f64) -> Condition<L> {
        self.compare(op, &self.number(number))
    }

    pub(super) fn square(self) -> Self {
        self.unary(UnaryOp::Square)
    }
}

/// A condition inside a formula.
#[derive(Clone)]
pub(super) struct Condition<L>(Expr<L>);

impl<L: Clone + PartialEq> Condition<L> {
    pub(super) fn new(expr: Expr<L>) -> Self {
        Self(expr)
    }

    /// Returns the first value where the condition holds, otherwise the second one.
    pub(super) fn select(self, yes: &Value<L>, no: &Value<L>) -> Value<L> {
        Value(self.0.select(&yes.0, &no.0))
    }

    /// Returns 0 where the condition holds, otherwise a value.
    pub(super) fn zero_or(self, value: &Value<L>) -> Value<L> {
        let zero = value.number(0.0);
        self.select(&zero, value)
    }

    /// Returns a value where the condition holds, otherwise 0.
    pub(super) fn value_or_zero(self, value: &Value<L>) -> Value<L> {
        let zero = value.number(0.0);
        self.select(value, &zero)
    }

    pub(super) fn and(self, other: &Self) -> Self {
        Self(self.0.binary(BinaryOp::And, &other.0, DType::Bool))
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident)*) => {$(
        impl<L: Clone + PartialEq> $trait for Value<L> {
            type Output = Self;

            fn $method(self, other: Self) -> Self {
                self.binary(BinaryOp::$trait, &other)
            }
        }

        impl<L: Clone + PartialEq> $trait<f64> for Value<L> {
            type Output = Self;

            fn $method(self, number: f64) -> Self {
                let number = self.number(number);
                self.binary(BinaryOp::$trait, &number)
            }
        }
    )*};
}

operators!(Add add Sub sub Mul mul Div div);

impl<L: Clone + PartialEq> Neg for Value<L> {
    type Output = Self;

    fn neg(self) -> Self {
        self.unary(UnaryOp::Neg)
    }
}

/// A formula of a gradient.
pub(crate) trait Formula: Sync {
    /// Builds the expression over the arguments, which are floats of one type and conditions.
    fn build<L: Clone + PartialEq>(&self, arguments: &[Expr<L>]) -> Expr<L>;
}
