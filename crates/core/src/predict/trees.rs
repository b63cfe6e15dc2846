//! Boosted regression trees, evaluated: the sum of one leaf of each tree.
//!
//! They are grown elsewhere; here they are numbers in a row, checked once, so that a walk ends whatever is in them.

use serde::{Deserialize, Serialize};

/// A forest of regression trees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trees {
    /// What is predicted before any tree.
    pub start: f64,
    /// Where each tree begins in `nodes`.
    pub roots: Vec<u32>,
    /// The nodes of all trees; those below a node come after it.
    pub nodes: Vec<Node>,
}

/// A node of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Node {
    /// Goes on to one of two nodes.
    Split {
        /// Index of the feature that decides.
        feature: u16,
        /// What is below goes one way, all else the other; no number counts as not below.
        below: f64,
        /// The nodes for what is below and for what is not.
        then: [u32; 2],
    },
    /// Ends, and adds this.
    Leaf(f64),
}

impl Trees {
    /// What the trees say about a row of features, of which there must be as many as [`Trees::check`] was told.
    pub fn value(&self, row: &[f32]) -> f64 {
        self.roots.iter().fold(self.start, |sum, &root| sum + self.leaf(root, row))
    }

    fn leaf(&self, root: u32, row: &[f32]) -> f64 {
        let mut at = root as usize;
        loop {
            match self.nodes[at] {
                Node::Leaf(value) => return value,
                Node::Split { feature, below, then } => {
                    let is_below = f64::from(row[usize::from(feature)]) < below;
                    at = then[usize::from(!is_below)] as usize;
                }
            }
        }
    }

    /// What is wrong with trees that are to read rows of `features` numbers; None: nothing.
    pub fn check(&self, features: usize) -> Option<&'static str> {
        let inside = |node: u32| (node as usize) < self.nodes.len();
        if !self.start.is_finite() {
            return Some("the start of the trees is no number");
        }
        if !self.roots.iter().all(|root| inside(*root)) {
            return Some("a tree begins outside its nodes");
        }
        self.nodes.iter().enumerate().find_map(|(at, node)| match node {
            Node::Leaf(value) if !value.is_finite() => Some("a leaf is no number"),
            Node::Split { feature, .. } if usize::from(*feature) >= features => Some("a tree reads an unknown feature"),
            Node::Split { below, .. } if below.is_nan() => Some("a split is no number"),
            Node::Split { then, .. } if !then.iter().all(|next| inside(*next) && *next as usize > at) => {
                Some("a tree goes back or outside its nodes")
            }
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stump(at: u32, below: f64, values: [f64; 2]) -> [Node; 3] {
        let split = Node::Split { feature: 1, below, then: [at + 1, at + 2] };
        [split, Node::Leaf(values[0]), Node::Leaf(values[1])]
    }

    #[test]
    fn each_tree_adds_the_leaf_that_the_row_leads_to() {
        let nodes = [stump(0, 2.0, [0.5, -0.5]), stump(3, 5.0, [0.25, 4.0])].concat();
        let trees = Trees { start: 1.0, roots: vec![0, 3], nodes };
        assert_eq!(trees.check(2), None);
        assert_eq!(trees.value(&[9.0, 1.0]), 1.75);
        assert_eq!(trees.value(&[9.0, 2.0]), 0.75);
        assert_eq!(trees.value(&[9.0, f32::NAN]), 4.5);
        assert_eq!(Trees::default().value(&[]), 0.0);
    }

    #[test]
    fn trees_that_could_loop_or_read_beyond_are_refused() {
        let good = Trees { start: 0.0, roots: vec![0], nodes: stump(0, 2.0, [0.0, 1.0]).to_vec() };
        let faulty = |change: &dyn Fn(&mut Trees)| {
            let mut trees = good.clone();
            change(&mut trees);
            trees.check(2).is_some()
        };
        assert!(faulty(&|trees| trees.roots.push(3)));
        assert!(faulty(&|trees| trees.start = f64::NAN));
        assert!(faulty(&|trees| trees.nodes[1] = Node::Leaf(f64::INFINITY)));
        assert!(faulty(&|trees| trees.nodes[0] = Node::Split { feature: 2, below: 0.0, then: [1, 2] }));
        assert!(faulty(&|trees| trees.nodes[0] = Node::Split { feature: 0, below: f64::NAN, then: [1, 2] }));
        assert!(faulty(&|trees| trees.nodes[0] = Node::Split { feature: 0, below: 0.0, then: [0, 2] }));
        assert!(faulty(&|trees| trees.nodes[0] = Node::Split { feature: 0, below: 0.0, then: [1, 3] }));
    }
}
